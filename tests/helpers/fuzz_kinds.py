"""What is fuzzed: experiments, data, run folders, checkpoints, model files, estimators; and what is sound of each.

A command ends with exit code 0, 1 or 2 and without a traceback, a call from Python returns or raises InputError or
SimulationError, and an estimator returns or raises what scikit-learn's do.
"""

from __future__ import annotations

import hashlib
import io
import shutil
import struct
import zipfile
from collections.abc import Callable, Mapping
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tomli_w
from hypothesis import strategies as st

from kernelswarm.simulations.command.cli import main
from kernelswarm.simulations.core import files
from kernelswarm.simulations.core.archives import read_arrays
from kernelswarm.simulations.core.errors import InputError, SimulationError, shown
from kernelswarm.simulations.core.toml_tables import parse
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.records import checkpoints
from kernelswarm.simulations.records.model_files import save
from kernelswarm.simulations.records.run_folder import FILES, load, read
from kernelswarm.simulations.running.simulation import run
from tests.helpers import damage
from tests.helpers.checkout import ROOT
from tests.helpers.command_line import SMALL
from tests.helpers.fuzz_estimators import estimators, refused, try_estimator

EXAMPLES = ROOT / "examples"

SHORT = {"rounds": 3, "evaluate_every": 2, "evaluation": {"local_samples": 5, "global_samples": 8}}

LEARNERS: dict[str, dict[str, Any]] = {
    "polk": {},
    "okfeb": {"rank": 3, "budget_size": 6},
    "bpa": {"budget_size": 4, "maintenance": "nearest"},
    "nystroem": {"landmarks": 4},
    "random_features": {"features": 8},
    "linear": {},
}
"""Learners whose functions are of every make, and whose checkpoints hold arrays of every make."""


class Kind(NamedTuple):
    """Something to damage: its cases, plain values each, and what is done with one in an empty folder."""

    name: str
    cases: st.SearchStrategy[Any]
    attempt: Callable[[Any], str]


def kinds(folder: Path) -> list[Kind]:
    """Prepare what is to be damaged, in a folder, and load and compile what is called; return all kinds."""
    with chdir(folder), redirect_stdout(io.StringIO()):
        for word in ("check", "run"):
            assert _try_data(("data.csv", _csv().encode(), "auto", word)) == "exit 0"
    folders = {learner: _run(folder / learner, learner, table) for learner, table in LEARNERS.items()}
    return [
        Kind("experiments", _experiments(), _try_experiment),
        Kind("options", _options(), _try_options),
        *(Kind(f"data: {name}", cases, _try_data) for name, cases in _data().items()),
        Kind("run folders", st.sampled_from(sorted(folders.values())).flatmap(_damaged_folders), _try_folder),
        Kind("checkpoints", st.sampled_from(sorted(folders.values())).flatmap(_checkpoints), _try_checkpoint),
        Kind("model files", st.sampled_from(sorted(folders.values())).flatmap(_models), _try_model),
        Kind("estimators", estimators(), try_estimator),
    ]


def command(*words: str) -> str:
    """Call the command line and return its exit code in words; raises AssertionError where that is not sound."""
    output = io.StringIO()
    code: Any = 0
    with redirect_stderr(output):
        try:
            main(list(words))
        except SystemExit as ended:
            code = ended.code or 0
    assert code in (0, 1, 2), f"exit code {code}: {output.getvalue()}"
    assert "Traceback" not in output.getvalue(), output.getvalue()
    assert code == 0 or output.getvalue().strip(), f"exit code {code} without a word"
    return f"exit {code}"


def _run(folder: Path, learner: str, table: Mapping[str, Any]) -> Path:
    experiment = Experiment.from_dict(
        {**parse(SMALL), **SHORT, "learner": {"name": learner, "step_size": 0.1, **table}, "checkpoint_every": 2}
    )
    made = run(experiment, folder).folder
    save(load(made, node=0), folder.parent / f"{learner}.npz")
    return made


# Experiments


def _experiments() -> st.SearchStrategy[Any]:
    bases = [parse(SMALL)]
    for path in sorted(EXAMPLES.glob("*.toml")):
        table = parse(path.read_text(encoding="utf-8"))
        if table["stream"].get("path") is None and table["stream"]["name"] not in ("idx", "file", "openml"):
            bases.append(_shortened(table))
    whole = st.sampled_from(bases).flatmap(damage.tables).map(_written)
    spoiled = st.sampled_from(bases).flatmap(lambda table: damage.texts(tomli_w.dumps(table)))
    words = st.sampled_from(["check", "run", "run", "run"])
    return st.tuples(words, st.one_of(whole, whole, whole, spoiled))


def _shortened(table: dict[str, Any]) -> dict[str, Any]:
    table = {**table, **SHORT, "backend": "serial"}
    if "nodes" in table["topology"]:
        table["topology"] = {**table["topology"], "nodes": 4}
    return table


def _written(table: Mapping[str, Any]) -> bytes:
    try:
        return tomli_w.dumps(table).encode()
    except (TypeError, ValueError):  # a key that is no text, or a surrogate: no file holds it
        return b""


