"""Mistakes that are likely in a protocol, schedule or budget of one's own are refused with the name and the rule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from kernelswarm import InputError, SimulationError, simulate
from kernelswarm.arrays import Array
from kernelswarm.protocols.contract import BatchLimits, LinkRecord, Neighborhood, Pull, nothing_of
from kernelswarm.simulations.records.result import Result
from tests.simulations.boundaries.test_mistaken_parts import mistaken


@dataclass(frozen=True)
class Penalty:
    """Consensus in plain Python."""

    form: ClassVar[Any] = "symmetric"
    step: ClassVar[Any] = "implicit"
    communicates: ClassVar[Any] = True
    pooled: ClassVar[Any] = False
    averaged: ClassVar[Any] = False
    offline: ClassVar[BatchLimits | None] = None
    sends_duals: ClassVar[Any] = False
    compares_losses: ClassVar[Any] = False

    def init(self, neighborhood: Neighborhood) -> Any:
        return np.full(len(neighborhood.neighbors), 0.1)

    def coupling_gradient(self, links: Array, own: Array, answers: Array) -> Any:
        apart = own - answers
        return Pull(0.1 * apart, np.full(apart.shape[:2], 0.1))

    def coupling_gradient_at_neighbor(
        self, links: Array, neighbor: int, mine: Array, theirs: Array, dual: float
    ) -> Any:
        return Pull(0.1 * (mine - theirs), np.full(len(mine), 0.1))

    def advance(self, links: Array, values: Array, excess: Array | None, eta: float, round: int) -> Any:
        return links

    def duals(self, links: Array) -> Any:
        return None

    def record(self, links: Array, degree: int) -> Any:
        return nothing_of(degree)


@dataclass(frozen=True)
class Steps:
    largest: ClassVar[Any] = 0.2

    def at(self, step: int) -> Any:
        return 0.2


@dataclass(frozen=True)
class Errors:
    def start(self) -> Any:
        return 0.0

    def bound(self, step_size: float, state: float, batch_size: int = 1) -> Any:
        return 1e-3

    def next(self, state: float, order: int) -> Any:
        return state


def learned(protocol: Any = "consensus", links: Any = None, **learner: Any) -> Result:
    x = np.random.default_rng(0).uniform(-1.0, 1.0, (96, 1))
    keys: dict[str, Any] = {"topology": {"name": "ring", "nodes": 4}, "data": (x, np.sin(3.0 * x[:, 0])), "rounds": 12}
    keys |= {"links": links} if links else {}
    return simulate(learner={"name": "polk", "regularization": 0.01, **learner}, protocol=protocol, **keys)


def test_the_sound_parts_give_the_bits_of_those_of_the_table() -> None:
    pairs: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"protocol": Penalty()}, {"protocol": {"name": "consensus", "penalty": 0.1}}),
        ({"step_size": Steps()}, {"step_size": 0.2}),
        ({"step_size": 0.2, "budget": Errors()}, {"step_size": 0.2, "budget": {"epsilon": 1e-3}}),
    ]
    for own, listed in pairs:
        assert learned(**own).summary["digest"] == learned(**listed).summary["digest"]


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("form", "symetric", '"symetric" must be "one_sided", "symmetric" or'),
        ("form", ["symmetric"], 'must be "one_sided", "symmetric" or'),
        ("step", "implict", '"implict" must be "implicit" or "explicit"'),
        ("communicates", "yes", '"yes" must be True or False'),
        ("pooled", "no", '"no" must be True or False'),
        ("averaged", 1, "1 must be True or False"),
        ("offline", 5, r"5 must be None or, .*BatchLimits\(rows, landmarks\)"),
        ("sends_duals", "no", '"no" must be True or False'),
        ("compares_losses", "no", '"no" must be True or False'),
    ],
)
def test_what_a_protocol_declares_is_held_to_its_rule(name: str, value: Any, rule: str) -> None:
    with pytest.raises(InputError, match=rf"protocol: Mistaken\.{name} = .*{rule}"):
        learned(mistaken(Penalty, **{name: value}))


PULL, BACK = Penalty().coupling_gradient, Penalty().coupling_gradient_at_neighbor


@pytest.mark.parametrize("links", [None, {"loss": 0.2}], ids=["ideal", "lossy"])
@pytest.mark.parametrize(
    ("pull", "words"),
    [
        (lambda *_: None, r"returned None: return Pull\(gradients, curvatures\)"),
        (lambda *given: PULL(*given).gradients, r"returned a ndarray: return Pull\(gradients, curvatures\)"),
        (lambda *given: (*PULL(*given), 1), r"returned 3 entries: return Pull\(gradients, curvatures\)"),
        (lambda *given: (None, PULL(*given)[1]), r"\(gradients\) returned None: return an array of real numbers"),
        (lambda *given: (PULL(*given)[0] + 1j, PULL(*given)[1]), r"\(gradients\) returned entries of type complex128"),
        (lambda *given: (PULL(*given)[0].astype(str), PULL(*given)[1]), r"\(gradients\) returned entries of type <U"),
        (lambda *given: ([[1.0], [1.0, 2.0]], PULL(*given)[1]), r"\(gradients\) returned what holds no numbers"),
        (
            lambda *given: (PULL(*given)[0].sum(axis=0), PULL(*given)[1]),
            r"\(gradients\) returned .* \(2, 1, 1\) is",
        ),
        (
            lambda *given: (PULL(*given)[0], 0.1),
            r"\(curvatures\) returned .*\(\), and \(2, 1\) is asked",
        ),
        (lambda *given: (PULL(*given)[0] * np.nan, PULL(*given)[1]), "returned gradients of nan for finite values"),
        (lambda *given: (PULL(*given)[0], -PULL(*given)[1]), r"the curvatures \[-0\.1, -0\.1\], which must be finite"),
        (lambda *given: (PULL(*given)[0], PULL(*given)[1] * np.inf), r"the curvatures \[inf, inf\], which must be fin"),
    ],
)
def test_a_pull_that_cannot_be_is_refused_by_the_methods_name(pull: Any, words: str, links: Any) -> None:
    def asked(self: Penalty, links: Array, own: Array, answers: Array) -> Any:
        return pull(links, own, answers)

    with pytest.raises(SimulationError, match=rf"node 0 failed in round 1: .*Mistaken\.coupling_gradient.*{words}"):
        learned(mistaken(Penalty, coupling_gradient=asked), links)


def test_a_pull_at_a_neighbour_is_held_to_the_same() -> None:
    def back(self: Penalty, *given: Any) -> Any:
        return BACK(*given)._replace(curvatures=np.full(1, -1.0))

    with pytest.raises(SimulationError, match=r"gradient_at_neighbor returned the curvatures \[-1\.0\], which"):
        learned(mistaken(Penalty, coupling_gradient_at_neighbor=back))


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (None, "returned None"),
        (LinkRecord(np.zeros(1), np.zeros(1)), r"tolerances of shape \(1,\)"),
        (LinkRecord(np.zeros(2), None), "duals of shape"),  # type: ignore[arg-type]
        (({}, {}), "returned a tuple"),
    ],
)
def test_what_is_recorded_of_links_is_held_to_the_number_of_edges(record: Any, words: str) -> None:
    with pytest.raises(SimulationError, match=rf"Mistaken\.record .*{words}.*LinkRecord\(tolerances, duals\)"):
        learned(mistaken(Penalty, record=lambda *_: record))


@pytest.mark.parametrize(
    ("key", "part", "method", "words"),
    [
        ("protocol", Penalty, "coupling_gradient", "links, own, answers"),
        ("protocol", Penalty, "init", "neighborhood"),
        ("step_size", Steps, "at", "step"),
        ("budget", Errors, "start", ""),
        ("budget", Errors, "next", "state, order"),
    ],
)
def test_parameters_too_few_or_too_many_are_refused_before_anything_runs(
    key: str, part: type[Any], method: str, words: str
) -> None:
    def too_many(self: Any, a: Any, b: Any, c: Any, d: Any, e: Any, f: Any) -> Any: ...

    functions: list[Any] = [lambda: None, too_many]
    for function in functions:
        with pytest.raises(InputError, match=rf"Mistaken\.{method}\(.*is called with \(self.*{words}\): .*line \d+\)"):
            learned(**{key: mistaken(part, **{method: function})})
    sound = getattr(part(), method)
    assert learned(**{key: mistaken(part, **{method: lambda self, *given: sound(*given)})}).final["risk"] > 0.0


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (mistaken(Steps, largest=None), r"Mistaken\.largest = None must be a positive number"),
        (mistaken(Steps, largest=-1.0), r"Mistaken\.largest = -1\.0 must be a positive number"),
        (mistaken(Steps, largest=lambda _: 0.2), r"Mistaken\.largest = .* must be a positive number"),
        (
            mistaken(Steps, at=lambda *_: None),
            r"Mistaken\.at returned nan for step 0: step sizes are",
        ),
        (mistaken(Steps, at=lambda *_: 1j), r"Mistaken\.at returned \[1j.*return numbers"),
        (mistaken(Steps, at=lambda *_: -0.1), r"Mistaken\.at returned -0\.1 for step 0: step sizes are positive"),
        (mistaken(Steps, at=lambda _, t: 0.2 if t < 5 else 0.0), r"Mistaken\.at returned 0 for step 5: step sizes are"),
        (mistaken(Steps, at=lambda *_: np.inf), r"Mistaken\.at returned inf for step 0: step sizes are positive"),
        (mistaken(Steps, at=lambda *_: np.ones(2)), r"Mistaken\.at returned an array of shape \(\d+, 2\)"),
        (mistaken(Steps, over=lambda _, t, n: np.ones(n + 1)), r"Mistaken\.over returned an array of shape"),
    ],
)
def test_step_sizes_that_cannot_be_are_refused(part: Any, words: str) -> None:
    with pytest.raises((InputError, SimulationError), match=words):
        learned(step_size=part)


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (mistaken(Errors, start=lambda _: ()), r"Mistaken\.start returned \(\): return a number"),
        (mistaken(Errors, bound=lambda *_: None), r"Mistaken\.bound returned None: return a Hilbert norm"),
        (mistaken(Errors, bound=lambda *_: -1.0), r"Mistaken\.bound returned -1\.0: return a Hilbert norm"),
        (mistaken(Errors, bound=lambda *_: np.nan), r"Mistaken\.bound returned nan: return a Hilbert norm"),
        (mistaken(Errors, bound=lambda *_: "0.1"), r"Mistaken\.bound returned '0\.1': return a Hilbert norm"),
    ],
)
def test_compression_errors_that_cannot_be_are_refused(part: Any, words: str) -> None:
    with pytest.raises((InputError, SimulationError), match=words):
        learned(budget=part, step_size=0.2)


def test_what_a_library_raises_is_placed_where_the_users_code_called_it() -> None:
    def singular(self: Penalty, links: Array, *_: Any) -> Any:
        return np.linalg.inv(np.zeros((2, 2)))

    line = singular.__code__.co_firstlineno + 1
    with pytest.raises(SimulationError, match=rf"Singular matrix \(test_mistaken_protocols\.py, line {line}\)"):
        learned(mistaken(Penalty, advance=singular))


def test_a_column_that_no_float_holds_is_refused_by_the_callbacks_name() -> None:
    def vast(state: Any) -> dict[str, Any]:
        return {"size": 10**400}

    keys: dict[str, Any] = {"topology": {"name": "ring", "nodes": 4}, "stream": "sine_regression", "rounds": 3}
    with pytest.raises(SimulationError, match=r"the callback vast in round 3 returned size, which holds no numbers"):
        simulate(**keys, learner="polk", protocol="isolated", callbacks=[vast])
