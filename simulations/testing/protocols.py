"""The contracts of a protocol and of a distance: couplings pull neighbours together, with explicit link states."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from kernelswarm.agents.nodes.snapshot import leaves
from kernelswarm.arrays import Array, Booleans
from kernelswarm.protocols.compiled import CONSTRAINT_VALUES, COUPLING_GRADIENT, COUPLING_GRADIENT_AT_NEIGHBOR
from kernelswarm.protocols.contract import FLAGS, LinkRecord, Predictions, Pull, Rule, StackedRule, fulfils, is_pairwise
from kernelswarm.protocols.core.addresses import ready
from kernelswarm.protocols.distances import ConstrainedDistance, Distance
from kernelswarm.protocols.parameters.contract import AnyRule, ParameterRule
from kernelswarm.protocols.summaries import SummaryRule
from kernelswarm.simulations.running.simulation import simulate
from kernelswarm.simulations.testing.networks import (
    FEATURES,
    LEARNER,
    MIXTURE,
    checked,
    compiled_form,
    require,
    require_close,
    require_equal,
    require_shape,
    require_the_same_bits,
    sealed,
    small_network,
)
from kernelswarm.simulations.testing.vectors import neighborhood, ran

# The contract of a protocol with several copies of each node's learner.


def ran_stacked(rule: StackedRule, batch: int, outputs: int) -> list[Any]:
    """Run rounds of a node, one of them without samples; returns its states."""
    generator = np.random.default_rng(0)
    count, around = len(rule.members), neighborhood(batch)
    talking = [member for member in rule.members if member.communicates]
    require(all(member.form == "symmetric" for member in talking), rule, "copies that communicate are symmetric")
    senders = [member for member in rule.members if member.sends_duals]
    require(senders in ([], [rule.members[-1]]), rule, "the last copy alone may send dual variables")
    state, found = rule.begin(around), []
    for round in range(1, 20):
        before, size = copy.deepcopy(state), 0 if round % 5 == 0 else batch
        sent = sealed(np.log(generator.dirichlet(np.ones(count), len(around.neighbors))))
        values = generator.normal(size=(count, size, outputs))
        mixture = np.tensordot(rule.mixture_weights(state), values, axes=1)
        seen = Predictions(
            sealed(values),
            sealed(np.sum(values**2, axis=(1, 2)) / 2.0),
            sealed(mixture),
            sealed(mixture - 1.0),
            1.0,
            True,
        )
        following = rule.learn(rule.receive(state, sent), seen)
        sentence = "receive and learn leave the state that they are given as it is"
        require_equal(list(leaves(state)), list(leaves(before)), rule, sentence)
        state = following
        mixture_weights = rule.mixture_weights(state)
        require_shape(mixture_weights, (count,), rule, "mixture_weights")
        fine = bool(np.all(mixture_weights >= 0.0)) and abs(float(mixture_weights.sum()) - 1.0) < 1e-9
        require(fine, rule, f"shares are not negative and have the sum 1, not {mixture_weights.tolist()}")
        require_shape(rule.send(state), (count,), rule, "send")
        found.append([np.array(leaf) for leaf in leaves(state)])
    return found


BATCH, OUTPUTS, DEGREE = 3, 2, 3
SILENT = 1
"""The edge without a message in some rounds."""
FORMS = {"form": ("one_sided", "symmetric"), "step": ("explicit", "implicit")}


def check_protocol(protocol: AnyRule, stream: object = "sine_regression") -> None:
    """Check that a protocol keeps its contract, ``protocols/contract.py`` or ``protocols/parameters/contract.py``.

    The flags exist. With communication: at agreement there is no coupling; pulls are bounded as required by implicit
    steps and opposite at the other end, at the node's own samples and, if symmetric, at its neighbours'; the state of
    links consists of arrays, numbers and tuples, and is not changed by ``advance``; dual variables are finite and not
    negative, and exist if ``sends_duals``. For a protocol of vectors: vectors have the same length in all rounds,
    weights change only with the neighbours' vectors, and the state is not changed in place. For an ensemble: mixture
    weights add up to 1, and the state is not changed in place. A small network of `polk`, or of `random_features`, has
    the same bits compiled, with methods, in blocks, and resumed.

    Parameters
    ----------
    protocol : Rule, ParameterRule or StackedRule
        A frozen dataclass.
    stream : Stream, or its value in an experiment file
        Data of the small network.

    Raises
    ------
    AssertionError
        A property does not hold; the message names it.
    InputError
        The part is not a protocol, or the network is invalid.
    """
    with checked("protocol", protocol):
        for flag in FLAGS:
            require(hasattr(protocol, flag), protocol, f"a protocol declares {flag}")
        sends_vectors = isinstance(protocol, ParameterRule | SummaryRule)
        for flag, known in (FORMS | ({"form": ("parameters",)} if sends_vectors else {})).items():
            found = getattr(protocol, flag)
            require(found in known, protocol, f"{flag} is {' or '.join(known)}, not {found!r}")
        if protocol.communicates:
            first, again = _known(protocol), _known(protocol)
            sentence = "the same rounds give the same links: what changes goes in and comes out as the state"
            require_equal(again, first, protocol, sentence)
        learner = LEARNER
        if isinstance(protocol, ParameterRule):
            learner = MIXTURE if protocol.mixes else FEATURES
        description = small_network(learner, protocol, stream)
        if protocol.offline is None:
            require_the_same_bits(description, protocol)
        else:  # fitted after the last round
            found, again = (simulate(description).summary["digest"] for _ in range(2))
            require(found == again, protocol, "the same experiment gives the same functions")


def _known(protocol: AnyRule) -> list[Any]:
    """Run rounds of a node under a protocol of any family; returns its states."""
    if isinstance(protocol, ParameterRule):
        return ran(protocol)
    if isinstance(protocol, StackedRule):
        return ran_stacked(protocol, BATCH, OUTPUTS)
    return [] if isinstance(protocol, SummaryRule) else _ran(protocol)


def check_distance(distance: Distance) -> None:
    """Check that a distance keeps its contract, ``protocols/distances.py``.

    Values are not negative, and 0 between equal values. A pull is the derivative of ``values`` with respect to the own
    values, times the strength, bounded as required by implicit steps, and opposite at the other end. If ``smooth``, the
    bound is the same at all values. Compiled functions give the same bits. All of this is checked for one output and
    for several. If proximity may constrain the distance, the constraint value is the mean of ``values`` times
    ``multiple``, at most the bound of ``growth``.

    Parameters
    ----------
    distance : Distance
        A frozen dataclass.

    Raises
    ------
    AssertionError
        A property does not hold; the message names it.
    InputError
        The part is not a distance.
    """
    with checked("distance", distance):
        for flag in ("smooth", "degree"):
            require(hasattr(distance, flag), distance, f"a distance declares {flag}")
        generator = np.random.default_rng(0)
        for outputs in (1, 4):
            own = sealed(generator.normal(size=(BATCH, outputs)))
            answers = sealed(generator.normal(size=(DEGREE, BATCH, outputs)))
            strengths = sealed(generator.exponential(size=DEGREE))
            found = distance.pull(own, answers, strengths)
            _is_a_pull(distance, found, own - answers, "pull")
            for j in range(DEGREE):
                strength, theirs = float(strengths[j]), answers[j]
                here = Pull(found.gradients[j], found.curvatures[j])
                _is_a_derivative(distance, here.gradients, own, theirs, strength)
                back = distance.pull_back(strength, own, theirs)
                require_equal(tuple(back), tuple(here), distance, "pull_back is pull at a neighbour's points")
                _is_opposite(distance, here, distance.pull_back(strength, theirs, own), "pull_back")
                require_close(distance.values(own, own), np.zeros(BATCH), distance, "0 at itself", relative=0.0)
                require(bool(np.all(distance.values(own, theirs) >= 0.0)), distance, "values are not negative")
                if distance.smooth:
                    same = np.full(BATCH, here.curvatures[0])
                    require_close(
                        here.curvatures, same, distance, "where smooth, one bound for all values", relative=0.0
                    )
                else:
                    varied = bool(np.ptp(here.curvatures) > 0.0)
                    require(varied, distance, "one bound for all values is smooth = True, as explicit steps need")
            _same_compiled(distance, own, answers, strengths, found)
            if fulfils(distance, ConstrainedDistance):
                _is_a_constraint(distance, own, answers)


def _is_a_constraint(distance: ConstrainedDistance, own: Array, answers: Array) -> None:
    found = distance.constraint_values(own, answers)
    wanted = [distance.multiple * np.mean(distance.values(own, theirs)) for theirs in answers]
    require_close(
        found, np.array(wanted), distance, "constraint_values are the means of multiple times values", relative=1e-9
    )
    growth, power = distance.growth(own.shape[1])
    for size in (1e-3, 1.0, 1e3):
        apart = own + size * (answers - own)
        squares = np.mean(np.sum((apart - own) ** 2, axis=-1), axis=-1)
        fine = bool(np.all(distance.constraint_values(own, apart) <= growth * squares**power * (1.0 + 1e-9)))
        require(fine, distance, "constraint_values are at most a g^q of the mean square g, with (a, q) = growth")
    form = compiled_form(distance, "distance")
    if form is None or form.constraint is None:
        return
    duals = sealed(np.abs(answers[:, 0, 0]))
    filled = Pull(np.empty(answers.shape), np.empty(answers.shape[:2]))
    ready(form.constraint.coupling_gradient, COUPLING_GRADIENT)(np.zeros(1), duals[np.newaxis], own, answers, *filled)
    pulled = distance.pull(own, answers, distance.multiple * duals)
    require_equal(tuple(filled), tuple(pulled), distance, "the compiled constraint pulls as multiple of h does")
    back = Pull(np.empty(own.shape), np.empty(len(own)))
    links, dual = np.empty((1, 0)), float(duals[0])
    ready(form.constraint.coupling_gradient_at_neighbor, COUPLING_GRADIENT_AT_NEIGHBOR)(
        np.zeros(1), links, 0, dual, own, answers[0], *back
    )
    pulled = distance.pull_back(distance.multiple * dual, own, answers[0])
    require_equal(tuple(back), tuple(pulled), distance, "the compiled constraint pulls back as multiple of h does")
    if form.constraint.constraint_values is not None:
        constraint_values = np.empty(len(answers))
        ready(form.constraint.constraint_values, CONSTRAINT_VALUES)(own, answers, constraint_values)
        require_equal(
            constraint_values, found, distance, "the compiled constraint_values have the bits of constraint_values"
        )


def _is_a_derivative(distance: Distance, gradients: Array, own: Array, theirs: Array, strength: float) -> None:
    for c in range(own.shape[1]):
        step = np.zeros(own.shape)
        step[:, c] = 1e-6
        slopes = (distance.values(own + step, theirs) - distance.values(own - step, theirs)) / 2e-6
        sentence = "pull is the strength times the derivative of values by the own values"
        require_close(gradients[:, c], strength * slopes, distance, sentence, relative=1e-5, absolute=1e-8)


def _same_compiled(distance: Distance, own: Array, answers: Array, strengths: Array, found: Pull) -> None:
    form = compiled_form(distance, "distance")
    if form is None:
        return
    filled = Pull(np.empty(answers.shape), np.empty(answers.shape[:2]))
    ready(form.coupling_gradient, COUPLING_GRADIENT)(strengths, strengths[np.newaxis], own, answers, *filled)
    require_equal(tuple(filled), tuple(found), distance, "the compiled pull has the bits of pull")
    numbers, back = strengths[:1].copy(), Pull(np.empty(own.shape), np.empty(len(own)))
    ready(form.coupling_gradient_at_neighbor, COUPLING_GRADIENT_AT_NEIGHBOR)(
        numbers, np.empty((1, 0)), 0, 0.0, own, answers[0], *back
    )
    wanted = distance.pull_back(float(strengths[0]), own, answers[0])
    require_equal(tuple(back), tuple(wanted), distance, "the compiled pull_back has the bits of pull_back")


def _ran(rule: Rule) -> list[Any]:
    """Run rounds of a node with three neighbours; returns its link states."""
    generator = np.random.default_rng(0)
    links = rule.init(neighborhood(BATCH, OUTPUTS))
    found: list[Any] = []
    taken = np.zeros(DEGREE, dtype=np.bool_)
    for round in range(1, 20):
        taken |= _couples(rule, links, generator)
        before = copy.deepcopy(links)
        constraint_values = sealed(generator.exponential(size=DEGREE))
        excess_loss = sealed(generator.normal(size=DEGREE)) if rule.compares_losses else None
        if round % 3 == 0:
            constraint_values, excess_loss = (
                _unheard(constraint_values),
                None if excess_loss is None else _unheard(excess_loss),
            )
        following = rule.advance(links, constraint_values, excess_loss, 0.1, round)
        if round % 3 == 0:
            shown = _shown(rule.record(following, DEGREE)), _shown(rule.record(links, DEGREE))
            for (name, now), (_, then) in zip(*shown, strict=True):
                sentence = f"the {name} of an edge whose constraint value is NaN, without a message, stay as they are"
                require_equal(now[SILENT], then[SILENT], rule, sentence)
        require_equal(
            list(leaves(links)), list(leaves(before)), rule, "advance leaves the links it is given as they are"
        )
        links = following
        _shows_its_links(rule, links)
        found.append([np.array(leaf) for leaf in leaves(links)])
    # Rules that compare losses may leave out neighbours.
    ignored = np.flatnonzero(~taken & is_pairwise(rule) & (not rule.compares_losses)).tolist()
    require(not ignored, rule, f"coupling_gradient pulls where neighbours disagree: that of {ignored} is always 0")
    return found


def _unheard(numbers: Array) -> Array:
    """Return the numbers of a round without a message on one edge."""
    numbers = numbers.copy()
    numbers[SILENT] = np.nan
    return sealed(numbers)


def _couples(rule: Rule, links: Any, generator: np.random.Generator) -> Booleans:
    """Check the pulls for a state of links; returns which neighbours pull, (deg,)."""
    own = sealed(generator.normal(size=(BATCH, OUTPUTS)))
    agreed = sealed(np.tile(own, (DEGREE, 1, 1)))
    gradients, _ = rule.coupling_gradient(links, own, agreed)
    require_close(
        gradients,
        np.zeros(agreed.shape),
        rule,
        "there is no coupling where neighbours agree",
        relative=0.0,
        absolute=1e-12,
    )
    answers = sealed(generator.normal(size=(DEGREE, BATCH, OUTPUTS)))
    found = rule.coupling_gradient(links, own, answers)
    pulls: Booleans = np.any(found[0] != 0.0, axis=(1, 2))
    pairwise = is_pairwise(rule)
    if pairwise:
        _is_a_pull(rule, found, own - answers, "coupling_gradient")
    else:
        _has_shapes(rule, found, answers.shape, "coupling_gradient")
    for place in range(DEGREE if pairwise else 0):
        back = rule.coupling_gradient(links, answers[place], sealed(np.tile(own, (DEGREE, 1, 1))))
        _is_opposite(
            rule, Pull(*(part[place] for part in found)), Pull(*(part[place] for part in back)), "coupling_gradient"
        )
    if rule.form == "symmetric":
        theirs = sealed(generator.normal(size=(BATCH, OUTPUTS)))
        for place in range(DEGREE):
            dual = float(generator.exponential())
            gradients, _ = rule.coupling_gradient_at_neighbor(links, place, theirs, theirs, dual)
            sentence = "there is no coupling where a neighbour's own values are met"
            require_close(gradients, np.zeros(theirs.shape), rule, sentence, relative=0.0, absolute=1e-12)
            found = rule.coupling_gradient_at_neighbor(links, place, own, theirs, dual)
            _is_a_pull(rule, found, own - theirs, "coupling_gradient_at_neighbor")
            if pairwise:
                back = rule.coupling_gradient_at_neighbor(links, place, theirs, own, dual)
                _is_opposite(rule, found, back, "coupling_gradient_at_neighbor")
    return pulls


def _is_a_pull(part: object, found: Pull, apart: Array, name: str) -> None:
    """Require gradients and bounds of the right shapes, with which a limited step ends no further from agreement."""
    gradients, curvatures = found
    _has_shapes(part, found, apart.shape, name)
    towards, squares = np.sum(gradients * apart, axis=-1), np.sum(gradients**2, axis=-1)
    require(
        bool(np.all(curvatures * towards >= squares * (1.0 - 1e-9))),
        part,
        f"the curvatures of {name} bound its pull: r <g, d> >= ||g||^2 for the gradient g, the bound r and the "
        "difference d of the values",
    )


def _has_shapes(part: object, found: Pull, shape: tuple[int, ...], name: str) -> None:
    """Require gradients of a shape, and curvatures that are finite and not negative."""
    gradients, curvatures = found
    require_shape(gradients, shape, part, f"{name}'s gradients")
    require_shape(curvatures, shape[:-1], part, f"{name}'s curvatures")
    fine = (curvatures >= 0.0) & np.isfinite(curvatures)
    require(bool(fine.all()), part, f"the curvatures of {name} are finite and not negative, not {curvatures.tolist()}")


def _is_opposite(part: object, found: Pull, back: Pull, name: str) -> None:
    sentence = f"{name} pulls both ends of an edge alike, in opposite directions"
    require_close(back.gradients, -found.gradients, part, sentence, relative=1e-9, absolute=1e-12)
    require_close(back.curvatures, found.curvatures, part, f"{name} bounds both ends alike", relative=1e-12)


def _shows_its_links(rule: Rule, links: Any) -> None:
    duals = rule.duals(links)
    require(duals is not None or not rule.sends_duals, rule, "a protocol that sends dual variables has them")
    if duals is not None:
        require_shape(duals, (DEGREE,), rule, "duals")
        fine = (duals >= 0.0) & np.isfinite(duals)
        require(bool(fine.all()), rule, f"dual variables are finite and not negative, not {duals.tolist()}")
    record = rule.record(links, DEGREE)
    for name, shown in _shown(record):
        require_shape(shown, (DEGREE,), rule, f"record's {name}")
    if record.weights is not None:
        within = (record.weights >= 0.0) & (record.weights <= 1.0)
        require(bool(within.all()), rule, f"weights lie between 0 and 1, not {record.weights.tolist()}")


def _shown(record: LinkRecord) -> list[tuple[str, Array]]:
    """Return the columns of a record, by name."""
    return [(name, shown) for name, shown in record._asdict().items() if shown is not None]
