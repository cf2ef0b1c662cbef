"""Data sets of openml.org, fetched and cached by scikit-learn."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from kernelswarm.arrays import Array
from kernelswarm.ranges import Range, check_ranges
from kernelswarm.simulations.core.data_description import Missing
from kernelswarm.simulations.core.messages import shown
from kernelswarm.simulations.data.contract import Source
from kernelswarm.simulations.data.dealing import Dealing
from kernelswarm.simulations.data.finite import open_rows
from kernelswarm.simulations.data.reading import check_names, shorten
from kernelswarm.simulations.data.rows import Rows, Task
from kernelswarm.simulations.data.scaling import Scaling
from kernelswarm.simulations.data.splits import Split


@dataclass(frozen=True)
class OpenML:
    """A data set of openml.org, fetched by scikit-learn.

    The first use needs a network connection, later ones read the cache. Rows are shuffled by the seed and dealt to the
    nodes by ``split``. A target of names becomes classes in alphabetical order, and a nominal input becomes the
    number of its category.

    Parameters
    ----------
    dataset
        Name ("mnist_784") or number (554) of the data set.
    version
        Version of a data set given by its name; 0 means the newest active one.
    task, split, concentration, shift, epochs, test_fraction, standardize, standardize_targets, missing
        As in the stream "file".
    target
        Target column, empty for the data set's own.
    features
        Input columns, empty for all.
    split_columns
        Names of the input columns by which rows are cut into patches or sorted.
    cache
        Folder of the cache, None for scikit-learn's.
    """

    dataset: str | int
    version: int = 0
    task: Task = "auto"
    target: str = ""
    features: tuple[str, ...] = ()
    split: Split = "iid"
    split_columns: tuple[str, ...] = ()
    concentration: float = 1.0
    shift: float = 1.0
    epochs: int = 1
    test_fraction: float = 0.2
    standardize: Scaling = "auto"
    standardize_targets: Scaling = "auto"
    missing: Missing = "refuse"
    cache: Path | None = None

    ranges: ClassVar = {"version": Range("[0, inf)", "use 0 for the newest active version")}

    def __post_init__(self) -> None:
        check_ranges(self)
        self._dealing()
        if self.cache is not None:
            object.__setattr__(self, "cache", Path(self.cache))

    def open(self, nodes: int, seed: int, held_out: int, locations: Array | None) -> Source:
        return open_rows(self._read(), None, self.task, self._dealing(), nodes, seed, held_out, locations)

    def _dealing(self) -> Dealing:
        return Dealing(
            split=self.split,
            concentration=self.concentration,
            shift=self.shift,
            epochs=self.epochs,
            test_fraction=self.test_fraction,
            standardize=self.standardize,
            standardize_targets=self.standardize_targets,
            missing=self.missing,
        )

    def _read(self) -> Rows:
        name = f"dataset = {shown(self.dataset)}"
        bunch = self._fetch(name)
        known = [str(column) for column in bunch.feature_names]
        check_names(name, "features", self.features, known)
        check_names(name, "split_columns", self.split_columns, known)
        data = bunch.data.toarray() if hasattr(bunch.data, "toarray") else np.asarray(bunch.data)
        if data.dtype.kind not in "biuf":
            raise ValueError(f"{name}: its inputs are not all numbers or categories: choose some with features")
        features = self.features or tuple(known)
        target = np.asarray(bunch.target)
        if target.ndim != 1:
            raise ValueError(f"{name} has {target.ndim and target.shape[-1]} targets: choose one with target")
        if target.dtype.kind not in "biuf":
            target = target.astype(np.str_)
        return Rows(
            name=name,
            points=data if not self.features else data[:, [known.index(column) for column in features]],
            targets=target[:, None],
            columns=features,
            target_columns=(", ".join(bunch.target_names) or "target",),
            counting="rows count from 0",
            places=data[:, [known.index(column) for column in self.split_columns]] if self.split_columns else None,
            whole=target.dtype.kind in "iu",
        )

    def _fetch(self, name: str) -> Any:
        from sklearn.datasets import fetch_openml

        by_name = isinstance(self.dataset, str)
        try:
            return fetch_openml(
                name=self.dataset if by_name else None,
                version=(self.version or "active") if by_name else "active",
                data_id=None if by_name else self.dataset,
                data_home=None if self.cache is None else str(self.cache.expanduser()),
                target_column=self.target or "default-target",
                as_frame=False,
                parser="liac-arff",
                n_retries=1,
            )
        except OSError as error:  # among them all that can go wrong with a connection
            raise ValueError(
                f"{name} could not be fetched from openml.org ({shorten(error)}): this needs a network connection the "
                'first time; connect, or save the data to a file and use the stream "file"'
            ) from error
        except (ValueError, KeyError) as error:
            raise ValueError(
                f"{name} is refused by openml.org or cannot be read ({shorten(error)}): check dataset, version "
                "and target"
            ) from error
