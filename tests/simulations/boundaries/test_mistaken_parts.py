"""Mistakes that are likely in a loss or kernel of one's own are harmless, or refused with the name and the rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from kernelswarm import Experiment, InputError, PolkRegressor, simulate
from kernelswarm.arrays import Array
from kernelswarm.simulations.records.result import Result


@dataclass(frozen=True)
class Square:
    task: ClassVar[Any] = "regression"
    curvature: ClassVar[Any] = 2.0
    quadratic: ClassVar[Any] = False

    def outputs(self, targets: int, classes: int | None) -> int:
        return targets

    def values(self, predictions: Array, targets: Array) -> Any:
        return np.sum((predictions - targets) ** 2, axis=1)

    def derivatives(self, predictions: Array, targets: Array) -> Any:
        return 2.0 * (predictions - targets)

    def decide(self, predictions: Array) -> Array:
        return predictions


@dataclass(frozen=True)
class Bell:
    supremum: ClassVar[Any] = 1.0

    def cross(self, points: Array, centers: Array) -> Any:
        return np.exp(-3.0 * ((points[:, None] - centers[None]) ** 2).sum(axis=2))

    def diagonal(self, points: Array) -> Any:
        return np.ones(len(points))


def mistaken(part: type[Any], **entries: Any) -> Any:
    return dataclass(frozen=True)(type("Mistaken", (part,), entries))()


def learned(protocol: str = "consensus", **learner: Any) -> Result:
    random = np.random.default_rng(0)
    x = random.uniform(-1.0, 1.0, (240, 1))
    keys: dict[str, Any] = {"topology": "ring", "data": (x, np.sin(3.0 * x[:, 0])), "rounds": 24, "protocol": protocol}
    return simulate(learner={"name": "polk", "regularization": 0.01, **learner}, **keys)


def writes_to_what_it_is_given(self: object, *given: Array) -> Any:
    method = Bell.cross if len(given) == 2 and isinstance(self, Bell) else Square.derivatives
    found = method(self, *given)  # type: ignore[arg-type]
    for array in given:
        array[:] = 7.0
    return found


def writes_to_points(self: object, points: Array) -> Array:
    points[:] = 7.0
    return np.ones(len(points))


@pytest.mark.parametrize("protocol", ["consensus", "batch"])
@pytest.mark.parametrize(
    ("key", "right", "wrong"),
    [
        ("kernel", Bell(), mistaken(Bell, cross=writes_to_what_it_is_given, diagonal=writes_to_points)),
        ("loss", Square(), mistaken(Square, derivatives=writes_to_what_it_is_given)),
        (
            "loss",
            Square(),
            mistaken(
                Square,
                derivatives=lambda _, f, y: (2.0 * (f - y)).tolist(),
                values=lambda _, f, y: ((f - y) ** 2).sum(axis=1).tolist(),
            ),
        ),
        ("kernel", Bell(), mistaken(Bell, cross=lambda _, x, d: Bell().cross(x, d).tolist())),
    ],
    ids=["a kernel that writes", "a loss that writes", "a loss of lists", "a kernel of lists"],
)
def test_parts_that_write_to_what_they_are_given_or_return_lists_give_the_same_models(
    key: str, right: Any, wrong: Any, protocol: str
) -> None:
    wanted, found = (learned(protocol, **{key: part}).summary["digest"] for part in (right, wrong))
    assert found == wanted


def raises(*_: object) -> Array:
    raise KeyError("sigma")


@pytest.mark.parametrize(
    ("key", "part", "words"),
    [
        ("loss", mistaken(Square, task="regresion"), r'Mistaken\.task = "regresion" must be "regression", "binary" or'),
        ("loss", mistaken(Square, curvature=None), r"Mistaken\.curvature = None must be a number of at least 0"),
        ("loss", mistaken(Square, curvature=-1.0), r"Mistaken\.curvature = -1\.0 must be a number of at least 0"),
        ("loss", mistaken(Square, curvature=np.nan), r"Mistaken\.curvature = nan must be a number of at least 0"),
        ("loss", mistaken(Square, quadratic="no"), r'Mistaken\.quadratic = "no" must be True or False'),
        ("kernel", mistaken(Bell, supremum="1"), r'Mistaken\.supremum = "1" must be a positive number'),
        ("kernel", mistaken(Bell, supremum=0.0), r"Mistaken\.supremum = 0\.0 must be a positive number"),
        ("loss", mistaken(Square, derivatives=lambda _, f, y: f * np.nan), r"Mistaken\.derivatives returned nan"),
        ("kernel", mistaken(Bell, cross=lambda _, x, d: -Bell().cross(x, d)), r"kernel is not positive semidefinite"),
        (
            "loss",
            mistaken(Square, derivatives=raises),
            r"failed: 'sigma' \(KeyError, test_mistaken_parts\.py, line ",
        ),
        (
            "loss",
            mistaken(Square, derivatives=lambda _, f: f),
            r"is called with \(self, predictions, targets\): give it",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_its_name(key: str, part: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        learned(**{key: part})


@pytest.mark.parametrize("missing", ["task", "curvature", "quadratic"])
def test_what_a_loss_does_not_say_is_asked_for(missing: str) -> None:
    entries = {name: entry for name, entry in vars(Square).items() if not name.startswith("__") and name != missing}
    with pytest.raises(InputError, match=rf"Silent does not say its {missing}, which must be"):
        learned(loss=dataclass(frozen=True)(type("Silent", (), entries))())


def test_classes_of_files_and_estimators_are_asked_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = Path(__file__).read_text("utf-8").partition("def mistaken")[0]
    (tmp_path / "wrong_parts.py").write_text(text.replace('"regression"', '"regresion"'), "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    table = {"learner": {"name": "polk", "loss": {"name": "wrong_parts:Square"}}, "protocol": "consensus"}
    with pytest.raises(InputError, match=r'learner\.loss\.name: Square\.task = "regresion" must be'):
        Experiment.from_dict({"rounds": 9, "topology": "ring", "stream": "sine_regression", **table})
    with pytest.raises(InputError, match=r'loss: Mistaken\.task = "regresion" must be'):
        PolkRegressor(mistaken(Square, task="regresion")).fit(np.eye(3), np.arange(3.0))


def test_a_declared_field_or_property_is_asked_of_the_object() -> None:
    @dataclass(frozen=True)
    class Sized(Bell):
        supremum: float = 1.0  # type: ignore[misc]

    size: Callable[[object], float] = lambda _: -1.0  # noqa: E731
    assert learned(kernel=Sized()).final["risk"] < 1.0
    with pytest.raises(InputError, match=r"Mistaken\.supremum = -1\.0 must be"):
        learned(kernel=mistaken(Bell, supremum=property(size)))
