"""The import of what a text names: a module of ours, or one that a user or another package has written."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import Any

from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.core.messages import nearest, shown
from kernelswarm.simulations.core.own_code import OwnCode
from kernelswarm.simulations.machine.compiling import keep_by_contents


def load(target: str) -> Any:
    """Return the object that a text of ours names, "module:attribute"."""
    module, _, attribute = target.partition(":")
    found: Any = importlib.import_module(module)
    for step in attribute.split("."):
        found = getattr(found, step)
    return found


def _places(folder: Path | None) -> list[str]:
    return list(dict.fromkeys(str(place.resolve()) for place in (folder, Path.cwd()) if place is not None))


def refuse_elsewhere(name: str, path: str, folder: Path | None) -> None:
    """Refuse a module that lies neither beside the experiment file nor in the current folder; raises InputError."""
    module = name.partition(":")[0]
    first = module.split(".")[0]
    if not any(
        os.path.exists(os.path.join(place, stem)) for place in _places(folder) for stem in (first, f"{first}.py")
    ):
        raise InputError(
            f"{path} = {shown(name)} names code that does not lie beside the experiment file or in the current folder, "
            f"and check is not to run it: give --trust if {module} may be imported and called"
        )


def import_part(name: str, path: str, folder: Path | None) -> Any:
    """Import a module that is not ours and return what ``name`` names in it; InputError where that fails."""
    # A user's module lies beside the experiment or where the command is given. The places are appended, so that they
    # shadow nothing, and they stay, so that the processes of a backend find the module too.
    places = _places(folder)
    sys.path.extend(place for place in places if place not in sys.path)
    module, _, attribute = name.partition(":")
    importlib.invalidate_caches()  # the module may be younger than the last look into its folder
    try:
        with OwnCode(f"{path} = {shown(name)}: importing {module}"):
            importlib.import_module(module)
        keep_by_contents(module)
        return load(name)
    except InputError as refusal:
        error = refusal.__cause__
        if not isinstance(error, ModuleNotFoundError):
            raise
        if error.name is not None and f"{module}.".startswith(f"{error.name}."):
            raise InputError(
                f"{path} = {shown(name)}: there is no module {error.name!r} among the installed packages or in "
                + " or ".join(places)
            ) from error
        raise
    except AttributeError as error:
        known = [entry for entry in vars(sys.modules[module]) if not entry.startswith("_")]
        raise InputError(f"{path} = {shown(name)}: {module} has no {attribute}{nearest(attribute, known)}") from error
