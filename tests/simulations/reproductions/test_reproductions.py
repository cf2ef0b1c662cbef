"""The command that sets what was published beside what is measured, and the reproductions that there are."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from matplotlib.figure import Figure
from rich.console import Console

import kernelswarm
from kernelswarm.simulations.command import progress
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.records.result import Result
from kernelswarm.simulations.reproductions import (
    colk_outliers,
    colk_theory,
    faults,
    krls_lorenz,
    methods,
    okfeb_manifold,
    polk_multidist,
    polk_theory,
    report,
    spppot_gaussian,
    survey_consensus,
    survey_networks,
    survey_proximity,
    survey_theory,
    unreliable_links,
)
from kernelswarm.simulations.reproductions import okfeb_bounds as okfeb_theory
from kernelswarm.simulations.reproductions.catalogue import REPRODUCTIONS, catalogue
from kernelswarm.simulations.reproductions.contract import Finding
from kernelswarm.simulations.reproductions.krls_lorenz import series
from kernelswarm.simulations.reproductions.report import QUICK
from kernelswarm.simulations.reproductions.sheets import tables
from kernelswarm.simulations.running.simulation import simulate
from tests.helpers.command_line import Command, commands


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setitem(REPRODUCTIONS, "coin", "tests.helpers.small_reproduction:reproduce")
    monkeypatch.setitem(REPRODUCTIONS, "coin-lost", "tests.helpers.small_reproduction:diverge")
    monkeypatch.setitem(REPRODUCTIONS, "coin-data", "tests.helpers.data_reproduction:reproduce")
    return commands(capsys)


def read_table(folder: Path) -> list[dict[str, str]]:
    return list(csv.DictReader((folder / "table.csv").read_text("utf-8").splitlines()))


def test_without_a_name_all_are_listed_with_what_they_show_and_need(call: Command) -> None:
    answer = call("reproduce")
    assert (answer.code, answer.err) == (0, "")
    for name in REPRODUCTIONS:
        assert f"  {name}\n" in answer.out
    assert "  coin\n      Someone 2020, table 1: a coin falls on either side.\n" in answer.out
    assert "More words" not in answer.out
    assert "      needs --data: coins.csv, published by the Royal Mint\n" in answer.out
    assert "      takes --data: for nodes by location, and left out without: cal_housing.data.gz" in answer.out


def test_the_table_is_printed_with_its_verdicts_and_notes(call: Command) -> None:
    answer = call("reproduce", "coin")
    assert (answer.code, answer.err) == (0, "")  # although a claim does not hold
    lines = answer.out.splitlines()
    assert lines[0] == "coin: Someone 2020, table 1: a coin falls on either side."
    (heading,) = [line for line in lines if line.startswith("quantity")]
    assert heading.split() == ["quantity", "published", "measured", "settings", "holds"]
    rows = {line.partition("  ")[0]: line for line in lines}
    assert rows["share of heads"].endswith("yes") and "one | coin, [bold]" in rows["share of heads"]
    assert rows["share on its edge"].endswith("no")
    assert rows["colour"].endswith("one coin")
    assert "1 of 2 checked claims hold." in lines and "The coin_was not published." in lines
    assert QUICK not in answer.out
    assert max(map(len, lines)) <= 110 and max(map(len, lines[:-1])) <= 100


def test_the_same_seed_gives_the_same_files_and_nothing_is_overwritten(call: Command) -> None:
    for _ in range(2):
        assert call("reproduce", "coin").code == 0
    first, second = Path("reproductions/coin"), Path("reproductions/coin-2")
    for name in ("table.csv", "table.md", "throws.png", "throws.pdf"):
        assert (first / name).read_bytes() == (second / name).read_bytes()


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["coyn"], 2, 'there is no reproduction "coyn"; did you mean "coin"?'),
        (["coin", "--data", "x.csv"], 2, "coin needs no data: leave out --data x.csv"),
        (["coin", "--seed", "-1"], 2, "seed = -1 must not be negative"),
        (["coin", "--out", "file/inside"], 2, "is a file: name another folder with --out"),
        (["coin-data"], 2, "coin-data needs data: name it with --data (coins.csv, published by the Royal Mint)"),
        (["coin-data", "--data", "x.csv"], 2, "there is no file or folder x.csv (coin-data needs coins.csv"),
        (["coin-lost"], 1, "the coin rolled away"),
    ],
)
def test_what_is_refused_and_what_fails(call: Command, words: list[str], code: int, message: str) -> None:
    Path("file").touch()
    answer = call("reproduce", *words)
    assert answer.code == code
    assert answer.out == ""
    assert message in answer.err and "Traceback" not in answer.err
    assert [path.name for path in Path().iterdir()] == ["file"]


def test_data_is_handed_over(call: Command) -> None:
    Path("coins.csv").write_text("1,2\n")
    answer = call("reproduce", "coin-data", "--data", "coins.csv")
    assert answer.code == 0
    assert "None of these claims can be checked." in answer.out
    assert [row["measured"] for row in read_table(Path("reproductions/coin-data"))] == ["4"]


def test_progress_is_a_bar_on_a_terminal_and_elsewhere_nothing_is_said_of_what_ends_soon() -> None:
    for terminal in (True, False):
        console = Console(file=io.StringIO(), force_terminal=terminal)
        with progress.watch_reproduction(False, console) as observe:
            assert observe is not None
            observe("throwing", 0.5)
        assert isinstance(console.file, io.StringIO)
        assert ("throwing" in console.file.getvalue()) == terminal
    with progress.watch_reproduction(True, Console(file=io.StringIO(), force_terminal=True)) as observe:
        assert observe is None


@pytest.mark.parametrize("name", REPRODUCTIONS)
def test_every_reproduction_has_the_form(name: str) -> None:
    """A sheet whose parts its module reads: claims of four texts, figures of panels, notes."""
    sheet, module = tables(name), import_module(REPRODUCTIONS[name].partition(":")[0])
    code = Path(module.__file__ or "").read_text(encoding="utf-8")
    assert sheet["notes"].strip() and module.SHEET.name == name
    for key, entry in sheet["claims"].items():
        assert all(isinstance(text, str) for text in entry[:4]) and entry[0]
        rate, asked = entry[4:], f'"{key}"' in code or f"{key}=" in code
        assert asked or "said.claims(" in code, key
        assert all({"x", "y"} <= set(axes) <= {"x", "y", "least", "most"} for axes in rate)
    for figure in sheet.get("figures", {}).values():
        assert figure["size"] and all(panel["curves"] for panel in figure["panels"])


def briefly(experiment: Experiment) -> Result:
    """Simulate fewer rounds than a reproduction asks for, also where it is to be quick."""
    return simulate(replace(experiment, rounds=40, evaluate_every=min(experiment.evaluate_every, 40)))


def no_longer(
    topology: Any, stream: Any, protocol: Any, rounds: int, *rest: Any, **learner: Any
) -> survey_networks.Outcome:
    """What :func:`briefly` does, where the horizons are what is varied."""
    return survey_networks.outcome(topology, stream, protocol, min(rounds, 160), *rest, **learner)


TURN = 500  # samples, after which the spheroid turns where the manifold is followed more briefly
AT_FIRST, TURNED = slice(200, TURN), slice(TURN, TURN + 200)

SMALLER: dict[str, list[tuple[ModuleType, str, Any]]] = {
    "colk-outliers": [(colk_outliers, "QUICK_SAMPLES", 1200)],
    "colk-theory": [
        (colk_theory, "LENGTH", 6.0),
        (colk_theory, "STEPS", (0.2, 0.1, 0.05)),
        (colk_theory, "BUDGETS", (0.1, 1.0, 10.0)),
    ],
    "krls-lorenz": [
        (krls_lorenz, "series", lambda: series(2401)),
        (krls_lorenz, "DEPENDENCIES", (1e-2, 1e-4)),
    ],
    "okfeb-bounds": [(okfeb_theory, "FRESH", 2000), (okfeb_theory, "SIZE", 60)],
    "okfeb-manifold": [
        (okfeb_manifold, "HALF", TURN),
        (okfeb_manifold, "PHASES", {"before": AT_FIRST, "change": TURNED, "after": slice(TURNED.stop, 2 * TURN)}),
    ],
    "polk-theory": [
        (polk_theory, "CONTRACTIONS", 4.0),
        (polk_theory, "STEPS", (0.4, 0.2, 0.1)),
        (polk_theory, "CONSTANTS", (0.1, 0.3, 1.0, 10.0)),
        (polk_theory, "DECADES", (100, 178, 316)),
    ],
    "faults": [
        (faults, "SHARES", (0.2,)),
        (faults, "FORMS", {name: faults.FORMS[name] for name in ("isolated", "no defence", "trimmed", "median")}),
        (survey_networks, "simulate", briefly),
    ],
    "polk-multidist": [
        (polk_multidist, "QUICK_SAMPLES", 300),
        (polk_multidist, "TEST", 500),
        (polk_multidist, "PENALTIES", (1.0, 10.0)),
    ],
    "rivals": [
        (methods, "EVALUATIONS", 4),
        (methods, "GRAPH", {"name": "ring", "nodes": 4}),
        (methods, "simulate", lambda experiment: simulate(replace(experiment, rounds=40, evaluate_every=10))),
    ],
    "spppot-gaussian": [(spppot_gaussian, "EPOCHS", 2)],
    "summaries": [(survey_networks, "simulate", briefly)],
    "survey-consensus": [(survey_consensus, "GRAPHS", ("ring", "erdos_renyi")), (survey_networks, "simulate", briefly)],
    "survey-proximity": [(survey_proximity, "GRAPHS", ("grid", "complete")), (survey_networks, "simulate", briefly)],
    "survey-theory": [(survey_theory, "HORIZONS", (10, 20, 40, 80, 160)), (survey_theory, "outcome", no_longer)],
    "unreliable-links": [
        (survey_networks, "simulate", briefly),
        (unreliable_links, "EVALUATE_EVERY", 20),
        (unreliable_links, "GRAPHS", {name: {**table, "nodes": 4} for name, table in unreliable_links.GRAPHS.items()}),
    ],
}
"""Those that take long are run on fewer or smaller graphs, samples and settings, for fewer rounds."""


@pytest.fixture(scope="module")
def quickly(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Finding]:
    """Run a reproduction quickly, once for all tests, and draw its figures without writing their pixels."""

    def drawn(figure: Figure, path: Path) -> Path:
        if path.suffix == ".png":  # and not once more as PDF
            figure.set_layout_engine("none")  # which would measure every artist twice before
            figure.draw_without_rendering()
        return path

    @cache
    def run(name: str) -> Finding:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(report, "save", drawn)
            for module, constant, value in SMALLER.get(name, []):
                patch.setattr(module, constant, value)
            return kernelswarm.reproduce(name, out=tmp_path_factory.mktemp("reproductions") / name, quick=True)

    return run


@pytest.mark.parametrize("name", [entry.name for entry in catalogue() if not entry.needs_data])
def test_every_reproduction_runs_quickly_and_claims_something(name: str, quickly: Callable[[str], Finding]) -> None:
    finding = quickly(name)
    assert finding.counts["hold"] + finding.counts["fail"] > 0
    assert finding.reproduction.figures and finding.reproduction.arrays
    assert all(claim.quantity and claim.measured for claim in finding.claims)


def test_online_fits_of_the_spheres_come_near_the_batch_fit(quickly: Callable[[str], Finding]) -> None:
    found = quickly("okfeb-spheres").reproduction
    assert set(found.figures) == {"fit", "kernels_budgets"}
    batch = found.arrays["fit: batch (Alg. 1)"][-1]
    assert batch < found.arrays["fit: Alg. 3, step 1/‖q‖"][-1] < 1.5 * batch
    assert any(claim.holds for claim in found.claims)


def test_the_change_of_the_manifold_shows_and_recency_follows_it_faster(quickly: Callable[[str], Finding]) -> None:
    found = quickly("okfeb-manifold").reproduction
    assert set(found.figures) == {"fit", "mismatch"}
    one, faded = (found.arrays[f"fit: B = 2r, {label}"].mean(axis=0) for label in ("β = 1", "β = 0.9"))
    assert one.shape == (2 * TURN,)
    assert one[AT_FIRST].mean() < 0.7 * one[TURNED].mean()
    assert faded[TURNED].mean() < one[TURNED].mean()
