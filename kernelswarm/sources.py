"""Hashes of the sources that a module's functions are compiled from: its own source and its imports' sources.

A compiled function includes its callees and constants from other files. Dates do not show whether these have changed:
``rsync -a``, ``tar`` and layers of images keep them.
"""

import hashlib
import re
import sys
import sysconfig
import zipimport
from collections.abc import Iterator
from functools import cache
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

IMPORT = re.compile(
    r"[ \t]*(?:from[ \t]+(?P<module>\.*[ \t]*[\w.]*)[ \t]+import\b[ \t]*(?P<names>\((?:[^()#]|#[^\n]*)*\)|[^\n#;]*)"
    r"|import[ \t]+(?P<modules>[^\n#;]*))"
)
COMMENT = re.compile(r"#[^\n]*")
NAME = re.compile(r"([\w.]+)(?:\s+as\s+\w+)?")

FOR_TYPES = re.compile(r"^([ \t]*)if (?:typing\.)?TYPE_CHECKING:[^\n]*\n(?:\1[ \t]+[^\n]*\n|[ \t]*\n)*", re.MULTILINE)
NUMBERED = {"llvmlite", "numba", "numpy", "scipy"}
"""Libraries that are identified by their version."""

_standard = Path(sysconfig.get_path("stdlib"))
_installed = {Path(sysconfig.get_path(name)).resolve() for name in ("purelib", "platlib")}


class Source(NamedTuple):
    """A source file.

    Attributes
    ----------
    digest : bytes
        The SHA-256 of its contents.
    imports : tuple of tuple
        What it imports, inside its functions too: a module, with dots in front as written, and the names out of it.
    """

    digest: bytes
    imports: tuple[tuple[str, tuple[str, ...]], ...]


_loaded: dict[str, Source] = {}
"""The sources of modules as they were when their compiled functions were defined, which they may no longer be."""

_imports: dict[str, dict[str, str]] = {}
_stamps: dict[tuple[str, str], bytes | None] = {}
"""The stamps found since a compiled function was last defined."""


def note(module: str, file: str) -> None:
    """Remember the source of a module at import: the file may be edited before its functions are compiled."""
    source = _source(file)
    if source is not None:
        _loaded[module] = source
    _imports.clear()  # others may have been loaded again
    _stamps.clear()


def stamp(module: str, file: str) -> bytes | None:
    """Return a stamp that changes with every source on which a module's functions may depend.

    These are the file itself and its imports, recursively. Imports of installed packages are not followed further;
    Python's own modules, numba, llvmlite, numpy and scipy do not count.

    Parameters
    ----------
    module : str
        Its name; "__main__" for a script.
    file : str
        Its source.

    Returns
    -------
    bytes or None
        None if a source cannot be read.
    """
    key = module, file
    if key not in _stamps:
        _stamps[key] = _stamp(module, file)
    return _stamps[key]


def _stamp(module: str, file: str) -> bytes | None:
    home = module.partition(".")[0]
    found: dict[str, bytes] = {}
    left = {module: file}
    while left:
        name, place = left.popitem()
        source = _loaded.get(name) or _source(place)
        if source is None:
            return None
        found[name] = name.encode() + b"\n" + source.digest
        if name == module or name.partition(".")[0] in (home, "kernelswarm") or not _is_installed(place):
            if name not in _imports:
                _imports[name] = _imported(name, place, source)
            left |= {other: origin for other, origin in _imports[name].items() if other not in found}
    return hashlib.sha256(b"".join(sorted(found.values()))).digest()


def is_edited(file: str | None) -> bool:
    """Return whether a module's file is a user's own, and neither Python's nor that of an installed package."""
    return file is not None and not _is_installed(file) and not Path(file).is_relative_to(_standard)


def _imported(name: str, place: str, source: Source) -> dict[str, str]:
    """Return the imports of a module with their files; modules without a file are left out."""
    specs = _specs_of(name, place, source)
    return {spec.name: spec.origin for spec in specs if spec.has_location and spec.origin is not None}


@cache
def _is_installed(place: str) -> bool:
    return any(folder in Path(place).resolve().parents for folder in _installed)


def _specs_of(name: str, place: str, source: Source) -> Iterator[ModuleSpec]:
    package = name if Path(place).name == "__init__.py" else name.rpartition(".")[0]
    for written, names in source.imports:
        base = _absolute(written, package)
        if base is None or base.partition(".")[0] in sys.stdlib_module_names | NUMBERED:
            continue
        parts = base.split(".")
        around = [] if names else [".".join(parts[:end]) for end in range(1, len(parts))]  # which `import a.b` binds
        spec = _spec(base)
        inside = names if spec is not None and spec.submodule_search_locations is not None else ()
        yield from filter(None, map(_spec, [*around, base, *(f"{base}.{each}" for each in inside)]))


def _absolute(written: str, package: str) -> str | None:
    bare = written.lstrip(".")
    dots = len(written) - len(bare)
    if not dots:
        return bare
    above = package.split(".")[: len(package.split(".")) - dots + 1] if package else []
    return ".".join([*above, *filter(None, [bare])]) or None


_specs: dict[str, ModuleSpec] = {}


def _spec(name: str) -> ModuleSpec | None:
    """Return the spec of a module, or of the package that holds it, without loading the module."""
    if name not in _specs:
        parent, _, _ = name.rpartition(".")
        try:
            if parent:
                above = _spec(parent)
                locations = None if above is None else above.submodule_search_locations
                found = None if locations is None else PathFinder.find_spec(name, locations)
            else:
                found = find_spec(name)
        except (ImportError, ValueError, KeyError):  # broken, put into sys.modules by hand, or in no loaded folder
            found = None
        if found is None:
            return None
        _specs[name] = found
    return _specs[name]


def is_readable(file: str) -> bool:
    """Return whether a source can be read: it is a file, or in an archive from which modules are imported."""
    return Path(file).is_file() or _archive(file) is not None


def _archive(file: str) -> Path | None:
    """Return the archive that holds a path, the first of its parents that is a file, or None."""
    return next((folder for folder in Path(file).parents if folder.is_file()), None)


def _source(file: str) -> Source | None:
    archive = None if Path(file).is_file() else _archive(file)
    try:
        seen = Path(archive or file).stat()
    except OSError:
        return None
    return _read(file, archive, seen.st_mtime_ns, seen.st_ctime_ns, seen.st_size)


@cache
def _read(file: str, archive: Path | None, *seen: int) -> Source | None:
    try:
        contents = zipimport.zipimporter(str(archive)).get_data(file) if archive else Path(file).read_bytes()
    except (OSError, zipimport.ZipImportError):
        return None
    digest = hashlib.sha256(contents).digest()
    if not file.endswith((".py", ".pyw")) and b"\0" in contents:  # an extension: its imports are unknown
        return Source(digest, ())
    return Source(digest, tuple(_statements(contents.decode("utf-8", "replace"))))


def _statements(text: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    text = text.replace("\r\n", "\n").replace("\\\n", " ")
    if "TYPE_CHECKING" in text:
        text = FOR_TYPES.sub("", text)
    place = text.find("import")
    while place >= 0:
        line = text.rfind("\n", 0, place) + 1
        found = IMPORT.match(text, max(line, text.rfind(";", line, place) + 1))
        if found is not None and found["modules"] is not None:
            yield from ((module, ()) for module in NAME.findall(found["modules"]))
        elif found is not None:
            names = NAME.findall(COMMENT.sub("", found["names"]))
            yield found["module"].replace(" ", "").replace("\t", ""), tuple(names)
        place = text.find("import", place + 1 if found is None else max(found.end(), place + 1))
