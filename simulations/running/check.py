"""Describe an experiment without running it: its network, its data and the cost of its rounds."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from kernelswarm.agents.nodes.populating import in_python
from kernelswarm.graphs.cost import BYTES, RoundCost, flooded_cost, pooled_cost, round_cost, vector_cost
from kernelswarm.graphs.diagnostics import diagnose
from kernelswarm.graphs.directed import who_asks
from kernelswarm.protocols.contract import StackedRule, every_of, fulfils, requirement_of, spans
from kernelswarm.protocols.controls import flooded_share
from kernelswarm.protocols.links.clocks import Clock, forgets
from kernelswarm.protocols.links.distortion import EXACT
from kernelswarm.protocols.links.links import Links
from kernelswarm.protocols.replay import certainty_of, replay_of
from kernelswarm.protocols.summaries import SummaryRule
from kernelswarm.simulations.core.data_description import DOUBTS
from kernelswarm.simulations.core.errors import number_of, shown, some
from kernelswarm.simulations.core.machine import one_thread
from kernelswarm.simulations.core.node_names import node_names
from kernelswarm.simulations.core.parallel import cores
from kernelswarm.simulations.data.pooled import TravellingSamples, links_of, sample_bytes
from kernelswarm.simulations.engine.block import AgentPlan
from kernelswarm.simulations.engine.nodes import without_data
from kernelswarm.simulations.engine.partition import crossing, partition
from kernelswarm.simulations.engine.ray_backend import Ray
from kernelswarm.simulations.engine.serial import Serial
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.experiment.parts import describe
from kernelswarm.simulations.running.batch import rows_until, unfitted, unknown
from kernelswarm.simulations.running.footprint import in_words
from kernelswarm.simulations.running.forecast import (
    Forecast,
    expected,
    forecast,
    latest,
    message_bytes,
    privacy_of,
    reach,
    scalars_of_bands,
    share_awake,
    share_joined,
    transit,
)
from kernelswarm.simulations.running.network import Network, open_network
from kernelswarm.simulations.running.unsuited import finding, undefended, warning
from kernelswarm.simulations.running.verdict import EACH_BY_ITSELF

PLANNED = 10_000
"""Maximum number of agents that are planned; the others are of the same kinds."""

PLACES = 1000
"""Number of evenly spaced places over which the share of rounds awake is averaged."""

LOOKED_AT = 8
"""Maximum number of nodes whose first steps are checked."""

FAR = 15
"""The largest diameter without a warning."""

COMPILED = "compiled rounds"


@dataclass(frozen=True)
class Section:
    """A heading with lines of (name, value) under it."""

    title: str
    lines: list[tuple[str, str]] = field(default_factory=list)


def examine(experiment: Experiment) -> list[Section]:
    """Build the network, open the stream and describe a run of the experiment, without running it.

    Raises
    ------
    InputError
        The experiment would be refused.
    """
    some_of = None if isinstance(experiment.backend, Ray) else PLANNED  # its blocks depend on all agents
    network = open_network(experiment, some_of)
    experiment = network.experiment  # with resolved keys
    sections = [_experiment(experiment, network), _network(experiment, network), _stream(experiment, network)]
    for title, part in (("learner", experiment.learner), ("protocol", experiment.protocol)):
        table = describe(part)
        lines = [(key, shown(value)) for key, value in table.items() if key != "name"]
        sections.append(Section(f"{title}: {table['name']}", lines))
    overrides = [override for override in experiment.overrides if override.learner]
    own = sum(len(override.nodes) for override in overrides)
    if own:
        tables = "1 table" if len(overrides) == 1 else f"{len(overrides)} tables"
        sections[3].lines.append(("nodes of their own", f"{own}, by {tables} [[node]]"))
    sections[3].lines.append(("outputs", f"{network.outputs}"))
    few = network.plans[:: -(-len(network.plans) // LOOKED_AT)]
    names = node_names(network.adjacency.labels.tolist(), network.source.description.nodes)
    with one_thread():  # as in a run
        stalls = "" if experiment.protocol.offline is not None else warning(few, names)
        of_learner = [*filter(None, [stalls]), *finding(network.plans, names).values()]
    of_protocol = undefended(network.plans, experiment.protocol).values()
    for section, texts in ((sections[3], of_learner), (sections[4], of_protocol)):
        section.lines.extend(("warning", text) for text in texts)
    others = _faults(experiment, network), _links_and_clock(experiment, network)
    sections += [*(section for section in others if section.lines), _cost(experiment, network)]
    return sections


def _faults(experiment: Experiment, network: Network) -> Section:
    """Describe the faulty nodes, by name."""
    names = node_names(network.adjacency.labels.tolist(), network.source.description.nodes)
    section = Section("faulty nodes")
    for fault in experiment.faults:
        value = "" if fault.kind in ("sign", "silent") else f" {shown(fault.value)}"
        until = "on" if fault.last == math.inf else f"to {fault.last:.0f}"
        words = f"{fault.kind}{value} of {fault.of} from round {fault.first} {until}"
        section.lines.append((some([str(names[int(node)]) for node in fault.nodes]), words))
    return section


def as_text(sections: list[Section]) -> str:
    """Return the sections as indented lines, their values in one column.

    Examples
    --------
    >>> print(as_text([Section("network: ring", [("nodes", "20"), ("edges", "20")])]))
    network: ring
      nodes  20
      edges  20
    """
    wide = max(len(name) for section in sections for name, _ in section.lines)
    lines = []
    for section in sections:
        lines.append(section.title)
        lines += [f"  {name:<{wide}}  {value}" for name, value in section.lines]
    return "\n".join(lines)


def _experiment(experiment: Experiment, network: Network) -> Section:
    rounds = f"{network.rounds:,}"
    if network.rounds < experiment.rounds:
        rounds += f" of the {experiment.rounds:,} asked for: then the data is used up"
    evaluations = -(-network.rounds // experiment.evaluate_every)
    backend = describe(experiment.backend)
    blocks = [network.plans]
    lines = _regret(experiment, network)
    if experiment.protocol.offline is not None:
        solver = _solver(experiment, network)
        return Section("experiment", [("seed", str(experiment.seed)), ("rounds", rounds), *solver, *lines])
    if isinstance(experiment.backend, Ray):
        blocks, line = _blocks(experiment.backend, network)
        lines.append(line)
        if len(blocks) > cores() and experiment.backend.address is None and experiment.protocol.communicates:
            lines.append(("warning", _in_turns(len(blocks))))
    way = _way(blocks)
    if isinstance(experiment.backend, Serial):
        nodes = network.adjacency.number_of_nodes() if way == COMPILED else 1
        serial, words = _threads(experiment.backend, nodes)
        backend, way = describe(serial), way + words
    return Section(
        "experiment",
        [
            ("seed", str(experiment.seed)),
            ("rounds", rounds),
            ("evaluations", f"{evaluations:,}, every {number_of(experiment.evaluate_every, 'round')}"),
            ("backend", " ".join([backend["name"], *(f"{k} = {shown(v)}" for k, v in backend.items() if k != "name")])),
            *lines,
            ("execution", way),
        ],
    )


def _solver(experiment: Experiment, network: Network) -> list[tuple[str, str]]:
    """Describe the batch fit after the last round."""
    limits = experiment.protocol.offline
    assert limits is not None
    samples = sum(rows_until(network.source, network.rounds * experiment.learner.batch_size))
    rows = min(samples, limits.rows)
    fitted = f"all {samples:,} samples" if rows == samples else f"{rows:,} of {samples:,} samples, chosen evenly"
    points = min(rows, limits.landmarks)
    exact = " (every sample: the solution is exact)" if points == rows else ""
    return [
        ("evaluations", "1, after the last round"),
        ("backend", "this process, whatever backend is named"),
        ("execution", f"one solver after the last round, on {fitted}"),
        ("landmarks", f"{points:,}{exact}, {in_words(BYTES * rows * points)} of memory"),
    ]


def _blocks(backend: Ray, network: Network) -> tuple[list[list[AgentPlan]], tuple[str, str]]:
    """Describe the backend's processes, and the messages between them."""
    plans = network.plans
    # The number of a cluster's cores is unknown before the connection: this machine's cores are counted.
    size = backend.size(len(plans), cores())
    backend.require_room(plans)
    blocks = partition(plans, size)
    fewest, most = min(map(len, blocks)), max(map(len, blocks))
    shown = f"{len(blocks):,} of {'' if fewest == most else 'up to '}{most:,} {'node' if most == 1 else 'nodes'}"
    if most > 1 and len(blocks) > 1 and plans[0].rule.communicates:
        cut, edges = crossing(blocks), network.adjacency.number_of_edges()
        shown += f", {cut:,} of the {edges:,} edges between them"
    return blocks, ("actors", shown)


