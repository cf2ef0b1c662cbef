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

# name -> "module:function". A new reproduction is one file and one line here; nothing is imported until it is named.
# A module whose reproduction needs data says which in its constant DATA: the file, and where it is published; where
# it runs without, DATA_IS_OPTIONAL is true.
REPRODUCTIONS: dict[str, str] = {
    "polk-multidist": "kernelswarm.simulations.reproductions.polk_multidist:reproduce",
    "polk-theory": "kernelswarm.simulations.reproductions.polk_theory:reproduce",
    "polk-mnist": "kernelswarm.simulations.reproductions.polk_mnist:reproduce",
    "okfeb-spheres": "kernelswarm.simulations.reproductions.okfeb_spheres:reproduce",
    "okfeb-manifold": "kernelswarm.simulations.reproductions.okfeb_manifold:reproduce",
    "okfeb-regression": "kernelswarm.simulations.reproductions.okfeb_regression:reproduce",
    "okfeb-bounds": "kernelswarm.simulations.reproductions.okfeb_bounds:reproduce",
    "colk-outliers": "kernelswarm.simulations.reproductions.colk_outliers:reproduce",
    "colk-lidar": "kernelswarm.simulations.reproductions.colk_lidar:reproduce",
    "colk-theory": "kernelswarm.simulations.reproductions.colk_theory:reproduce",
    "spppot-gaussian": "kernelswarm.simulations.reproductions.spppot_gaussian:reproduce",
    "spppot-shots": "kernelswarm.simulations.reproductions.spppot_shots:reproduce",
    "spppot-mnist": "kernelswarm.simulations.reproductions.spppot_mnist:reproduce",
    "spppot-theory": "kernelswarm.simulations.reproductions.spppot_theory:reproduce",
    "survey-consensus": "kernelswarm.simulations.reproductions.survey_consensus:reproduce",
    "survey-proximity": "kernelswarm.simulations.reproductions.survey_proximity:reproduce",
    "survey-theory": "kernelswarm.simulations.reproductions.survey_theory:reproduce",
    "survey-figure2": "kernelswarm.simulations.reproductions.survey_figure2:reproduce",
    "krls-lorenz": "kernelswarm.simulations.reproductions.krls_lorenz:reproduce",
    "unreliable-links": "kernelswarm.simulations.reproductions.unreliable_links:reproduce",
    "faults": "kernelswarm.simulations.reproductions.faults:reproduce",
    "summaries": "kernelswarm.simulations.reproductions.summaries:reproduce",
    "rivals": "kernelswarm.simulations.reproductions.rivals:reproduce",
    "dkla": "kernelswarm.simulations.reproductions.dkla:reproduce",
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
