"""What comes from outside, a path, a text, a module, an archive, a signal, leaves as one paragraph or not at all."""

from __future__ import annotations

import zipfile
from dataclasses import make_dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.lib import format as npy

from kernelswarm.simulations.core.archives import ArchiveError, read_arrays
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.core.toml_tables import DEEPEST, NotTOML, parse
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.experiment.registry import METHODS, PARTS, find
from kernelswarm.simulations.records.run_folder import load, read
from kernelswarm.simulations.running.simulation import resume
from tests.helpers.command_line import SMALL, Command, paragraph

LONG = "x" * 300


@pytest.fixture
def call(call: Command) -> Command:
    Path("small.toml").write_text(SMALL)
    Path("loop").symlink_to("loop")
    return call


@pytest.mark.parametrize("path", ["", " ", LONG, f"{LONG}/x", "loop", "loop/x", "a\0b"])
@pytest.mark.parametrize(
    "words",
    [
        ["run", "small.toml", "--out", "*"],
        ["compare", "small.toml", "--out", "*"],
        ["plot", "small.toml", "--out", "*"],
        ["reproduce", "lidar", "--data", "*"],
        ["run", "*"],
        ["check", "*"],
        ["resume", "*"],
        ["plot", "*"],
        ["init", "*"],
    ],
    ids=" ".join,
)
def test_paths_that_no_file_can_have_are_refused(words: list[str], path: str, call: Command) -> None:
    before = sorted(Path().iterdir())
    assert "is no path, " in paragraph(call(*[path if word == "*" else word for word in words]))
    assert sorted(Path().iterdir()) == before


@pytest.mark.parametrize("key", ["stream={name='file',path='*'}", "topology={name='file',path='*'}"])
@pytest.mark.parametrize("path", ["", f"{LONG}.csv", f"{LONG}/x.csv", "loop", "loop/x.csv", "a\\u0000b.csv"])
def test_paths_in_an_experiment_that_no_file_can_have_are_refused(key: str, path: str, call: Command) -> None:
    change = key.replace("'*'", f'"{path}"')
    paragraph(call("run", "small.toml", "--set", change, "--set", "checkpoint_every=2"))


@pytest.mark.parametrize("path", ["", ".", "..", LONG, "loop/x"])
def test_python_refuses_folders_that_cannot_be(path: str, call: Command) -> None:
    for ask in (read, resume, load, Experiment.from_file):
        with pytest.raises(InputError):
            ask(path)  # type: ignore[operator]


@pytest.mark.parametrize("place", [".", ".."])
def test_a_run_needs_a_folder_with_a_name(place: str, call: Command) -> None:
    assert "is no name for a folder" in paragraph(call("run", "small.toml", "--out", place))


@pytest.mark.usefixtures("blank")
def test_figures_may_go_to_the_current_folder(call: Command) -> None:
    assert call("run", "small.toml", "--out", "here", "--no-figures").code == 0
    assert call("plot", "here", "--out", ".").code == 0
    assert list(Path().glob("*.pdf")) + list(Path().glob("*.png"))


DEEP = [
    "x = " + "[" * 100_000 + "]" * 100_000 + "\n",
    "x = " + "{a = " * 1000 + "1" + "}" * 1000 + "\n",
    ".".join("a" * 1000) + " = 1\n",
    "seed = " + "1" * 5000 + "\n",
]


@pytest.mark.parametrize("text", DEEP, ids=["lists", "inline tables", "dotted keys", "digits"])
def test_texts_that_nest_or_count_too_far_are_no_experiments(text: str, call: Command) -> None:
    Path("deep.toml").write_text(text + SMALL)
    for command in ("check", "run", "compare"):
        assert "deep.toml is not TOML: " in paragraph(call(command, "deep.toml"))
    paragraph(call("run", "small.toml", "--set", text.strip()))


