"""All reproductions on one page: what fails is named, what was killed goes on, what lacks its data says so."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from kernelswarm.simulations.comparison.comparison_runs import ComparisonProgress
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.reproductions import overview
from kernelswarm.simulations.reproductions.catalogue import REPRODUCTIONS, describe, files, given_in
from kernelswarm.simulations.reproductions.overview import RESULTS, reproduce_all
from tests.helpers.checkout import ROOT
from tests.helpers.command_line import commands

EVERY = frozenset(REPRODUCTIONS)
SMALL = {
    "coin": "tests.helpers.small_reproduction:reproduce",
    "coin-lost": "tests.helpers.small_reproduction:diverge",
    "coin-broken": "tests.helpers.small_reproduction:exit",
    "coin-slow": "tests.helpers.small_reproduction:take_long",
    "coin-data": "tests.helpers.data_reproduction:reproduce",
}


@pytest.fixture(autouse=True)
def small() -> Iterator[None]:
    with patch.dict(REPRODUCTIONS, SMALL, clear=True):  # puts the table back in its order
        yield


class Page(HTMLParser):
    """The texts of a page, its cells and what its pictures and links point to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.sources: list[str] = []
        self.links: list[str] = []
        self.alternatives: list[str] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.sources += [found["src"] or ""] if "src" in found else []
        self.alternatives += [found["alt"] or ""] if "alt" in found else []
        self.links += [found["href"] or ""] if "href" in found else []

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def test_what_fails_is_named_and_what_was_killed_goes_on(tmp_path: Path) -> None:
    out, data = tmp_path / "out", tmp_path / "data"
    data.mkdir()

    def kill(progress: ComparisonProgress) -> None:
        if progress.done:
            raise KeyboardInterrupt  # Ctrl-C, while the second one runs

    with pytest.raises(KeyboardInterrupt) as stopped:
        reproduce_all(out, quick=True, jobs=1, observe=kill, names=("coin", "coin-slow"))
    assert re.search("1 of 2 reproductions have ended.*the same command goes on", stopped.value.__notes__[0])
    first = (out / RESULTS / "coin" / "summary.json").read_bytes()
    assert not (out / "index.md").exists()

    names = ("coin", "coin-lost", "coin-broken", "coin-data")
    found = reproduce_all(out, data, quick=True, jobs=1, names=names)
    assert [outcome.state for outcome in found.outcomes] == ["reused", "failed", "failed", "no data"]
    assert [outcome.cause for outcome in found.failed] == [
        "the coin rolled away",
        "its process ended with exit code 3",
    ]
    assert "coins.csv" in found.outcomes[3].cause
    assert (out / RESULTS / "coin" / "summary.json").read_bytes() == first

    text = (out / "index.md").read_text("utf-8")
    page = Page((out / "index.html").read_text("utf-8"))
    words = " ".join(page.words)
    for sentence in (
        "1 of 4 reproductions ended, 1 of them before, 2 failed, 1 lack their data.",
        "Of 2 claims 1 hold, 1 do not hold, and 0 cannot be checked; of 1 more measurements no paper claims anything.",
        "the coin rolled away",
        "share on its edge",
    ):
        assert sentence in text and sentence in words
    assert "| coin | 1 | 1 | 0 | 1 | 0.0 |" in text
    assert "colour" in words and "| colour |" not in text  # of which nothing is claimed: the file that is named has it
    assert "colour," in (out / re.findall(r"\[table\.csv\]\((.+)\)", text)[0]).read_text("utf-8")
    (alt,) = re.findall(r"^!\[(throws: .+)\]\(results/coin/throws\.png\)$", text, re.MULTILINE)
    assert page.alternatives == [alt] and alt.removeprefix("throws: ") in words
    assert (out / "results/coin/throws.png").is_file()
    assert len(page.sources) == 1 and page.sources[0].startswith("data:image/png;base64,")
    assert page.links == [f"#{name}" for name in names]  # nothing outside of the page is needed


