"""JSON that is too deep is refused before a parser sees it, wherever JSON is read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelswarm.graphs.files import read_graph
from kernelswarm.shallow_json import DEEPEST, TooDeep, parse
from kernelswarm.simulations.comparison.comparison_folder import read_index
from kernelswarm.simulations.core.data_description import DataDescription
from kernelswarm.simulations.data.file import File
from kernelswarm.simulations.records.run_folder import load

VALUES = st.recursive(
    st.none() | st.text(alphabet='[]{}"\\a\u00e9'),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(alphabet='[{"\\'), inner, max_size=3),
    max_leaves=20,
)


def depth(value: object) -> int:
    if not isinstance(value, dict | list):
        return 0
    return 1 + max(map(depth, value.values() if isinstance(value, dict) else value), default=0)


@given(VALUES, st.integers(0, DEEPEST + 1))
def test_depth_is_that_of_lists_and_records_and_not_of_brackets_in_text(value: object, more: int) -> None:
    for _ in range(more):
        value = [value]
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False).encode()):
        if depth(value) > DEEPEST:
            with pytest.raises(TooDeep, match=f"are {depth(value)} deep in one another, and at most {DEEPEST} can be"):
                parse(text)
        else:
            assert parse(text) == value


def data_lines(path: Path, deep: str) -> object:
    path.with_suffix(".jsonl").write_text(f'{{"x": 1, "y": {deep}}}\n')
    return File(path=str(path.with_suffix(".jsonl"))).open(2, 0, 10, None)


def data_list(path: Path, deep: str) -> object:
    path.with_suffix(".json").write_text(f'[{{"x": 1, "y": {deep}}}]')
    return File(path=str(path.with_suffix(".json"))).open(2, 0, 10, None)


def graph(path: Path, deep: str) -> object:
    path.with_suffix(".json").write_text(f'{{"nodes": {deep}}}')
    return read_graph(path.with_suffix(".json"))


def gml(path: Path, deep: str) -> object:
    content = "a [ " * len(deep) + "] " * len(deep)
    path.with_suffix(".gml").write_text(f"graph [ node [ id 0 {content}] ]")
    return read_graph(path.with_suffix(".gml"))


def model(path: Path, deep: str) -> object:
    np.savez(path.with_suffix(".npz"), description=np.array(deep))
    return load(path.with_suffix(".npz"))


def description(path: Path, deep: str) -> object:
    return DataDescription.from_json(deep)


def index(path: Path, deep: str) -> object:
    (path / "runs").mkdir(parents=True)
    (path / "runs/index.json").write_text(deep)
    return read_index(path)


@pytest.mark.parametrize("reader", [data_lines, data_list, graph, gml, model, description, index])
def test_every_reader_refuses_it(reader: Callable[[Path, str], object], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"deep in one another|recursion|is damaged"):  # InputError is one
        reader(tmp_path / "deep", "[" * 20_000 + "]" * 20_000)
