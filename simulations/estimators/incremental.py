"""Estimators that learn from one sample at a time, a dict of features, with the methods that river's models have."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.base import clone

from kernelswarm.simulations.estimators.estimators import (
    OnlineClassifier,
    OnlineRegressor,
    PolkClassifier,
    PolkRegressor,
)
from kernelswarm.simulations.ground.data_description import Variables
from kernelswarm.simulations.ground.errors import InputError
from kernelswarm.simulations.ground.wording import nearest, shown
from kernelswarm.simulations.models.model import Model
from kernelswarm.simulations.models.model_files import save as save_model

Features = Mapping[Hashable, float]

FIRST = 100
"""Samples that an estimator's defaults are measured on."""


class _Incremental(ABC):
    """What both have in common: the names of the features, and the samples that come before learning begins."""

    _supervised: ClassVar[bool] = True
    _multiclass: ClassVar[bool] = True

    def __init__(self, estimator: Any, first: int) -> None:
        if isinstance(first, bool) or not isinstance(first, int) or first < 2:
            raise InputError(
                f"first = {shown(first)} must be a whole number of at least 2: defaults are measured on it"
            )
        self.estimator = clone(estimator)
        self.first = first
        self._names: list[Hashable] = []
        self._always: set[Hashable] = set()
        self._waiting: list[tuple[Features, Any]] = []
        self._begun = False

    def __repr__(self) -> str:
        """Name the estimator, and what it has learned from."""
        size = f"{self.estimator.model_order_} points" if self._begun else f"waits for {self.first} samples"
        return f"{type(self).__name__}({self.estimator!r}: {size})"

    def learn_one(self, x: Features, y: Any) -> None:
        """Learn from one sample.

        The first ones are kept until there are enough of them for the estimator's defaults to be measured on.

        Parameters
        ----------
        x : dict
            Numbers by the names of the features, in any order. The names of the first samples are all that there are;
            one that some of these left out counts as 0 where it is left out, one that all of them had is needed.
        y : number or label
            The target.

        Raises
        ------
        ValueError
            A feature has a new name, is missing or is no number, or the label is none of the classes.
        """
        if self._begun:
            self._learn(self._row(x), [y])
            return
        self._waiting.append((dict(x), y))
        self._names = list(dict.fromkeys([*self._names, *x]))
        if self._is_ready():
            self._always = set.intersection(*(set(features) for features, _ in self._waiting))
            rows = np.concatenate([self._row(features) for features, _ in self._waiting])
            self._learn(rows, [target for _, target in self._waiting])
            self._begun = True
            self._waiting = []

    @property
    def model_(self) -> Model:
        """The learned function as it is now, which takes features by their names.

        Raises
        ------
        InputError
            Nothing has been learned yet.
        """
        if not self._begun:
            raise InputError(
                f"nothing has been learned yet: {len(self._waiting)} samples have come, and defaults are measured on "
                f"the first {self.first}: give more, or lower first"
            )
        model: Model = self.estimator.model_
        return replace(model, input_variables=Variables(tuple(map(str, self._names))))

    def save(self, path: str | Path) -> None:
        """Write the learned function to an .npz file, which `kernelswarm.load_model` reads.

        Raises
        ------
        InputError
            Nothing has been learned yet, or the file cannot be written.
        """
        save_model(self.model_, path)

    def _is_ready(self) -> bool:
        return len(self._waiting) >= self.first

    @abstractmethod
    def _learn(self, points: npt.NDArray[np.float64], targets: Sequence[Any]) -> None:
        """Learn from rows (n, p) and their labels."""

    def _row(self, x: Features) -> npt.NDArray[np.float64]:
        """Return the features as a row (1, p), in the order in which their names came."""
        unknown = [name for name in x if name not in self._names]
        if unknown:
            known = [str(name) for name in self._names if name not in x]
            raise ValueError(
                f"x has the feature {unknown[0]!r}, which none of the first {self.first} samples had: leave it out, or "
                f"raise first until every name has come{nearest(str(unknown[0]), known)}"
            )
        lacking = [name for name in self._names if name in self._always and name not in x]
        if lacking:
            raise ValueError(
                f"x has no feature {lacking[0]!r}, which each of the first {self.first} samples had: give its value, "
                "which is not taken for 0"
            )
        try:
            return np.array([[float(x.get(name, 0.0)) for name in self._names]])
        except (TypeError, ValueError) as error:
            raise ValueError(f"x holds something else than numbers ({error}): encode it first") from error


