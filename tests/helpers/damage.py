"""Strategies that damage what is whole: tables, texts, bytes, archives and arrays."""

from __future__ import annotations

import copy
import io
import json
import zipfile
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from hypothesis import strategies as st

from kernelswarm.arrays import AnyArray
from kernelswarm.simulations.experiment.registry import PARTS

Arrays = dict[str, AnyArray]

LEFT_OUT = {"ray", "openml"}
"""Parts that start processes or ask a network."""

NAMES = sorted({name for table in PARTS.values() for name in table} - LEFT_OUT)

SIZES = {
    *("nodes", "rows", "columns", "cliques", "size", "branching", "height", "neighbors", "links", "degree", "attempts"),
    *("rounds", "local_samples", "global_samples", "batch_size", "features", "landmarks", "rank", "budget_size"),
    *(
        "terms",
        "epochs",
        "classes",
        "inputs",
        "components",
        "points",
        "grid",
        "cells",
        "order",
        "target_order",
        "seeds",
    ),
    *("nodes_per_actor", "most", "period", "states", "length", "dimension", "dimensions", "resolution", "samples"),
}
"""Keys that say how much of something there is; they are given small numbers only, or what is no number."""

NUMBERS = [
    *(0.1, 0.9, 1.0, 10, 100),
    0,
    1,
    -1,
    2,
    3,
    0.5,
    -0.5,
    1e-300,
    1e-9,
    1e9,
    1e150,
    1e300,
    -1e300,
    float("nan"),
    float("inf"),
    2**31,
    2**63,
    -(2**63),
]
WORDS = ["", "a", "auto", "median", "relevance", "true", "nan", "1", "é\u0000", "x" * 300, "../x", "a:b", "a:b:c", ":"]
WORDS += [
    "math:sqrt",
    "json:JSONDecoder",
    "no_such_module:Part",
    "kernelswarm.agents.learners.polk:Polk",
    "networkx:petersen_graph",
]
SMALL_VALUES: list[Any] = [-1, 0, 1, 2, 3, 5, 1.5, float("nan"), "a", True, [], [1, 2], {}]
WILD: list[Any] = [
    *NUMBERS,
    *WORDS,
    True,
    False,
    [],
    [0],
    [[]],
    [1, "a"],
    {},
    {"name": "a"},
    {"a": {"b": 1}},
    {"name": 1},
]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every entry of tables and lists in one another."""
    entries = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    for key, entry in entries:
        yield (*path, key)
        yield from places(entry, (*path, key))


@st.composite
def tables(draw: st.DrawFn, table: Mapping[str, Any], most: int = 3) -> dict[str, Any]:
    """Change one to ``most`` entries of a table: their values, names or places."""
    found = copy.deepcopy(dict(table))
    for _ in range(draw(st.sampled_from([1, 1, 1, 2, most]))):
        known = list(places(found))
        if not known:
            break
        *above, key = draw(st.sampled_from(known))
        outer: Any = found
        for step in above:
            outer = outer[step]
        change = draw(st.sampled_from(["value", "value", "value", "name", "remove", "rename", "wrap", "add"]))
        if change == "remove":
            del outer[key]
        elif change == "wrap":
            outer[key] = draw(st.sampled_from([[outer[key]], {"name": outer[key]}, {str(key): outer[key]}]))
        elif change == "rename" and isinstance(outer, dict):
            outer[draw(st.sampled_from([f"{key}s", "name", "path", "", "a.b", "x" * 300]))] = outer.pop(key)
        elif change == "add" and isinstance(outer, dict):
            added = draw(
                st.sampled_from(["name", "kernel", "loss", "budget", "step_size", "split", "noise", "compare"])
            )
            outer[added] = draw(st.sampled_from([*NAMES, *WILD]))
        elif change == "name":
            outer[key] = draw(st.sampled_from(NAMES))
        else:
            outer[key] = draw(st.sampled_from(SMALL_VALUES if key in SIZES else WILD))
    return found


@st.composite
def contents(draw: st.DrawFn, content: bytes) -> bytes:
    """Flip bits of some bytes, cut them short, leave some out, repeat some or put others in between."""
    found = bytearray(content)
    for _ in range(draw(st.sampled_from([1, 1, 2]))):
        place = draw(st.integers(0, max(len(found) - 1, 0)))
        width = draw(st.sampled_from([1, 1, 2, 4, 8, 64]))
        change = draw(st.sampled_from(["flip", "flip", "flip", "cut", "leave out", "repeat", "insert", "fill"]))
        if change == "flip" and found:
            found[place] ^= 1 << draw(st.integers(0, 7))
        elif change == "cut":
            del found[place:]
        elif change == "leave out":
            del found[place : place + width]
        elif change == "repeat":
            found[place:place] = found[place : place + width]
        elif change == "insert":
            found[place:place] = draw(st.binary(min_size=1, max_size=8))
        else:
            found[place : place + width] = draw(st.sampled_from([b"\x00", b"\xff"])) * min(width, len(found) - place)
    return bytes(found)


TOKENS = [
    "nan",
    "inf",
    "-inf",
    "1e999",
    "1e300",
    "-1e19",
    "1" * 400,
    "",
    '"',
    "'",
    "a",
    "é",
    "\x00",
    "0x10",
    "1_000",
    "1,5",
]
TOKENS += [
    "true",
    " ",
    "\t",
    "\n",
    "-1",
    "9223372036854775808",
    "2147483648",
    "2147483648:1",
    "1:nan",
    "#",
    "<",
    "&",
    "]]>",
]


@st.composite
def texts(draw: st.DrawFn, text: str) -> bytes:
    """Replace words of a text by wild ones, or lines by others, and perhaps damage its bytes."""
    lines = text.split("\n")
    for _ in range(draw(st.sampled_from([1, 1, 2]))):
        place = draw(st.integers(0, len(lines) - 1))
        change = draw(st.sampled_from(["word", "word", "word", "drop", "repeat", "swap"]))
        if change == "drop" and len(lines) > 1:
            del lines[place]
        elif change == "repeat":
            lines.insert(place, lines[place])
        elif change == "swap":
            other = draw(st.integers(0, len(lines) - 1))
            lines[place], lines[other] = lines[other], lines[place]
        else:
            for mark in (",", " ", '"'):
                words = lines[place].split(mark)
                if len(words) > 1:
                    break
            words[draw(st.integers(0, len(words) - 1))] = draw(st.sampled_from(TOKENS))
            lines[place] = mark.join(words)
    content = "\n".join(lines).encode()
    return draw(contents(content)) if draw(st.integers(0, 4)) == 0 else content


@st.composite
def array_sets(draw: st.DrawFn, arrays: Mapping[str, AnyArray]) -> Arrays:
    """Change some arrays of an archive: their values, shapes, types and names."""
    found = {name: np.array(array) for name, array in arrays.items()}
    for _ in range(draw(st.sampled_from([1, 1, 2]))):
        if not found:
            break
        name = draw(st.sampled_from(sorted(found)))
        array = found[name]
        change = draw(st.sampled_from(["value", "value", "shape", "type", "drop", "rename", "swap", "rows", "text"]))
        if change == "value" and array.size and array.dtype.kind in "iuf":
            value = draw(st.sampled_from([0, 1, -1, 2, 1e9, 1e19, 1e150, 1e300, float("nan"), float("inf"), -1e300]))
            with np.errstate(invalid="ignore", over="ignore"):
                array.flat[draw(st.integers(0, array.size - 1))] = np.array(value).astype(array.dtype)
        elif change == "shape":
            shapes = [(), (0,), (-1,), (1, -1), (-1, 1), (1, 1, -1)]
            shape = draw(st.sampled_from(shapes))
            whole = -1 in shape and array.size > 0
            found[name] = array.reshape(shape) if whole else np.zeros([max(size, 0) for size in shape], array.dtype)
        elif change == "type":
            with np.errstate(invalid="ignore", over="ignore"):
                kind = draw(
                    st.sampled_from(["f4", "f2", "i8", "i1", "u8", "b1", "c16", "U5", "S3", ">f8", "M8[s]", "V4"])
                )
                found[name] = np.zeros(array.shape, kind) if array.dtype.kind not in "iufb" else array.astype(kind)
        elif change == "drop":
            del found[name]
        elif change == "rename":
            found[draw(st.sampled_from([f"{name}s", "x", "y", "node", "points", "weights", "basis"]))] = found.pop(name)
        elif change == "swap":
            other = draw(st.sampled_from(sorted(found)))
            found[name], found[other] = found[other], found[name]
        elif change == "rows" and array.ndim:
            found[name] = draw(st.sampled_from([array[:0], array[:-1], np.concatenate([array, array])]))
        else:
            found[name] = np.array(draw(st.sampled_from(["", "{", "[1]", "nan", "é"])))
    return found


@st.composite
def json_texts(draw: st.DrawFn, text: str) -> str:
    """Change entries of a table in JSON, or, seldom, its text."""
    if draw(st.integers(0, 9)) == 0:
        return draw(texts(text)).decode(errors="replace")
    return json.dumps(draw(tables(json.loads(text))))


def packed(arrays: Mapping[str, AnyArray]) -> bytes:
    """Return the bytes of an archive of arrays."""
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


@st.composite
def archives(draw: st.DrawFn, arrays: Mapping[str, AnyArray]) -> bytes:
    """Change arrays of an archive, or the bytes of its members, whose checksums are right again, or its own bytes."""
    way = draw(st.sampled_from(["arrays", "arrays", "members", "bytes"]))
    if way == "arrays":
        return packed(draw(array_sets(arrays)))
    content = packed(arrays)
    if way == "bytes":
        return draw(contents(content))
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(buffer, "w") as new:
        chosen = draw(st.sampled_from(old.namelist()))
        for name in old.namelist():
            member = old.read(name)
            new.writestr(name, draw(contents(member[:128])) + member[128:] if name == chosen else member)
    return buffer.getvalue()