def _options() -> st.SearchStrategy[Any]:
    table = parse(SMALL)
    keys = [".".join(map(str, path)) for path in damage.places(table)]
    keys += ["compare.seeds", "node", "learner.loss.threshold", "learner.kernel.name", "a.b", "", ".", "x" * 300]

    def assigned(key: str) -> st.SearchStrategy[str]:
        small = key.rpartition(".")[2] in damage.SIZES
        values = st.sampled_from(damage.SMALL_VALUES if small else [*damage.WILD, *damage.NAMES])
        as_text = values.map(lambda value: value if isinstance(value, str) else shown(value))
        wild = st.sampled_from(["[", "{", "}{", "[[1]", "'", '"""', "\n", "#", "= 1", "1 = 2", "[" * 2000])
        return st.one_of(as_text, as_text, wild).map(lambda value: f"{key}={value}")

    sets = st.lists(st.sampled_from(keys).flatmap(assigned), min_size=1, max_size=2)
    others = st.sampled_from(
        [[], [], [], ["--safe"], ["--quiet"], ["--backend", "a"], ["--rounds", "1"], ["--out", "a"]]
    )
    return st.tuples(st.sampled_from(["check", "run"]), sets, others)


def _try_options(case: tuple[str, list[str], list[str]]) -> str:
    word, sets, others = case
    Path("small.toml").write_text(SMALL, encoding="utf-8")
    words = [entry for change in sets for entry in ("--set", change)]
    return command(word, "small.toml", *words, *others, *(["--no-figures"] if word == "run" else []))


def _try_experiment(case: tuple[str, bytes]) -> str:
    word, text = case
    Path("case.toml").write_bytes(text)
    return command(word, "case.toml", *(["--quiet", "--no-figures"] if word == "run" else []))


# Data


def _data() -> dict[str, st.SearchStrategy[Any]]:
    x, labels, nodes = _rows()
    csv = _csv()
    svmlight = "\n".join(f"{label} 1:{a} 2:{b}" for (a, b), label in zip(x, labels, strict=True)) + "\n"
    arrays = {"x": x, "y": labels, "node": nodes}
    more = {"x": x, "y": x[:, 0], "x_test": x[:9], "y_test": x[:9, 0]}
    images = b"\0\0\x08\x03" + b"".join(n.to_bytes(4, "big") for n in (24, 2, 2)) + bytes(range(96))
    edges = "source,target\n0,1\n1,2\n2,0\n"
    dot = 'graph { edge [weight=2]; 0 -- {1 "2"} /* a */; 1 -- 2 [l=<<b>x</b>>]; 0 [pos="1,2!"] }'
    return {
        "csv": _files("data.csv", st.one_of(damage.texts(csv), damage.contents(csv.encode()))),
        "parquet": _files("data.parquet", damage.contents(_parquet(x, labels, nodes))),
        "npz": _files("data.npz", st.one_of(damage.archives(arrays), damage.archives(more))),
        "svmlight": _files("data.svm", st.one_of(damage.texts(svmlight), damage.contents(svmlight.encode()))),
        "idx": _files("images", damage.contents(images)),
        "edges": _files("graph.csv", st.one_of(damage.texts(edges), damage.contents(edges.encode()))),
        "graphml": _files("graph.graphml", st.one_of(damage.texts(_graphml()), damage.contents(_graphml().encode()))),
        "dot": _files("graph.dot", st.one_of(damage.texts(dot), damage.contents(dot.encode()))),
    }


def _rows() -> tuple[Any, Any, Any]:
    return np.random.default_rng(0).normal(size=(24, 2)).round(3), np.arange(24) % 2, np.arange(24) % 3


def _csv() -> str:
    rows = [f"{a},{b},{label},{node}" for (a, b), label, node in zip(*_rows(), strict=True)]
    return "\n".join(["a,b,y,node", *rows, ""])


def _parquet(x: Any, labels: Any, nodes: Any) -> bytes:
    import pyarrow
    from pyarrow import parquet

    buffer = io.BytesIO()
    parquet.write_table(pyarrow.table({"a": x[:, 0], "b": x[:, 1], "y": labels, "node": nodes}), buffer)
    return buffer.getvalue()


def _graphml() -> str:
    import networkx as nx

    graph = nx.cycle_graph(3)
    nx.set_node_attributes(graph, {0: 0.0, 1: 1.0, 2: 0.5}, "x")
    nx.set_node_attributes(graph, {0: 0.0, 1: 0.0, 2: 1.0}, "y")
    nx.set_edge_attributes(graph, 2.0, "weight")
    return "\n".join(nx.generate_graphml(graph))


def _files(name: str, content: st.SearchStrategy[bytes]) -> st.SearchStrategy[Any]:
    tasks = st.sampled_from(["auto", "auto", "regression", "classification", "events"])
    return st.tuples(st.just(name), content, tasks, st.sampled_from(["check", "run"]))


