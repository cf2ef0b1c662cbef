"""Packages the code for the processes of a cluster: kernelswarm and the user's modules."""

from __future__ import annotations

import json
import os
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.engine import bootstrap

PACKAGES = ("agents", "graphs", "protocols", "simulations")

LARGEST = 20 * 2**20
"""Maximum bytes of shipped source code: larger code should be installed on the machines."""

JOB = "RAY_JOB_CONFIG_JSON_ENV_VAR"
"""The place of a submitted job's files."""


@contextmanager
def surroundings(variables: Mapping[str, str], ship: bool) -> Iterator[dict[str, Any]]:
    """Yield the runtime environment for the processes of a cluster; its files exist inside the context.

    If a job was submitted with its own environment, the keys set there are left out here, since Ray does not accept
    both.

    Parameters
    ----------
    variables : mapping of str to str
        Environment variables of the processes.
    ship : bool
        Whether code is shipped: kernelswarm, and all loaded modules from outside the standard library and the installed
        packages.

    Raises
    ------
    InputError
        The modules are too large.
    """
    given = (json.loads(os.environ.get(JOB, "{}")).get("runtime_env")) or {}
    taken = given.get("env_vars") or {}
    found: dict[str, Any] = {
        "env_vars": {name: value for name, value in variables.items() if name not in taken},
    }
    with tempfile.TemporaryDirectory(prefix="kernelswarm-") as folder:
        if ship and not {"py_modules", "worker_process_setup_hook"} & set(given):
            found["py_modules"] = [str(pack(Path(folder)))]
            found["worker_process_setup_hook"] = f"{bootstrap.PARCEL}.{bootstrap.arrive.__name__}"
        yield found


def pack(folder: Path) -> Path:
    """Write the shipped package into a folder, and return the package's folder."""
    if not Path(bootstrap.__file__).is_file():
        raise InputError(
            f"backend.ship: kernelswarm is in an archive ({_folder('kernelswarm')}), from which it does not "
            "travel: unpack it, or install it on every machine and set backend.ship = false"
        )
    parcel = folder / bootstrap.PARCEL
    (parcel / bootstrap.OWN).mkdir(parents=True)
    shutil.copyfile(bootstrap.__file__, parcel / "__init__.py")
    library = parcel / bootstrap.LIBRARY / "kernelswarm"
    for path in _folder("kernelswarm").glob("*.py"):
        _copy(path, library / path.name)
    for package in PACKAGES:
        folder = _folder(f"kernelswarm.{package}")
        for path in _sources(folder):
            _copy(path, library / package / path.relative_to(folder))
    (parcel / bootstrap.DIGEST).write_text(bootstrap.digest(library))
    own = dict(own_modules())
    size = sum(path.stat().st_size for path in own.values())
    if size > LARGEST:
        largest = max(own, key=lambda name: own[name].stat().st_size)
        raise InputError(
            f"backend.ship: your own modules, such as {largest.as_posix()}, are {size / 2**20:.0f} MB, and at most "
            f"{LARGEST / 2**20:.0f} MB travel: install them on every machine and set backend.ship = false"
        )
    for name, path in own.items():
        _copy(path, parcel / bootstrap.OWN / name)
    return parcel


def own_modules() -> Iterator[tuple[Path, Path]]:
    """Yield the files of the user's loaded modules: relative destination and present path.

    All Python files of a package are included, since some may be imported later.
    """
    standard = [Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")]
    for name, module in sorted(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file is None or not file.endswith(".py") or name.split(".")[0] in ("kernelswarm", "__main__", "__mp_main__"):
            continue
        path = Path(file)
        installed = {"site-packages", "dist-packages"} & set(path.parts)
        if installed or any(path.is_relative_to(folder) for folder in standard) or not path.is_file():
            continue
        place = Path(*name.split("."))
        if path.name == "__init__.py":
            yield from ((place / source.relative_to(path.parent), source) for source in _sources(path.parent))
        else:
            yield place.with_suffix(".py"), path


def _folder(package: str) -> Path:
    found = find_spec(package)
    assert found is not None and found.submodule_search_locations is not None
    return Path(found.submodule_search_locations[0])


def _sources(folder: Path) -> Iterator[Path]:
    return folder.rglob("*.py")


def _copy(path: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, target)
