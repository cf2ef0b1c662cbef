"""An exception of a user's own part ends a serial run as it ends one on Ray: the node, the round and the cause."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import networkx as nx
import pytest

from kernelswarm import Experiment, InputError, SimulationError, read_run, resume, run, simulate
from kernelswarm.agents.learners.polk import Polk
from kernelswarm.agents.parts.budgets import Parsimony
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.agents.parts.schedules import Constant
from kernelswarm.arrays import Array
from kernelswarm.protocols.consensus import Consensus
from kernelswarm.simulations.command.cli import main
from kernelswarm.simulations.data.contract import NodeSource, Source
from kernelswarm.simulations.data.curves import SineRegression
from kernelswarm.simulations.engine.engine import EngineError
from tests.helpers.brittle import WAYS, Brittle
from tests.helpers.command_line import SMALL, Command, commands
from tests.helpers.halves import Halves

CAUSE = r"LookupError: there is no such key \(brittle.py, line \d+\)"


def experiment(**keys: Any) -> Experiment:
    learner = Polk(kernel=Gaussian(0.3), step_size=Constant(0.2), budget=Parsimony(0.01))  # no sample is drawn
    tables = {"topology": nx.cycle_graph(4), "stream": SineRegression(), "learner": learner, "rounds": 40, **keys}
    return Experiment(**{"evaluate_every": 10, **tables})


@pytest.mark.parametrize(("at", "size"), [(1, 4), (10, 2), (11, 4), (40, 2)])
def test_the_node_the_round_and_the_cause_are_named(at: int, size: int) -> None:
    described = experiment(protocol=Brittle(at=at))
    if size < 4:
        described = replace(described, backend=Halves(size))
    with pytest.raises(SimulationError) as failure:
        simulate(described)
    assert re.fullmatch(f"node 2 failed in round {at}: {CAUSE}", str(failure.value))
    assert failure.value.node == 2
    assert failure.value.round == at
    assert failure.value.partial is not None
    assert failure.value.partial.summary["failure"] == "broken"
    assert list(failure.value.partial.network.get("round", ())) == [round for round in (10, 20, 30) if round < at]
    assert isinstance(failure.value.__cause__, EngineError)
    assert isinstance(failure.value.__cause__.__cause__, LookupError)


def test_a_node_that_cannot_be_made_is_named() -> None:
    with pytest.raises(SimulationError, match=f"node 2 failed in round 0: {CAUSE}"):
        simulate(replace(experiment(protocol=Made(at=1))))


@dataclass(frozen=True)
class Made(Brittle):
    """Fails when the agents are made: after the driver has looked at every node once."""

    def init(self, neighborhood: Any) -> Any:
        """Fail the second time that a node with neighbours is asked for."""
        calls = CALLS.setdefault(neighborhood.node, [])
        calls.append(None)
        if neighborhood.node == self.node and len(calls) == 2:
            return Brittle(way="raises", node=self.node, at=0, driver=-1).init(neighborhood)
        return super().init(neighborhood)


CALLS: dict[int, list[None]] = {}


@dataclass(frozen=True)
class Torn(SineRegression):
    """A stream of which one node's source breaks."""

    at: int = 30

    def open(self, nodes: int, seed: int, held_out: int, locations: Array | None) -> Source:
        """Open the stream, and put a source that breaks in the place of the last one."""
        source = super().open(nodes, seed, held_out, locations)
        source.nodes[-1] = Broken(source.nodes[-1], self.at)
        return source


class Broken:
    """A source that breaks after some samples."""

    def __init__(self, whole: NodeSource, at: int) -> None:
        self.whole, self.left = whole, at
        self.held_out = whole.held_out

    def draw(self, count: int) -> tuple[Array, Array]:
        """Draw as the whole source does."""
        self.left -= count
        if self.left < 0:
            raise OSError("the sensor\nis gone")
        return self.whole.draw(count)


def test_a_source_that_breaks_where_rounds_run_compiled_is_of_one_node() -> None:
    with pytest.raises(SimulationError, match=r"node 3 failed in round \d+: OSError: the sensor is gone \(.*\)$"):
        simulate(experiment(protocol=Consensus(0.1), stream=Torn()))


def test_a_source_that_breaks_before_words_are_numbers_is_named() -> None:
    with pytest.raises(InputError, match=r"drawing .* samples of node 3, .* failed: the sensor is gone \(OSError, "):
        simulate(experiment(protocol=Consensus(), stream=Torn()))


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_what_is_no_failure_goes_through(kind: type[BaseException], monkeypatch: pytest.MonkeyPatch) -> None:
    def stop() -> None:
        raise kind

    monkeypatch.setitem(WAYS, "raises", stop)
    with pytest.raises(kind):
        simulate(experiment(protocol=Brittle()))


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.chdir(tmp_path)
    text = SMALL.replace("rounds = 4", "rounds = 40").replace("penalty", "at = 11\npenalty")
    Path("brittle.toml").write_text(text.replace('"consensus"', '"tests.helpers.brittle:Brittle"'))
    return commands(capsys)


def test_the_command_says_it_in_one_line_and_keeps_what_was_measured(call: Command) -> None:
    answer = call("run", "brittle.toml", "--out", "here")
    assert (answer.code, answer.out) == (1, "")
    assert re.fullmatch(
        f"kernelswarm: node 2 failed in round 11: {CAUSE}; measurements until then are in here\n", answer.err
    )
    result = read_run("here")
    assert result.failed
    assert list(result.network["round"]) == [2, 4, 6, 8, 10]
    assert re.fullmatch(f"node 2 failed in round 11: {CAUSE}", result.summary["reason"])


def test_debug_shows_where_the_exception_came_from(call: Command) -> None:
    with pytest.raises(SimulationError) as failure:
        main(["run", "brittle.toml", "--out", "here", "--debug"])
    chain = [failure.value.__cause__]
    while chain[-1] is not None:
        chain.append(chain[-1].__cause__)
    assert isinstance(chain[-2], LookupError)
    assert chain[-2].__traceback__ is not None


@dataclass(frozen=True)
class Late(Consensus):
    """Consensus whose state a checkpoint can hold, and which fails in one round."""

    at: int = 1

    def advance(self, links: Any, constraint_values: Array, excess_loss: Array | None, eta: float, round: int) -> Any:
        """Fail at the first node of the round."""
        if round == self.at:
            WAYS["raises"]()
        return super().advance(links, constraint_values, excess_loss, eta, round)


def test_a_resumed_run_counts_its_rounds_from_the_first(tmp_path: Path) -> None:
    described = Experiment.from_dict(
        {
            "topology": {"name": "ring", "nodes": 4},
            "stream": "sine_regression",
            "learner": {"name": "polk", "step_size": 0.2},
            "protocol": {"name": "tests.simulations.engine.test_serial_failures:Late", "at": 25},
            "rounds": 20,
            "checkpoint_every": 10,
        }
    )
    folder = run(described, tmp_path / "run").folder
    with pytest.raises(SimulationError, match=r"node 0 failed in round 25: LookupError: .* goes on from round 20"):
        resume(folder, ["rounds=30"])