def test_depth_is_counted() -> None:
    def nested(depth: int) -> str:
        return "x = " + "[" * depth + "]" * depth

    assert parse(nested(DEEPEST - 2))
    with pytest.raises(NotTOML, match="more than 50 deep"):
        parse(nested(DEEPEST))
    table: dict[str, Any] = {}
    for _ in range(2000):
        table = {"a": table}
    with pytest.raises(InputError, match="more than 50 deep"):
        Experiment.from_dict(table)


MODULES = {
    "raises": ("raise ValueError('no good')", "importing raises failed: no good (ValueError, raises.py, line 1)"),
    "exits": ("import sys\nsys.exit(0)", "importing exits failed: it called sys.exit"),
    "asserts": ("assert False", "importing asserts failed: it says nothing more (AssertionError"),
    "recurses": ("def f(): f()\nf()", "importing recurses failed: maximum recursion depth exceeded"),
    "lacks": ("import os\nos.no_such_thing", "importing lacks failed: module 'os' has no attribute"),
}


@pytest.mark.parametrize("name", MODULES)
def test_modules_that_raise_or_exit_are_refused_in_their_words(name: str, call: Command) -> None:
    Path(f"{name}.py").write_text(MODULES[name][0])
    for command in ("run", "check", "compare"):
        assert MODULES[name][1] in paragraph(call(command, "small.toml", "--set", f"learner.kernel={name}:Kernel"))


def test_ctrl_c_while_a_module_is_imported_is_no_refusal(call: Command) -> None:
    Path("stops.py").write_text("raise KeyboardInterrupt")
    answer = call("run", "small.toml", "--set", "learner.kernel=stops:Kernel")
    assert (answer.code, answer.err) == (130, "kernelswarm: stopped by Ctrl-C\n")


@pytest.mark.parametrize("body", ["raise TypeError('no')", "raise SystemExit(0)", "1 / 0"])
def test_classes_that_cannot_be_made_are_refused(body: str, call: Command) -> None:
    Path("unmade.py").write_text(
        "from dataclasses import dataclass\n@dataclass(frozen=True)\nclass Kernel:\n    length: float = 1.0\n"
        f"    def __post_init__(self):\n        {body}\n"
        "    def cross(self, x, y): ...\n    def diagonal(self, x): ...\n"
    )
    message = paragraph(call("run", "small.toml", "--set", "learner.kernel=unmade:Kernel"))
    assert "learner.kernel: making a Kernel failed: " in message and "unmade.py, line 6" in message


@pytest.mark.parametrize("annotation", ["np.ndarray", "'NoSuchType'"])
def test_fields_that_no_file_can_hold_are_refused(annotation: str, call: Command) -> None:
    Path("fields.py").write_text(
        "from dataclasses import dataclass\nimport numpy as np\n@dataclass(frozen=True)\nclass Kernel:\n"
        f"    length: {annotation} = 1.0\n    def cross(self, x, y): ...\n    def diagonal(self, x): ...\n"
    )
    paragraph(call("run", "small.toml", "--set", "learner.kernel={name='fields:Kernel',length=2.0}"))


@pytest.mark.parametrize(
    ("key", "target"),
    [
        ("learner.kernel", "kernelswarm.agents.parts.losses:Squared"),
        ("learner.loss", "kernelswarm.agents.parts.kernels:Gaussian"),
        ("learner", "kernelswarm.agents.parts.kernels:Gaussian"),
        ("stream", "kernelswarm.agents.learners.polk:Polk"),
        ("protocol", "kernelswarm.agents.learners.polk:Polk"),
        ("topology", "kernelswarm.agents.learners.polk:Polk"),
        ("backend", "kernelswarm.agents.learners.polk:Polk"),
        ("learner.step_size", "kernelswarm.agents.parts.losses:Squared"),
    ],
)
def test_dataclasses_of_another_kind_are_refused(key: str, target: str, call: Command) -> None:
    kind = {"learner.step_size": "schedule"}.get(key, key.rpartition(".")[2])
    message = paragraph(call("run", "small.toml", "--set", f"{key}={target}"))
    assert f"is no {kind}: it has no method " in message


