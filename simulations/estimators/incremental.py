"""Estimators that learn from single samples, given as dicts of features, with the methods of river's models."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.base import clone

from kernelswarm.arrays import AnyArray, Array
from kernelswarm.simulations.core.errors import InputError, nearest
from kernelswarm.simulations.estimators.estimators import (
    OnlineClassifier,
    OnlineRegressor,
    PolkClassifier,
    PolkRegressor,
)
from kernelswarm.simulations.estimators.polk_estimator import checked
from kernelswarm.simulations.estimators.rows import LARGEST, weights_of
from kernelswarm.simulations.records.model import Model
from kernelswarm.simulations.records.model_files import save as save_model

Features = Mapping[Hashable, float]


class Sample(NamedTuple):
    """One sample: its features, target and weight."""

    features: Features
    target: Any
    weight: float


class _Incremental(ABC):
    """Base class of both estimators, with the names of the features, which are taken from the first samples."""

    _supervised: ClassVar[bool] = True
    _multiclass: ClassVar[bool] = True

    def __init__(self, estimator: Any, first: int | None) -> None:
        self.estimator = clone(estimator) if first is None else clone(estimator).set_params(first=checked(first))
        self.first = first
        self._names: list[Hashable] = []
        self._always: set[Hashable] = set()
        """The features of all first samples, once these are complete."""
        self._samples: list[Sample] | None = []
        """The first samples, while incomplete: a new feature or label restarts the estimator."""

    def __repr__(self) -> str:
        """Show the name of the estimator, and the features and labels seen."""
        size = f"{self.estimator.model_order_} points" if self._begun else "nothing learned"
        return f"{type(self).__name__}({self.estimator!r}: {size})"

    def learn_one(self, x: Features, y: Any, w: float = 1.0) -> None:
        """Learn from one sample; a refused sample has no effect.

        Parameters
        ----------
        x : dict
            Numbers by feature name, in any order. Later samples may only have features of the first samples. A missing
            feature counts as 0 if one of the first samples lacked it too; otherwise it is an error.
        y : number or label
            The target.
        w : float
            The weight of the sample, a factor of its loss; samples of weight 0 are left out.

        Raises
        ------
        ValueError
            A feature has a new name, is missing, or is not a number within range, or the target is invalid or not among
            the classes.
        """
        weights_of([w], 1)  # raises for invalid weights
        if w == 0.0:
            return
        sample = Sample(dict(x), y, float(w))
        if self._samples is None:
            self._learn(self.estimator, [sample], self._names)
            return
        samples, estimator = [*self._samples, sample], self.estimator
        names = list(dict.fromkeys([*self._names, *x]))
        if self._begun and names == self._names and self._knows(y):
            self._learn(estimator, [sample], names)
        else:
            estimator = clone(estimator)
            self._learn(estimator, samples, names)
        self.estimator, self._names, self._samples = estimator, names, samples
        if len(samples) >= estimator.first and self._begun:
            self._always, self._samples = set.intersection(*(set(sample.features) for sample in samples)), None

    @property
    def model_(self) -> Model:
        """The present learned function, with named features.

        Raises
        ------
        InputError
            Nothing has been learned yet.
        """
        if not self._begun:
            raise InputError(
                "nothing has been learned yet: give samples, of at least two labels where these are classes"
            )
        model: Model = self.estimator.model_
        return replace(model, input_variables=replace(model.input_variables, names=tuple(map(str, self._names))))

    def save(self, path: str | Path) -> None:
        """Write the learned function to an .npz file, which `kernelswarm.load_model` reads.

        Raises
        ------
        InputError
            Nothing has been learned yet, or the file cannot be written.
        """
        save_model(self.model_, path)

    @property
    def _begun(self) -> bool:
        return bool(self.estimator.__sklearn_is_fitted__())

    def _knows(self, target: Any) -> bool:
        """Return whether the estimator, already started, may be given such a target, or refuses it rightly."""
        return True

    @abstractmethod
    def _learn(self, estimator: Any, samples: Sequence[Sample], names: Sequence[Hashable]) -> None:
        """Let an estimator learn from samples, or refuse them."""

    def _values(self, x: Features) -> Array:
        """Return a row of features for prediction; new names are ignored while first samples are kept."""
        if self._samples is not None:
            x = {name: x[name] for name in self._names if name in x}
        return self._rows([x], self._names)

    def _rows(self, samples: Sequence[Features], names: Sequence[Hashable]) -> Array:
        """Return features as rows (n, p), in the order of ``names``."""
        known = dict.fromkeys(names)
        unknown = [name for x in samples for name in x if name not in known]
        if unknown:
            left = [str(name) for name in names if not any(name in x for x in samples)]
            raise ValueError(
                f"x has the feature {unknown[0]!r}, which none of the first {self.estimator.first} samples had: leave "
                f"it out, or raise first until every name has come{nearest(str(unknown[0]), left)}"
            )
        lacking = [name for x in samples for name in names if name in self._always and name not in x]
        if lacking:
            raise ValueError(
                f"x has no feature {lacking[0]!r}, which each of the first {self.estimator.first} samples had: give "
                "its value, which is not taken for 0"
            )
        try:
            rows = np.array([[float(x.get(name, 0.0)) for name in names] for x in samples])
        except (TypeError, ValueError) as error:
            raise ValueError(f"x holds something else than numbers ({error}): encode it first") from error
        if rows.size and not np.abs(rows).max() <= LARGEST:
            row, place = np.argwhere(~(np.abs(rows) <= LARGEST))[0].tolist()
            raise ValueError(
                f"x has {names[place]!r} = {rows[row, place]:g}: values must be numbers within -{LARGEST:g} and "
                f"{LARGEST:g}; leave a feature out that is not known, and it counts as 0"
            )
        return rows


class IncrementalRegressor(_Incremental):
    """Regression from single dicts of features, with river's methods ``learn_one`` and ``predict_one``.

    Parameters
    ----------
    estimator : PolkRegressor or KernelRegressor, optional
        The estimator, which is copied; `PolkRegressor` by default.
    first : int, optional
        Number of samples on which defaults are measured; by default the estimator's. Until then, learning restarts as
        more samples come.

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

    def __init__(self, estimator: OnlineRegressor | None = None, first: int | None = None) -> None:
        super().__init__(PolkRegressor() if estimator is None else estimator, first)
        known = _known_river()
        if known is not None:
            known.Regressor.register(type(self))

    def predict_one(self, x: Features) -> float:
        """Predict the target of one sample; 0 before the first step.

        Parameters
        ----------
        x : dict
            Numbers by feature name.
        """
        return float(self.estimator.predict(self._values(x))[0]) if self._begun else 0.0

    def _learn(self, estimator: Any, samples: Sequence[Sample], names: Sequence[Hashable]) -> None:
        rows = self._rows([sample.features for sample in samples], names)
        targets = np.asarray([sample.target for sample in samples], dtype=np.float64)
        estimator.partial_fit(rows, targets, sample_weight=_weights(samples))