def _in_turns(actors: int) -> str:
    """Describe the cost of more actors than cores, as measured on an idle machine of 2 cores."""
    return (
        f"{actors:,} actors take turns on {number_of(cores(), 'core')}, and wait for one another in each round. On 2 "
        "cores 20 actors of a node started in 15 s, and took 235 times the serial time a round; 2 actors of 250 nodes "
        '2.1 times: backend.nodes_per_actor = "auto" makes one actor for each core'
    )


def _way(blocks: list[list[AgentPlan]]) -> str:
    """Describe whether rounds are compiled, and the Python parts that they call."""
    called = in_python([plan.learner for plans in blocks for plan in plans], blocks[0][0].rule)
    return COMPILED if called is None else f"{COMPILED}, which call {called} in Python"


def _threads(backend: Serial, nodes: int) -> tuple[Serial, str]:
    """Return the backend with its number of threads, and the line on the nodes in each."""
    size = backend.size(nodes)
    threads = -(-nodes // size)
    words = f", in up to {threads} threads of {size:,} {'node' if size == 1 else 'nodes'}" if threads > 1 else ""
    return replace(backend, threads=threads), words


def _network(experiment: Experiment, network: Network) -> Section:
    table, rule, found = experiment.to_dict()["topology"], experiment.protocol, diagnose(network.adjacency)
    names = node_names(network.adjacency.labels.tolist(), network.source.description.nodes)
    lines = found.describe() | ({"directed": asked} if (asked := who_asks(network.adjacency, names)) else {})
    if len(found.parts) > 1 and rule.pooled:
        lines["parts"] += ": the one learner sees the samples of all"
    elif len(found.parts) > 1 and (rule.communicates or spans(rule)):
        lines["parts"] += f": {EACH_BY_ITSELF}"
    distance = found.diameter_lower
    settled = distance**2 // 3  # as on a ring: (degree + 1) / connectivity = 3 nodes^2 / (4 pi^2)
    if rule.communicates and not (rule.pooled or spans(rule)) and distance > FAR and settled > network.rounds:
        lines["warning"] = (
            f"differences even out in about diameter^2 / 3 = {settled:,} rounds, and there are {network.rounds:,}: "
            'take a network of shorter distances, such as topology.name = "erdos_renyi", or more rounds'
        )
    return Section(f"network: {table['name']}", list(lines.items()))


def _stream(experiment: Experiment, network: Network) -> Section:
    source = network.source
    targets = f"{source.targets}" if source.classes is None else f"{source.classes} classes"
    lines = [("inputs", str(source.inputs)), ("targets", targets)]
    for what, names in (("labels", source.description.classes), ("names of nodes", source.description.nodes)):
        if names is not None:
            lines.append((what, some([str(name) for name in names.tolist()])))
    if source.lengths is None:
        lines.append(("samples a node", "endless"))
    else:
        shortest, longest = min(length for length in source.lengths if length), max(source.lengths)
        lines.append(("samples a node", f"{shortest:,}" + ("" if shortest == longest else f" to {longest:,}")))
    for name, value in source.facts.items():
        what, _, column = name.partition("_of_")
        called = f"{what} of {column}" if what in ("mean", "deviation") else name.replace("_", " ")
        text = f"{value:.4g}" if isinstance(value, float) else str(value)
        lines.append(("warning" if name in DOUBTS else called, text))
    return Section(f"stream: {describe(experiment.stream)['name']}", lines)


def _links_and_clock(experiment: Experiment, network: Network) -> Section:
    """Describe the average effect of unreliable links and clocks."""
    rule, links, clock = experiment.protocol, experiment.links, experiment.clock
    section = Section("links and clock")
    travelling = network.plans[0].source
    if rule.pooled and not isinstance(travelling, TravellingSamples):
        ignored = f"ignored: {describe(rule)['name']} has one learner, to which all samples go on ideal links"
        section.lines.extend((key, ignored) for key, part in (("links", links), ("clock", clock)) if not part.ideal)
        return section
    if isinstance(travelling, TravellingSamples):
        if not links.ideal:
            section.lines.append(("links", _travelling(travelling, network)))
    elif not links.ideal and not rule.communicates:
        section.lines.append(("links", f"nothing is sent: the protocol is {describe(rule)['name']}"))
    elif not links.ideal:
        found = forecast(links, network.plans)
        exact, sent = message_bytes(network.plans, EXACT), message_bytes(network.plans, links.bits)
        texts = _fates("messages", found, links, exact, sent)
        if links.trigger.threshold:
            texts.append("fewer by the trigger")
        busy = transit(links, network.plans)
        if busy > 1:
            texts.append(f"one in {busy:,} rounds on each edge")
        section.lines.append(("links", ", ".join(texts)))
    steady = links.ideal and clock.ideal and network.source.calendars is None
    fragile = None if steady else requirement_of(network.plans[0].rule)
    if fragile is not None:
        section.lines.append(("warning", f"functions grow without bound in the long run: {fragile}"))
    found_privacy = privacy_of(links, network.plans, network.source)
    if found_privacy is not None:
        section.lines.append(("privacy", found_privacy.text(links.delta)))
    timetable = None if network.plans[0].conditions is None else network.plans[0].conditions.timetable
    if timetable is not None and rule.communicates:
        adjacency = network.adjacency
        found_edges = reach(timetable, adjacency.number_of_nodes(), adjacency.edges, network.rounds)
        over = f"the first {found_edges.rounds:,} rounds"
        joined = (
            f"those of {over} together do not connect all nodes"
            if found_edges.window is None
            else (f"those of any {found_edges.window:,} rounds in a row connect all nodes, by {over}")
        )
        section.lines.append(("edges", f"{found_edges.share:.3g} of them there on average; {joined}"))
    if not clock.ideal:
        there = "awake" if clock.listens else "there"
        last = latest(clock, network.adjacency.labels.tolist())
        when = f"nodes {there} in {_awake(clock, network):.3g} of the rounds"
        when += f": they join up to round {last:,} and stay" if last else ""
        when += "; who comes back has forgotten what it learned" if forgets(clock) else ""
        section.lines.append(("clock", when))
    return section


def _travelling(samples: TravellingSamples, network: Network) -> str:
    """Describe the losses and delays of samples on their way to the one learner."""
    source, links = network.source, samples.conditions.links
    found = expected(links, links_of(network.adjacency.labels.tolist()), samples.conditions.transit)
    exact, sent = (
        sample_bytes(source.inputs, source.targets, source.classes is not None, samples.batch_size, bits)
        for bits in (EXACT, links.bits)
    )
    return ", ".join(_fates("messages to the one learner", found, links, exact, sent))


def _fates(messages: str, found: Forecast, links: Links, exact: float, sent: float) -> list[str]:
    """Return the losses, delays and sizes of messages, in words."""
    texts = [f"{found.lost:.3g} of the {messages} lost", f"{found.delay:.3g} rounds late on average"]
    if found.late >= 0.0005:
        texts.append(f"{found.late:.3g} dropped as older than {links.max_age} rounds")
    return [*texts, f"{sent:.4g} bytes each" + ("" if sent == exact else f" instead of {exact:.4g}")]


def _regret(experiment: Experiment, network: Network) -> list[tuple[str, str]]:
    """Describe why regret is not measured, if the experiment asks for it."""
    asked = experiment.evaluation
    without = unknown(network) if asked.regret or asked.dynamic_regret else ""
    without = without or (unfitted(network) if asked.regret else "")
    return [("regret", f"not measured: {without}")] if without else []


def _awake(clock: Clock, network: Network) -> float:
    absences = getattr(network.plans[0].conditions, "absences", None)
    share = 1.0 if absences is None else absences.share(network.rounds)
    if clock.ideal:
        return share
    joined = share_joined(clock, network.adjacency.labels.tolist(), network.rounds)
    return share * joined * share_awake(clock, np.linspace(0.0, 1.0, PLACES, endpoint=False))


def _stacked_cost(rule: StackedRule, network: Network, sizes: list[int]) -> RoundCost:
    """Count the numbers of a round: the points once, each copy's values, and the logarithms of mixture weights."""
    adjacency, inputs = network.adjacency, network.source.inputs
    found = vector_cost(adjacency, len(rule.members))
    for member in rule.members:
        if member.communicates:
            assert member.form != "parameters"
            form, implicit = member.form, member.step == "implicit"
            duals, replay = member.sends_duals, replay_of(member).points
            each = round_cost(adjacency, inputs, network.outputs, sizes, form, duals, implicit, replay)
            found = RoundCost(found.messages, found.scalars + each.scalars)
            inputs = 0
    return found


def _cost(experiment: Experiment, network: Network) -> Section:
    rule, adjacency, inputs = experiment.protocol, network.adjacency, network.source.inputs
    learners, without = experiment.learners_for(adjacency.labels.tolist()), without_data(experiment)
    sizes = [0 if node in without else learner.batch_size for node, learner in learners.items()]
    if rule.pooled:
        cost = pooled_cost(adjacency, inputs, network.source.targets, sizes)
    elif flooded_share(rule):
        cost = flooded_cost(adjacency, inputs, network.source.targets, sizes, flooded_share(rule))
    elif network.plans[0].sends_vectors:
        cost = vector_cost(adjacency, network.plans[0].vector_length(), tree=spans(rule))
    elif isinstance(rule, StackedRule):
        cost = _stacked_cost(rule, network, sizes)
    elif rule.communicates:
        assert rule.form != "parameters"
        implicit, replay = rule.step == "implicit", replay_of(rule).points
        messages = rule.form, rule.sends_duals, implicit, replay, certainty_of(rule) > 0.0
        cost = round_cost(adjacency, inputs, network.outputs, sizes, *messages)
    else:
        cost = RoundCost(0, 0)
    if rule.communicates and not rule.pooled:
        cost = RoundCost(cost.messages, cost.scalars + cost.messages * scalars_of_bands(network.plans))
    every, most = every_of(rule), ""
    # Messages that arrive in the round after the last have been sent.
    exchanges, travelling = (network.rounds + (every > 1)) // every, network.plans[0].source
    total = float(exchanges * cost.bytes)
    if isinstance(travelling, TravellingSamples):
        total = travelling.traffic(network.rounds).bytes
    if rule.communicates and not rule.pooled:
        sent = message_bytes(network.plans, experiment.links.bits) / (message_bytes(network.plans, EXACT) or 1.0)
        total *= sent * _awake(experiment.clock, network) / -(-transit(experiment.links, network.plans) // every)
        fewer = experiment.links.trigger.threshold or spans(rule) or fulfils(rule, SummaryRule)
        most = "at most " if fewer else ""
    elif spans(rule):
        most = "at most "  # the last exchange may be unfinished
    if rule.offline is not None:
        # Later epochs repeat the rows of the first, and are not counted.
        samples = sum(rows_until(network.source, network.rounds * experiment.learner.batch_size))
        total = BYTES * samples * (network.source.inputs + network.source.targets)
    return Section(
        "cost",
        [
            ("samples a round", f"{sum(sizes):,}"),
            ("messages a round", f"{round(cost.messages / every, 2):,.15g}"),
            ("scalars a round", f"{round(cost.scalars / every, 2):,.15g}"),
            ("sent in the whole run", most + in_words(total)),
            ("memory", f"{in_words(network.memory)} and the dictionaries"),
        ],
    )