def test_a_key_that_hides_a_method_is_named() -> None:
    from kernelswarm.agents.learners.polk import Polk

    hiding = make_dataclass("Hiding", [("step", float, 0.1)], bases=(Polk,), frozen=True)
    with pytest.raises(InputError, match="is no learner: its key step has the name of a method that a learner has"):
        Experiment.from_dict({**parse(SMALL), "learner": hiding()})


def test_finished_parts_of_another_kind_are_refused() -> None:
    from kernelswarm.agents.parts.kernels import Gaussian

    with pytest.raises(InputError, match=r'protocol = "gaussian" is no protocol: it has no method init'):
        Experiment.from_dict({**parse(SMALL), "protocol": Gaussian()})


@pytest.mark.parametrize("kind", PARTS)
def test_every_part_has_the_methods_of_its_kind(kind: str) -> None:
    for name in PARTS[kind]:
        assert all(callable(getattr(find(kind, name, kind), method)) for method in METHODS[kind])


def member(array: Any) -> bytes:
    """The bytes of an array as NumPy writes them."""
    buffer = BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def declared(shape: str, descr: str = "'<f8'") -> bytes:
    """An array of no bytes that says it has a shape and a type."""
    header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    header += b" " * (64 - (10 + len(header) + 1) % 64) + b"\n"
    return npy.magic(1, 0) + len(header).to_bytes(2, "little") + header


def archive(path: Path, **members: bytes) -> None:
    with zipfile.ZipFile(path, "w") as file:
        for name, content in members.items():
            file.writestr(f"{name}.npy", content)


def patched(path: Path, offset_in_central: int, value: int) -> None:
    """Change a field of two bytes of every member, in its own header and in the central directory."""
    content = bytearray(path.read_bytes())
    for mark, back in ((b"PK\x01\x02", 0), (b"PK\x03\x04", 2)):
        place = content.find(mark)
        while place >= 0:
            at = place + offset_in_central - back
            content[at : at + 2] = value.to_bytes(2, "little")
            place = content.find(mark, place + 1)
    path.write_bytes(content)


SPOILED: dict[str, bytes] = {
    "text": b"no array at all",
    "shape": declared("(1000000000, 1000000)"),
    "negative": declared("(-1, 3)"),
    "header": declared("(" * 60 + ")" * 60),
    "type": declared("(2, 2)", "[1, [], ()]"),
    "compression": member(np.ones((4, 2))),
    "encryption": member(np.ones((4, 2))),
    "length": member(np.ones((4, 2))) + b"more",
    "pickle": member(np.array([{}], dtype=object)),
}
FIELDS = {"compression": (10, 97), "encryption": (8, 1)}
"""Where in the headers it stands, and what is none."""


@pytest.mark.parametrize("spoiled", SPOILED)
def test_archives_that_hold_no_plain_arrays_are_refused(spoiled: str, call: Command) -> None:
    path = Path("data.npz")
    archive(path, x=SPOILED[spoiled], y=member(np.ones(4)))
    if spoiled in FIELDS:
        patched(path, *FIELDS[spoiled])
    with pytest.raises(ArchiveError) as refusal:
        read_arrays(path)
    assert refusal.value.name == "x"
    stream = "stream={name='file',path='data.npz',task='regression'}"
    assert 'the array "x" cannot be read' in paragraph(call("run", "small.toml", "--set", stream))
    with pytest.raises(InputError, match=r"data\.npz: array 'x' cannot be read: "):
        load(path)


def test_an_archive_of_more_than_the_free_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez(tmp_path / "data.npz", x=np.ones((100, 100)))
    monkeypatch.setattr("kernelswarm.simulations.core.archives.free", lambda: 1000)
    with pytest.raises(ArchiveError, match="GB of memory are free"):
        read_arrays(tmp_path / "data.npz")
