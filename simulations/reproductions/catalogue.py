"""The catalogue of reproductions: names, descriptions, and required data."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from types import ModuleType
from typing import NamedTuple, cast

from kernelswarm.simulations.core.errors import InputError, nearest, shown
from kernelswarm.simulations.reproductions.contract import Reproduce

# The names of the reproductions: the one table.

# name -> "module:function", of a module of that name. A new reproduction is one file and one line here; nothing is
# imported until it is named.
# A module whose reproduction needs data says which in its constant DATA: the file, and where it is published; where
# it runs without, DATA_IS_OPTIONAL is true.
REPRODUCTIONS: dict[str, str] = {
    name: f"kernelswarm.simulations.reproductions.{name.replace('-', '_')}:reproduce"
    for name in (
        "polk-multidist",
        "polk-theory",
        "polk-mnist",
        "okfeb-spheres",
        "okfeb-manifold",
        "okfeb-regression",
        "okfeb-bounds",
        "colk-outliers",
        "colk-lidar",
        "colk-theory",
        "spppot-gaussian",
        "spppot-shots",
        "spppot-mnist",
        "spppot-theory",
        "survey-consensus",
        "survey-proximity",
        "survey-theory",
        "survey-figure2",
        "krls-lorenz",
        "unreliable-links",
        "faults",
        "summaries",
        "rivals",
        "dkla",
    )
}


class Entry(NamedTuple):
    """One reproduction: the first sentence of its docstring, and the constants DATA and DATA_IS_OPTIONAL of its module.

    ``data`` is what ``--data`` must name and where it is published, empty where there is no use for any. With
    ``optional`` data it runs without, and leaves a part out.
    """

    name: str
    sentence: str
    data: str
    optional: bool = False

    @property
    def needs_data(self) -> bool:
        """Whether it cannot run without data."""
        return bool(self.data) and not self.optional


def catalogue() -> list[Entry]:
    """Return all reproductions, in the order of the table."""
    return [describe(name) for name in REPRODUCTIONS]


def describe(name: str) -> Entry:
    """Return the description of one reproduction without running it.

    Raises
    ------
    InputError
        There is none of this name.
    """
    function = find(name)
    sentence = (inspect.getdoc(function) or "").partition("\n\n")[0].replace("\n", " ")
    module = _module(name)
    return Entry(name, sentence, getattr(module, "DATA", ""), getattr(module, "DATA_IS_OPTIONAL", False))


def find(name: str) -> Reproduce:
    """Return the function of a reproduction.

    Raises
    ------
    InputError
        There is none of this name; the message gives the nearest.
    """
    if name not in REPRODUCTIONS:
        raise InputError(
            f"there is no reproduction {shown(name)}{nearest(name, REPRODUCTIONS)} (known: {', '.join(REPRODUCTIONS)})"
        )
    return cast(Reproduce, getattr(_module(name), REPRODUCTIONS[name].partition(":")[2]))


def files(name: str) -> tuple[str, ...]:
    """Return the name of a reproduction's data in the folder for all, or an empty text if it needs none.

    The constant ``FILES`` of its module, or a file or folder with its own name.
    """
    if not describe(name).data:
        return ()
    return tuple(getattr(_module(name), "FILES", (name,)))


def given_in(name: str, folder: Path) -> Path | None:
    """Return the data of a reproduction in the folder for all, or None if missing.

    One file or folder is passed itself, of several the folder that holds them.
    """
    names = files(name)
    if not names or not all((folder / entry).exists() for entry in names):
        return None
    return folder / names[0] if len(names) == 1 else folder


def _module(name: str) -> ModuleType:
    return importlib.import_module(REPRODUCTIONS[name].partition(":")[0])