class IncrementalRegressor(_Incremental):
    """Regression from one dict of features at a time, with river's methods ``learn_one`` and ``predict_one``.

    Parameters
    ----------
    estimator : PolkRegressor or KernelRegressor, optional
        What learns; a copy of it. `PolkRegressor` when left out.
    first : int
        Samples that its defaults are measured on, at least 2; until then the mean of the targets is predicted.

    Examples
    --------
    >>> import math
    >>> from kernelswarm import KernelRegressor
    >>> model = IncrementalRegressor(KernelRegressor(100))
    >>> for k in range(600):
    ...     x = {"a": k % 31 / 31, "b": k % 37 / 37}
    ...     model.learn_one(x, math.sin(5 * x["a"]) + x["b"])
    >>> abs(model.predict_one({"a": 0.3, "b": 0.5}) - math.sin(1.5) - 0.5) < 0.1
    True
    """

    def __init__(self, estimator: OnlineRegressor | None = None, first: int = FIRST) -> None:
        super().__init__(PolkRegressor() if estimator is None else estimator, first)
        known = _known_river()
        if known is not None:
            known.Regressor.register(type(self))

    def predict_one(self, x: Features) -> float:
        """Predict the target of one sample.

        Parameters
        ----------
        x : dict
            Numbers by the names of the features.
        """
        if not self._begun:
            return float(np.mean([target for _, target in self._waiting])) if self._waiting else 0.0
        return float(self.estimator.predict(self._row(x))[0])

    def _learn(self, points: npt.NDArray[np.float64], targets: Sequence[Any]) -> None:
        self.estimator.partial_fit(points, np.asarray(targets, dtype=np.float64))


class IncrementalClassifier(_Incremental):
    """Classification from one dict of features at a time, with river's ``learn_one``, ``predict_one`` and
    ``predict_proba_one``.

    Parameters
    ----------
    estimator : PolkClassifier or KernelClassifier, optional
        What learns; a copy of it. `PolkClassifier` when left out.
    first : int
        Samples that its defaults are measured on, at least 2; until then, and until there are two labels, the most
        frequent label is predicted.
    classes : sequence, optional
        All labels that will ever come; those of the first samples when left out.

    Examples
    --------
    >>> model = IncrementalClassifier(first=50)
    >>> for k in range(300):
    ...     x = {"a": k % 97 / 97, "b": k % 89 / 89}
    ...     model.learn_one(x, x["a"] > x["b"])
    >>> model.predict_one({"a": 0.8, "b": 0.2})
    True
    """

    def __init__(
        self, estimator: OnlineClassifier | None = None, first: int = FIRST, classes: Sequence[Any] | None = None
    ) -> None:
        super().__init__(PolkClassifier() if estimator is None else estimator, first)
        self.classes = None if classes is None else list(classes)
        known = _known_river()
        if known is not None:
            known.Classifier.register(type(self))

    def predict_one(self, x: Features) -> Any:
        """Predict the label of one sample; None before the first has been learned from.

        Parameters
        ----------
        x : dict
            Numbers by the names of the features.
        """
        if not self._begun:
            shares = self._shares()
            return max(shares, key=lambda label: shares[label]) if shares else None
        return self.estimator.predict(self._row(x))[0].item()

    def predict_proba_one(self, x: Features) -> dict[Any, float]:
        """Predict the probability of each label.

        Parameters
        ----------
        x : dict
            Numbers by the names of the features.
        """
        if not self._begun:
            return self._shares()
        found = self.estimator.predict_proba(self._row(x))[0]
        return dict(zip(self.estimator.classes_.tolist(), found.tolist(), strict=True))

    def _shares(self) -> dict[Any, float]:
        labels = [label for _, label in self._waiting]
        return {label: labels.count(label) / len(labels) for label in dict.fromkeys(labels)}

    def _is_ready(self) -> bool:
        return super()._is_ready() and (self.classes is not None or len(self._shares()) > 1)

    def _learn(self, points: npt.NDArray[np.float64], targets: Sequence[Any]) -> None:
        if self._begun:
            self.estimator.partial_fit(points, np.asarray(targets))
            return
        classes = list(self._shares()) if self.classes is None else self.classes
        self.estimator.partial_fit(points, np.asarray(targets), classes=np.asarray(classes))


def _known_river() -> Any:
    """Return river's base classes where the program has imported them; they ask for subclasses of their own."""
    return sys.modules.get("river.base")