class IncrementalClassifier(_Incremental):
    """Classification from single dicts of features, with river's ``learn_one``, ``predict_one`` and
    ``predict_proba_one``.

    Parameters
    ----------
    estimator : PolkClassifier or KernelClassifier, optional
        The estimator, which is copied; `PolkClassifier` by default.
    first : int, optional
        Number of samples on which defaults are measured; by default the estimator's. Until then, learning restarts as
        more samples come. Until there are two labels, the only label is predicted.
    classes : sequence, optional
        All labels that will ever occur; by default the labels of the first samples.

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
        self,
        estimator: OnlineClassifier | None = None,
        first: int | None = None,
        classes: Sequence[Any] | None = None,
    ) -> None:
        super().__init__(PolkClassifier() if estimator is None else estimator, first)
        self.classes = None if classes is None else list(classes)
        known = _known_river()
        if known is not None:
            known.Classifier.register(type(self))

    def predict_one(self, x: Features) -> Any:
        """Predict the label of one sample; None before the first sample.

        Parameters
        ----------
        x : dict
            Numbers by feature name.
        """
        if self._begun:
            return self.estimator.predict(self._values(x))[0].item()
        return self._samples[0].target if self._samples else None

    def predict_proba_one(self, x: Features) -> dict[Any, float]:
        """Predict the probability of each label.

        Parameters
        ----------
        x : dict
            Numbers by feature name.
        """
        if not self._begun:
            return {self._samples[0].target: 1.0} if self._samples else {}
        found = self.estimator.predict_proba(self._values(x))[0]
        return dict(zip(self.estimator.classes_.tolist(), found.tolist(), strict=True))

    def _knows(self, target: Any) -> bool:
        return self.classes is not None or target in self.estimator.classes_.tolist()

    def _learn(self, estimator: Any, samples: Sequence[Sample], names: Sequence[Hashable]) -> None:
        rows = self._rows([sample.features for sample in samples], names)
        labels = [sample.target for sample in samples]
        if any(label is None or label is np.ma.masked or label != label for label in labels):
            raise ValueError(f"y = {labels[-1]!r} is no label: leave the sample out")
        classes = None
        if not estimator.__sklearn_is_fitted__():
            classes = _labels(list(dict.fromkeys(labels)) if self.classes is None else self.classes)
        if classes is None or len(classes) > 1:
            estimator.partial_fit(rows, _labels(labels), classes=classes, sample_weight=_weights(samples))


def _labels(labels: Sequence[Any]) -> AnyArray:
    """Return labels without conversion: text and numbers together would become text."""
    texts = sum(isinstance(label, str) for label in labels)
    return np.asarray(labels, dtype=None if texts in (0, len(labels)) else object)


def _weights(samples: Sequence[Sample]) -> list[float] | None:
    weights = [sample.weight for sample in samples]
    return None if set(weights) == {1.0} else weights


def _known_river() -> Any:
    """Return river's module of base classes if the program has imported it, for registering subclasses."""
    return sys.modules.get("river.base")
