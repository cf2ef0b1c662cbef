"""The examples that people read do what they say: docstrings, and the parts of examples/parts."""

from __future__ import annotations

import ast
import doctest
import importlib
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import kernelswarm.testing
from tests.helpers.checkout import ROOT
from tests.helpers.command_line import commands

OWN_PARTS = ROOT / "examples/parts"
PACKAGES = ["agents", "graphs", "protocols", "simulations"]


def modules() -> list[str]:
    files = [
        path.relative_to(ROOT)
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        if ">>>" in path.read_text()
    ]
    return [
        "kernelswarm",
        "kernelswarm.testing",
        *sorted(".".join(["kernelswarm", *file.with_suffix("").parts]) for file in files),
    ]


@pytest.mark.parametrize("module", modules())
def test_docstring_examples(module: str) -> None:
    result = doctest.testmod(importlib.import_module(module))
    assert result.attempted > 0
    assert result.failed == 0  # the captured output shows what the example printed instead


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text("utf-8"), re.DOTALL)


def test_contributed_kernel_runs_from_beside_the_experiment(tmp_path: Path) -> None:
    from kernelswarm import Experiment, InputError, simulate
    from kernelswarm.agents.nodes.populating import in_python
    from kernelswarm.simulations.running.network import open_network

    (table,) = blocks("docs/contributing.md", "toml")
    shutil.copy(OWN_PARTS / "my_parts.py", tmp_path)
    file = tmp_path / "experiment.toml"
    rest = 'rounds = 40\nprotocol = "isolated"\nstream = "sine_regression"\n[topology]\nname = "ring"\nnodes = 3\n'
    file.write_text(f"{rest}{table}", encoding="utf-8")

    result = simulate(Experiment.from_file(file))

    assert result.summary["status"] == "done"
    assert result.config["learner"]["kernel"] == {"name": "my_parts:RationalQuadratic", "bandwidth": 0.5}
    assert result.network["risk"][-1] < result.network["risk"][0]
    with pytest.raises(InputError, match=re.escape("learner.kernel.bandwidth = -1.0 must be positive")):
        Experiment.from_file(file, changes=["learner.kernel.bandwidth=-1.0"])

    plain, fast = (
        Experiment.from_file(file, changes=[f"learner.kernel.name=my_parts:{name}"])
        for name in ("RationalQuadratic", "FastRationalQuadratic")
    )
    plans = [open_network(each).plans[0] for each in (plain, fast)]
    found = [in_python([plan.learner], plan.rule) for plan in plans]
    assert found == ["the kernel RationalQuadratic", None]
    np.testing.assert_allclose(simulate(fast).network["risk"], result.network["risk"], rtol=1e-9)


def test_a_learner_a_stream_and_a_topology_in_forty_lines_each_run_and_keep_their_contracts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kernelswarm import Experiment, InputError, simulate

    for name in ("my_learner.py", "my_stream.py", "my_topology.py"):
        assert len((OWN_PARTS / name).read_text("utf-8").splitlines()) <= 42
        shutil.copy(OWN_PARTS / name, tmp_path)

    experiment = Experiment.from_file(shutil.copy(OWN_PARTS / "my_experiment.toml", tmp_path))
    result = simulate(experiment)

    assert result.summary["status"] == "done"
    assert len(result.graph) == 8 and result.graph.degree(0) == 7
    assert (result.final["risk"] or 9.0) < 0.2 * (result.final["constant_risk"] or 0.0)
    for key, value in (("topology.nodes", 3), ("stream.noise", -1.0)):
        with pytest.raises(InputError, match=re.escape(f"{key} = {value}")):
            experiment.with_changes({key: value})
    monkeypatch.syspath_prepend(str(tmp_path))
    (test,) = (code for code in blocks("docs/contributing.md", "python") if "check_learner(" in code)
    exec(compile(test, "docs/contributing.md", "exec"), {})


