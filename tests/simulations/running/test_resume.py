"""A run that was interrupted and gone on with ends as the one that was not: the same models, the same tables."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import signal
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

from kernelswarm.simulations.command.cli import main
from kernelswarm.simulations.core.errors import InputError, Interrupted
from kernelswarm.simulations.core.files import held
from kernelswarm.simulations.experiment.experiment import Experiment, digests
from kernelswarm.simulations.records.checkpoints import newest, paths, round_of
from kernelswarm.simulations.records.result import Result
from kernelswarm.simulations.records.run_folder import FILES, read
from kernelswarm.simulations.running.simulation import Progress, resume, run, simulate
from tests.helpers.cases import case
from tests.helpers.command_line import SMALL, Command, commands
from tests.helpers.drivers import driving

ROUNDS, EVERY = 48, 10
GRAPH = nx.Graph([(0, 1), (1, 2), (2, 0), (2, 7)])
POLK = {"name": "polk", "kernel": {"name": "gaussian", "bandwidth": 0.3}, "budget": {"epsilon": 0.02}}
SENSORS = {"name": "sensor_field", "noise": 0.3}
ADAPTIVE = {"name": "proximity", "gamma": {"name": "adaptive"}, "step": "implicit"}
FINITE = {"name": "file", "path": "data.npz", "epochs": 3}
CASES: dict[str, dict[str, Any]] = {
    "isolated": {"protocol": "isolated"},
    "consensus": {"protocol": {"name": "consensus", "form": "symmetric", "penalty": 0.3}},
    "proximity": {"protocol": {**ADAPTIVE, "form": "symmetric"}},
    "centralized": {"protocol": "centralized"},
    "target order": {
        "protocol": ADAPTIVE,
        "learner": {**POLK, "budget": {"target_order": 8}, "step_size": {"name": "diminishing", "initial": 0.3}},
    },
    "replayed points at a rate, late": {
        "protocol": {**ADAPTIVE, "form": "symmetric", "replay": 0.5},
        "links": {"loss": 0.2, "delay": {"name": "between", "longest": 2}},
    },
    "drifting": {"protocol": {"name": "consensus"}, "stream": "drifting"},
    "finite data": {"protocol": {"name": "consensus", "form": "symmetric"}, "stream": FINITE},
    "random features": {"protocol": ADAPTIVE, "learner": {"name": "random_features", "features": 40}},
    "okfeb": {"protocol": {"name": "consensus"}, "learner": {"name": "okfeb", "rank": 5, "budget_size": 12}},
    "colk, sliding pairs": {
        "protocol": ADAPTIVE,
        "learner": {**POLK, "name": "colk", "dispersion": "variance", "pairs": "sliding"},
        "stream": FINITE,
    },
}


class Killed(BaseException):
    """What stops a run here, as a dying process does: nothing is notified."""


def described(folder: Path, case: str, **keys: Any) -> Experiment:
    generator = np.random.default_rng(3)
    x = generator.random((163, 2))  # batches that are not whole, nodes with unequal numbers of rows
    np.savez(
        folder / "data.npz", x=x, y=np.sin(5 * x[:, 0]) + x[:, 1], node=np.array([0, 1, 2, 7, 7])[np.arange(163) % 5]
    )
    tables = {
        "topology": GRAPH,
        "stream": SENSORS,
        "rounds": ROUNDS,
        "evaluate_every": 15,
        "checkpoint_every": EVERY,
        "evaluation": {"local_samples": 20, "global_samples": 30},
        **CASES[case],
        **keys,
    }
    tables["learner"] = {"step_size": 0.1, "batch_size": 2, **tables.get("learner", POLK)}
    return Experiment.from_dict(tables, folder)


def until(round: int) -> Callable[[Progress], None]:
    """Watch a run, and stop it when a round is done."""

    def observe(progress: Progress) -> None:
        if progress.done >= round:
            raise Killed

    return observe


def killed(experiment: Experiment, folder: Path, round: int) -> Path:
    """Run until a round is done."""
    with pytest.raises(Killed):
        run(experiment, folder, until(round))
    return folder


def assert_equal(found: Result, wanted: Result) -> None:
    """Everything but the seconds is equal, bit for bit."""
    assert found.summary["digest"] == wanted.summary["digest"]
    assert found.summary["rounds"] == wanted.summary["rounds"]
    for table in ("nodes", "network", "edges"):
        ours, theirs = getattr(found, table), getattr(wanted, table)
        assert list(ours) == list(theirs)
        for column in ours:
            mine, yours = ours[column], theirs[column]  # which tables in files read each time
            assert mine.dtype == yours.dtype
            if column != "seconds":
                np.testing.assert_array_equal(mine, yours, err_msg=f"{table}.{column}")
    assert (np.diff(found.network["seconds"]) > 0).all()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Result]:
    """Run a case in one go and without a folder, once for all tests."""

    @cache
    def whole(case: str, rounds: int = ROUNDS) -> Result:
        return simulate(described(tmp_path_factory.mktemp("data"), case, rounds=rounds))

    return whole


def test_checkpoints_change_nothing(tmp_path: Path, undisturbed: Callable[..., Result]) -> None:
    result, folder, _ = run(described(tmp_path, "proximity"), tmp_path / "run")
    assert_equal(result, undisturbed("proximity"))
    assert sorted(path.name for path in folder.iterdir()) == sorted([*FILES, "checkpoints"])
    assert_equal(read(folder), result)


@pytest.mark.parametrize(("case", "plain"), [(case, place % 2 == 1) for place, case in enumerate(CASES)])
def test_a_run_interrupted_twice_resumed_in_other_blocks_and_gone_on_with_ends_as_the_whole_one(
    case: str, plain: bool, tmp_path: Path, undisturbed: Callable[..., Result]
) -> None:
    """In the end with more rounds than were asked for, from a checkpoint that was at the end, and one that was not."""
    whole = undisturbed(case)
    generator = np.random.default_rng(list(CASES).index(case))
    first, second = np.sort(generator.choice(np.arange(1, whole.summary["rounds"]), 2, replace=False)).tolist()
    folder = killed(described(tmp_path, case), tmp_path / "run", first)
    halves = f'backend={{name="tests.helpers.halves:Halves",size=2,plain={str(plain).lower()}}}'
    with pytest.raises(Killed):
        resume(folder, [halves], until(second))
    assert_equal(resume(folder, ["backend=serial"]).result, whole)  # out of blocks that had drawn ahead
    resume(folder, ["rounds=53"])
    longer, extended = undisturbed(case, 67), resume(folder, ["rounds=67"])
    assert_equal(extended.result, longer)
    assert_equal(read(folder), longer)
    assert read(folder).config["rounds"] == 67


@pytest.mark.usefixtures("kept_ray")
def test_resumed_on_ray_and_back(tmp_path: Path) -> None:
    experiment = described(tmp_path, "proximity")
    whole = simulate(experiment)
    folder = killed(experiment, tmp_path / "run", 13)

    def observe(progress: Progress) -> None:
        if progress.phase == "running" and progress.done >= 35:
            raise Killed

    ray = 'backend={name="ray",nodes_per_actor=2,rounds_per_execution=3}'
    with pytest.raises(Killed):
        resume(folder, [ray], observe)
    shutil.copytree(folder, tmp_path / "copy")
    assert_equal(resume(folder).result, whole)  # on Ray again, as the run folder says by now
    assert_equal(resume(tmp_path / "copy", ["backend=serial"]).result, whole)


def test_more_rounds_than_there_are_data(tmp_path: Path) -> None:
    first = run(described(tmp_path, "finite data", rounds=1000), tmp_path / "run")
    assert first.result.summary["rounds"] < 1000
    for changes in ([], ["rounds=2000"]):
        again = resume(first.folder, changes)
        assert again.before
        assert_equal(again.result, first.result)


def test_seconds_and_the_beginning_are_of_the_whole_run(tmp_path: Path) -> None:
    folder = killed(described(tmp_path, "isolated"), tmp_path / "run", 33)
    since = newest(folder)
    result = resume(folder).result
    assert since.round == 30
    assert result.summary["started"] == since.started
    assert result.summary["wall_seconds"] > since.wall
    assert result.network["seconds"][-1] > since.seconds


def test_a_run_interrupted_while_it_is_extended_goes_on_to_the_new_end(tmp_path: Path) -> None:
    first = run(described(tmp_path, "consensus", rounds=20), tmp_path / "run")
    with pytest.raises(Killed):
        resume(first.folder, ["rounds=67"], until(44))
    assert_equal(resume(first.folder).result, simulate(described(tmp_path, "consensus", rounds=67)))


def test_own_modules_are_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path / "nowhere")  # sys.path is put back afterwards
    (tmp_path / "own_protocol_of_resume.py").write_text(
        "from dataclasses import dataclass\nfrom kernelswarm.protocols.consensus import Consensus\n"
        "@dataclass(frozen=True)\nclass Own(Consensus):\n    penalty: float = 0.2\n"
    )
    (tmp_path / "elsewhere").mkdir()
    experiment = described(tmp_path, "consensus", protocol="own_protocol_of_resume:Own")
    folder = killed(experiment, tmp_path / "elsewhere" / "run", 25)
    sys.path.remove(str(tmp_path))
    del sys.modules["own_protocol_of_resume"]
    assert_equal(resume(folder).result, simulate(experiment))


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.toml").write_text(SMALL.replace("rounds = 4", "rounds = 40\ncheckpoint_every = 10"))
    return commands(capsys)


def test_command_says_that_a_run_is_complete_and_extends_it(call: Command) -> None:
    assert call("run", "small.toml", "--out", "here", "--no-figures").code == 0
    before = Path("here/summary.json").stat().st_mtime_ns
    assert call("resume", "here") == (0, "here is complete after 40 rounds; --rounds asks for more\n", "")
    assert Path("here/summary.json").stat().st_mtime_ns == before
    answer = call("resume", "here", "--rounds", "60", "--no-figures")
    assert (answer.code, answer.err) == (0, "")
    assert "rounds         60 in" in answer.out and "run folder  here" in answer.out
    call("run", "small.toml", "--out", "there", "--no-figures", "--set", "rounds=60")
    assert_equal(read("here"), read("there"))


def test_command_refuses(call: Command) -> None:
    experiment = Experiment.from_file("small.toml")
    run(experiment.with_changes({"checkpoint_every": 0}), Path("plain"))
    killed(experiment, Path("part"), 25)
    for words, wanted in (
        ("nothing", "there is no run folder nothing"),
        ("small.toml", "small.toml is not a folder"),
        (".", r"\. is no run folder: it holds no config.toml"),
        ("plain --rounds 50", "plain holds no checkpoints: a run writes them with checkpoint_every = 100 .*anew"),
        (
            "part --rounds 50 --set learner.step_size=0.3",
            r"learner.step_size is 0.3 and was 0.2 when the run began: a run that is resumed may change "
            r"only rounds, backend, evaluate_every or checkpoint_every; kernelswarm run part/config.toml --set .*",
        ),
        ("part --set protocol=isolated", 'protocol.name is "isolated" and was "consensus" .*'),
        ("part --rounds 7", "rounds = 7 must be at least 20: so many rounds are done"),
        ("part --rounds 0", "part/config.toml: rounds = 0 must be at least 1: .*"),
        ("part --backend rey", 'part/config.toml: backend.name = "rey" .*did you mean "ray".*'),
    ):
        with case(words):
            answer = call("resume", *words.split())
            assert (answer.code, answer.out) == (2, "")
            assert re.fullmatch(f"kernelswarm: {wanted}\n", answer.err)


def test_a_run_that_is_being_resumed_is_not_resumed_a_second_time(call: Command) -> None:
    killed(Experiment.from_file("small.toml"), Path("here"), 25)
    before = sorted((path.name, path.read_bytes()) for path in Path("here/checkpoints").glob("*.npz"))
    with held(Path("here/checkpoints")):
        answer = call("resume", "here")
        assert (answer.code, answer.out) == (2, "")
        assert re.fullmatch(
            f"kernelswarm: here is being written by process {os.getpid()} on .*: wait until it ends or stop it; two at "
            "once would spoil the run\n",
            answer.err,
        )
        assert sorted((path.name, path.read_bytes()) for path in Path("here/checkpoints").glob("*.npz")) == before
    assert call("resume", "here", "--no-figures").code == 0
    assert_equal(read("here"), simulate(Experiment.from_file("small.toml")))


def test_locks_that_a_file_system_does_not_have_refuse_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lacking(*arguments: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    folder = killed(described(tmp_path, "consensus"), tmp_path / "run", 25)
    monkeypatch.setattr("fcntl.flock", lacking)
    assert resume(folder).result.summary["rounds"] == ROUNDS


def test_data_that_has_changed_is_refused(tmp_path: Path) -> None:
    folder = killed(described(tmp_path, "finite data"), tmp_path / "run", 25)
    whole = (tmp_path / "data.npz").read_bytes()
    with np.load(tmp_path / "data.npz") as archive:
        arrays = dict(archive)
    arrays["y"] = arrays["y"] + 1e-9
    np.savez(tmp_path / "data.npz", **arrays)
    message = r'stream.path = ".*dat.* has changed since the run began \(its SHA-256 is .*\): put the former'
    with pytest.raises(InputError, match=message):
        resume(folder)
    (tmp_path / "data.npz").write_bytes(whole)
    os.utime(tmp_path / "data.npz", (0, 0))  # a copy of the same content is the same data
    assert_equal(resume(folder).result, simulate(described(tmp_path, "finite data")))
    np.savez(tmp_path / "data.npz", **arrays)
    with pytest.raises(InputError, match=message):
        resume(folder, ["rounds=2000"])


def test_every_file_of_a_stream_is_watched(tmp_path: Path) -> None:
    for name in ("images", "labels"):
        (tmp_path / name).write_bytes(name.encode())
    tables = {"name": "idx", "images": "images", "labels": "labels", "test_images": "labels", "test_labels": "missing"}
    learner = {"name": "polk", "loss": "multiclass_logistic"}
    experiment = described(tmp_path, "consensus", stream=tables, learner=learner)
    found = digests(experiment)
    assert list(found) == ["stream.images", "stream.labels", "stream.test_images"]
    assert found["stream.labels"] == hashlib.sha256(b"labels").hexdigest()
    assert digests(described(tmp_path, "consensus")) == {}


def test_another_network_is_refused(tmp_path: Path) -> None:
    folder = killed(described(tmp_path, "consensus"), tmp_path / "run", 25)
    nx.write_graphml(nx.path_graph(4), folder / "graph.graphml")
    with pytest.raises(InputError, match="topology: the network is another one than when the run began"):
        resume(folder)


def test_an_unfinished_run_says_how_to_go_on(tmp_path: Path) -> None:
    folder = killed(described(tmp_path, "consensus"), tmp_path / "run", 25)
    with pytest.raises(
        InputError,
        match=r"it lacks nodes.parquet, .*; kernelswarm resume .*run goes on with it; .*draws the measurements until",
    ):
        read(folder)


def test_a_failed_run_keeps_its_checkpoints(call: Command) -> None:
    published = "protocol={name='proximity',as_published=true}"
    diverging = ["learner.step_size=0.5", "stream={name='sensor_field',noise=3.0}", published]
    diverging += ["topology={name='complete',nodes=8}", "rounds=60", "checkpoint_every=1"]
    answer = call("run", "small.toml", "--out", "here", *(word for key in diverging for word in ("--set", key)))
    assert answer.code == 1 and answer.err.endswith("measurements until then are in here\n")
    assert read("here").failed
    again = call("resume", "here")
    assert again == answer  # the same rounds follow from the same checkpoint


def test_a_process_that_died_does_not_end_the_run_for_good(call: Command) -> None:
    answer = call("run", "small.toml", "--out", "here", "--set", 'backend="tests.helpers.halves:Dying"')
    assert answer.code == 1
    assert re.fullmatch(
        r"kernelswarm: node 2 failed in round 31: its process ended without a word; measurements until then are in "
        r"here; kernelswarm resume here goes on from round 30\n",
        answer.err,
    )
    assert read("here").failed
    assert call("resume", "here", "--backend", "serial", "--no-figures").code == 0
    assert_equal(read("here"), simulate(Experiment.from_file("small.toml")))


@pytest.mark.parametrize(
    ("number", "code", "name", "threads"),
    [(signal.SIGTERM, 1, "SIGTERM", 1), (signal.SIGHUP, 1, "SIGHUP", 2), (signal.SIGINT, 130, "Ctrl-C", 2)],
)
def test_signals_write_a_checkpoint(call: Command, number: signal.Signals, code: int, name: str, threads: int) -> None:
    words = ["run", "small.toml", "--out", "out folder", "--set", "rounds=100000000"]
    words += ["--set", f"backend.threads={threads}"]
    folder, errors = Path("out folder"), Path("errors")
    with driving(lambda: main(words), errors) as driver:
        # The first one may be gone before it is looked for.
        while not any(round_of(path) >= 10 for path in paths(folder / "checkpoints")) and driver.exitcode is None:
            driver.join(0.02)
        with pytest.raises(InputError, match=f"'?out folder'? is being written by process {driver.pid} on .*: wait"):
            resume(folder)
        assert driver.pid is not None
        os.kill(driver.pid, number)
        driver.join(60)
        ended, err = driver.exitcode, errors.read_text()
    assert ended == code, err
    stopped = re.search(
        rf"kernelswarm: stopped by {name} after round ([\d,]+) of 100,000,000; "
        r"kernelswarm resume 'out folder' goes on from round \1\n$",
        err,
    )
    assert stopped
    done = int(stopped[1].replace(",", ""))
    assert (folder / f"checkpoints/round_{done:08d}.npz").exists()
    resumed = resume(folder, [f"rounds={done + 5}"]).result
    whole = simulate(Experiment.from_file("small.toml", [f"rounds={done + 5}"]))
    assert_equal(resumed, whole)


@pytest.mark.parametrize(("phase", "done"), [("running", 7), ("running", 15), ("evaluating", 15), ("running", 20)])
def test_a_signal_at_any_moment_between_two_rounds_writes_a_checkpoint(
    tmp_path: Path, undisturbed: Callable[..., Result], phase: str, done: int
) -> None:
    """Round 15 is one of an evaluation, and round 20 of a checkpoint."""
    sent: list[int] = []

    def send(progress: Progress) -> None:
        if progress.phase == phase and progress.done >= done and not sent:
            sent.append(progress.done)
            signal.raise_signal(signal.SIGINT)

    experiment = described(tmp_path, "proximity")
    with pytest.raises(Interrupted) as stop:
        run(experiment, tmp_path / "run", send)
    assert stop.value.round >= sent[0] >= done
    assert newest(tmp_path / "run").round == stop.value.round
    assert f"goes on from round {stop.value.round};" in f"{stop.value};"
    assert_equal(resume(tmp_path / "run").result, undisturbed("proximity"))