def test_data_lies_in_one_folder_under_stated_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert files("coin") == () and files("coin-data") == ("coin-data",)
    assert given_in("coin-data", tmp_path) is None
    (tmp_path / "coin-data").write_text("1,2\n")
    monkeypatch.setattr(overview.parallel, "answers", in_this_process)
    found = reproduce_all(tmp_path / "out", tmp_path, names=("coin-data",))
    assert [outcome.state for outcome in found.outcomes] == ["new"]
    again = reproduce_all(tmp_path / "out", tmp_path, names=("coin-data",))
    assert [outcome.state for outcome in again.outcomes] == ["reused"]
    other = reproduce_all(tmp_path / "out", tmp_path, seed=1, names=("coin-data",))
    assert [outcome.state for outcome in other.outcomes] == ["new"]
    (tmp_path / "out" / RESULTS / "coin-data" / "table.csv").unlink()  # no longer whole
    damaged = reproduce_all(tmp_path / "out", tmp_path, names=("coin-data",))
    assert [outcome.state for outcome in damaged.outcomes] == ["new"]


def in_this_process(function: Any, tasks: Any, *_: Any, **__: Any) -> Any:
    for place, task in enumerate(tasks):
        yield place, function(task, lambda share: None)


def test_the_longest_begin_first_and_stand_where_the_table_has_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert set(overview.LONGEST) <= EVERY
    begun: list[str] = []

    def answers(function: Any, tasks: Any, *_: Any, **__: Any) -> Any:
        begun.extend(task.name for task in tasks)
        return in_this_process(function, tasks)

    monkeypatch.setattr(overview.parallel, "answers", answers)
    monkeypatch.setattr(overview, "LONGEST", ("coin-lost", "coin"))
    names = ("coin", "coin-data", "coin-lost")
    (tmp_path / "coin-data").write_text("1,2\n")
    found = reproduce_all(tmp_path / "out", tmp_path, quick=True, names=names)
    assert begun == ["coin-lost", "coin", "coin-data"]
    assert tuple(outcome.name for outcome in found.outcomes) == names


def test_the_command_prints_a_line_each_and_fails_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(overview.parallel, "answers", in_this_process)
    del REPRODUCTIONS["coin-broken"], REPRODUCTIONS["coin-slow"]
    monkeypatch.chdir(tmp_path)
    call = commands(capsys)
    answer = call("reproduce", "--all", "--quick")
    assert answer.code == 1 and "1 of 3 reproductions failed" in answer.err
    assert "failed: coin-lost: the coin rolled away" in answer.out
    assert "Of 2 claims 1 hold" in answer.out and Path("reproductions/all-quick/index.html").is_file()
    summary = json.loads(Path("reproductions/all-quick/results/coin/summary.json").read_text("utf-8"))
    assert summary["figures"] == ["throws"] and summary["notes"] == ["The coin_was not\n published."]
    for words, refusal in (
        (["coin", "--all"], "leave out coin"),
        (["--all", "--data", "nowhere"], "there is no folder nowhere"),
        (["--all", "--jobs", "0"], "jobs = 0 must be at least 1"),
        (["coin", "--jobs", "0"], "jobs = 0 must be at least 1"),
    ):
        answer = call("reproduce", *words)
        assert answer.code == 2 and refusal in answer.err


def test_a_negative_seed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="seed = -1"):
        reproduce_all(tmp_path / "out", seed=-1)
    assert not list(tmp_path.iterdir())


@patch.dict(REPRODUCTIONS, dict(REPRODUCTIONS), clear=True)
def test_the_results_that_the_site_shows_are_whole() -> None:
    folders = [path for path in (ROOT / "docs/reproductions").iterdir() if path.is_dir()]
    results = [overview.read(folder) for folder in folders]
    for folder, kept in zip(folders, results, strict=True):
        assert kept is not None, folder
        assert kept.summary["claims"] == kept.counts
        assert kept.summary["shows"] == describe(folder.name).sentence
    outcomes = [overview.Outcome("", "", "reused", kept=kept) for kept in results]
    assert overview.totals(outcomes) == [157, 54, 16, 940]