def test_the_commands_for_logs_of_robots_learn_in_the_order_of_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import shlex

    from kernelswarm import load_model, read_run

    page = (ROOT / "docs/streams.md").read_text("utf-8").partition("### Logs of robots and sensors")[2]
    lines = re.findall(r"^    kernelswarm (.+)$", page.partition("\n## ")[0], re.MULTILINE)
    assert [line.split()[0] for line in lines] == ["init", "run"]
    random = np.random.default_rng(0)
    log = ["robot,stamp,x,y,signal"]
    for stamp in random.permutation(60):
        for robot in ("amy", "ben", "cleo"):
            x, y = random.uniform(size=2)
            signal = "" if robot == "ben" and stamp == 30 else f"{np.sin(3 * x) + y}"
            log.append(f"{robot},{1.7e9 + stamp / 2:.1f},{x},{y},{signal}")
    (tmp_path / "log.csv").write_text("\n".join(log), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    run = commands(capsys)
    for line in (lines[0], f"{lines[1]} --set rounds=30 --set stream.missing=drop --out run"):
        answer = run(*shlex.split(line))
        assert answer.code == 0, answer.err
    order = "later: the last 20% of each node's rows, in the order of stamp"
    assert read_run("run").facts["held_out"] == order
    model = load_model("run", "amy")
    assert model.predict([[0.5, 0.5]]).shape[0] == 1  # x and y: the time is no input


def test_the_kubernetes_manifest_runs_a_command_that_there_is() -> None:
    import shlex

    import typer
    import yaml

    from kernelswarm.simulations.command.cli import app
    from kernelswarm.simulations.experiment.changes import changed, parse_assignment, parse_value
    from kernelswarm.simulations.experiment.parts import build

    (manifest,) = yaml.safe_load_all((ROOT / "docs/kuberay.yaml").read_text("utf-8"))
    assert (manifest["apiVersion"], manifest["kind"]) == ("ray.io/v1", "RayJob")
    cluster = manifest["spec"]["rayClusterSpec"]
    groups = [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]
    containers = [group["template"]["spec"]["containers"][0] for group in groups]
    assert len({container["image"] for container in containers}) == 1  # the same code and libraries everywhere
    head = groups[0]["template"]["spec"]
    volumes = {volume["name"] for volume in head["volumes"]}
    mounts = {mount["mountPath"]: mount["name"] for mount in containers[0]["volumeMounts"]}
    assert set(mounts.values()) == volumes
    program, name, *words = shlex.split(manifest["spec"]["entrypoint"])
    command = typer.main.get_command(app).get_command(None, name)  # type: ignore[attr-defined]
    given = command.make_context(name, words, resilient_parsing=True).params
    assert program == "kernelswarm"
    assert str(given["experiment"]).startswith("/experiment/") and str(given["out"]).startswith("/results/")
    table: dict[str, object] = {"backend": {"name": "ray", "address": given["address"]}}
    for change in given["changes"]:
        key, value = parse_assignment(change)
        table = changed(table, key, parse_value(value), explicit=True)
    assert build("backend", table["backend"]).nodes_per_actor == "auto"


def test_the_loss_of_the_page_about_checks_passes_and_fails_as_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import dataclasses

    from kernelswarm.simulations.experiment.registry import PARTS

    page = (ROOT / "docs/testing-parts.md").read_text("utf-8")
    (tmp_path / "my_loss_of_the_page.py").write_text("\n\n".join(blocks("docs/testing-parts.md", "python")), "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("my_loss_of_the_page")
    module.test_my_loss()
    flat = dataclasses.dataclass(frozen=True)(type("LogCosh", (module.LogCosh,), {"curvature": 0.5}))
    (message,) = blocks("docs/testing-parts.md", "text")
    with pytest.raises(AssertionError, match=re.escape(message.strip().removesuffix("0.99")) + r"(0\.99|1\b)"):
        kernelswarm.testing.check_loss(flat())
    assert {f"check_{kind}" for kind in PARTS} == set(re.findall(r"`(check_\w+)`(?=.*\|)", page))


def test_the_readme_prints_what_stands_there(capsys: pytest.CaptureFixture[str]) -> None:
    (code,), (printed,) = blocks("README.md", "python"), blocks("README.md", "text")
    exec(compile(code, "README.md", "exec"), {"__name__": "readme"})
    assert capsys.readouterr().out == printed


BEGINNERS = {"tutorial": ["functions.png", "node0.npz"], "coming-from": [], "index": [], "topologies": [], "spppot": []}
"""Pages whose code runs as it stands, and the files that it leaves."""


@pytest.mark.parametrize("page", BEGINNERS)
def test_the_code_of_pages_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    scope: dict[str, object] = {"__name__": __name__}
    for block in blocks(f"docs/{page}.md", "python"):
        exec(compile(block, f"docs/{page}.md", "exec"), scope)
    assert all(Path(name).is_file() for name in BEGINNERS[page])


@pytest.mark.parametrize("page", ["README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))])
def test_code_on_pages_imports_what_there_is(page: str) -> None:
    for block in blocks(page, "python"):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("kernelswarm"):
                module = importlib.import_module(node.module)
                assert all(hasattr(module, name.name) for name in node.names)


def test_the_page_about_python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    scope: dict[str, object] = {"__name__": "page"}
    for block in blocks("docs/python.md", "python"):
        exec(compile(block, "docs/python.md", "exec", dont_inherit=True), scope)
    early, named = scope["early"], scope["named"]
    assert early.summary["status"] in ("done", "stopped early")  # type: ignore[attr-defined]
    assert named.node_names == {0: "a", 1: "b", 2: "c", 3: "d"}  # type: ignore[attr-defined]
    assert scope["longer"].summary["rounds"] == 48  # type: ignore[attr-defined]
    assert Path("risk.png").is_file()