def _try_data(case: tuple[str, bytes, str, str]) -> str:
    name, content, task, word = case
    Path("small.toml").write_text(SMALL, encoding="utf-8")
    Path(name).write_bytes(content)
    if name.startswith("graph"):
        words = [f"topology={{name='file',path='{name}'}}"]
    elif name == "images":
        Path("labels").write_bytes(b"\0\0\x08\x01" + (24).to_bytes(4, "big") + bytes([0, 1] * 12))
        words = ["stream={name='idx',images='images',labels='labels'}", "learner.loss=logistic"]
    else:
        words = [f"stream={{name='file',path='{name}',task='{task}',standardize={str(task == 'auto').lower()}}}"]
        words += ["learner.loss=logistic"] if task in ("auto", "classification") else []
    sets = [entry for word_ in words for entry in ("--set", word_)]
    return command(word, "small.toml", *sets, *(["--quiet", "--no-figures"] if word == "run" else []))


# Run folders, checkpoints, model files


@st.composite
def _damaged_folders(draw: st.DrawFn, folder: Path) -> tuple[Path, str, bytes | None, bool, str]:
    name = draw(st.sampled_from([*FILES, "models.npz", "data.json", "config.toml", "summary.json"]))
    content = (folder / name).read_bytes()
    if draw(st.integers(0, 9)) == 0:
        damaged = None
    elif name.endswith(".npz"):
        damaged = draw(damage.archives(read_arrays(folder / name)))
    elif name.endswith(".json"):
        damaged = draw(damage.json_texts(content.decode())).encode(errors="replace")
    elif name.endswith(".toml"):
        damaged = _written(draw(damage.tables(parse(content.decode()))))
    elif name.endswith(".parquet"):
        damaged = draw(damage.contents(content))
    else:
        damaged = draw(damage.texts(content.decode()))
    return (
        folder,
        name,
        damaged,
        draw(st.booleans()),
        draw(st.sampled_from(["read", "load", "resume", "longer", "plot", "animate"])),
    )


def _try_folder(case: tuple[Path, str, bytes | None, bool, str]) -> str:
    folder, name, content, summed, way = case
    shutil.copytree(folder, "here")
    if content is None:
        (Path("here") / name).unlink()
    else:
        (Path("here") / name).write_bytes(content)
        if summed and name != files.SUMS:
            files.write(Path("here"), [entry for entry in FILES if entry != files.SUMS])
    if way in ("resume", "longer"):
        return command("resume", "here", "--quiet", "--no-figures", *(["--rounds", "5"] if way == "longer" else []))
    if way == "plot":
        return command("plot", "here", "--format", "svg", "--style", "paper")
    if way == "animate":
        return command("animate", "here")
    return _asked(lambda: read("here") if way == "read" else load("here", node=0).predict(np.zeros((2, 1))))


def _asked(call: Callable[[], Any]) -> str:
    """Return how a call from Python ended; whatever else it raises is not sound."""
    try:
        call()
    except (InputError, SimulationError) as refusal:
        return refused(refusal)
    return "done"


@st.composite
def _checkpoints(draw: st.DrawFn, folder: Path) -> tuple[Path, bytes]:
    path = checkpoints.paths(folder / "checkpoints")[-1]
    arrays = read_arrays(path)
    if draw(st.booleans()):
        text = draw(damage.json_texts(arrays["facts"].tobytes().decode()))
        arrays["facts"] = np.frombuffer(text.encode(errors="replace"), dtype=np.uint8)
        content = damage.packed(arrays)
    else:
        content = draw(damage.archives(arrays))
    return path, sealed(content)


def sealed(content: bytes) -> bytes:
    """Return an archive with the right checksum of a checkpoint behind it, as far as it is one."""
    buffer = io.BytesIO(content)
    try:
        with zipfile.ZipFile(buffer, "a") as archive:
            archive.comment = b"0" * checkpoints.DIGEST
    except (zipfile.BadZipFile, struct.error, ValueError, NotImplementedError):  # no archive that can be written on
        return content
    whole = buffer.getvalue()[: -checkpoints.DIGEST]
    return whole + hashlib.sha256(whole).hexdigest().encode()


def _try_checkpoint(case: tuple[Path, bytes]) -> str:
    path, content = case
    shutil.copytree(path.parents[1], "here")
    for other in checkpoints.paths(Path("here/checkpoints")):
        other.unlink()
    (Path("here/checkpoints") / path.name).write_bytes(content)
    Path("here/summary.json").unlink()
    return command("resume", "here", "--rounds", "6", "--quiet", "--no-figures")


@st.composite
def _models(draw: st.DrawFn, folder: Path) -> tuple[bytes, int]:
    arrays = read_arrays(folder.parent / f"{folder.name}.npz")
    if draw(st.booleans()):
        arrays["description"] = np.array(draw(damage.json_texts(str(arrays["description"]))))
        return damage.packed(arrays), 1
    return draw(damage.archives(arrays)), draw(st.integers(0, 3))


def _try_model(case: tuple[bytes, int]) -> str:
    content, inputs = case
    Path("model.npz").write_bytes(content)
    try:
        model = load("model.npz")
    except InputError as refusal:
        return refused(refusal)
    try:
        model.predict(np.zeros((2, inputs)))
    except ValueError as refusal:  # points of another width
        return refused(refusal)
    return "done"
