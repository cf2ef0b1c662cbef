"""What a comparison says of its paired seeds: the words under its table, the marks in it, and the same as data."""

from __future__ import annotations

import csv
import io
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kernelswarm.simulations.comparison import tables
from kernelswarm.simulations.comparison.table_notes import HEADINGS, SENTENCES, best, pair, supported
from kernelswarm.simulations.experiment.variation import Cell
from kernelswarm.simulations.records.outcome import METRICS, RANKED, Comparison, Run

WIGGLE = (0.010, -0.004, 0.002, -0.011, 0.003, 0.005, -0.007)
"""What seeds add to a difference, small beside the differences here."""

HARD = (0.0, 3.0, -1.0, 7.0, 4.0, 2.0, 1.0)
"""What seeds add to all cells alike."""


def comparison(
    risks: dict[tuple[str, ...], list[float]],
    keys: tuple[str, ...] = ("protocol.name",),
    figures: tuple[str, ...] = ("risk",),
    folder: Path | None = None,
) -> Comparison:
    """One cell for each entry, with its risks by seed in all ``figures``; what else is measured is 1."""
    others = dict.fromkeys(METRICS, 1.0) | dict.fromkeys(RANKED, math.nan)
    runs = [
        Run(place, seed, final=others | dict.fromkeys(figures, risk))
        for place, found in enumerate(risks.values())
        for seed, risk in enumerate(found)
    ]
    cells = tuple(Cell(labels, {"protocol": {"name": labels[0]}}) for labels in risks)
    return Comparison(keys, cells, tuple(runs), folder)


def learning_curve(level: float, turn: int = 0, seeds: int = 7) -> list[float]:
    """Risks of one cell: its level, the seeds' hardness, and a little of its own, another for each ``turn``."""
    return [level + HARD[seed] + WIGGLE[(seed + turn) % 7] for seed in range(seeds)]


def clear(seeds: int = 7) -> Comparison:
    """A clear order: proximity is better than consensus, which is better than isolated."""
    levels = {("isolated",): learning_curve(9.0, 0, seeds), ("consensus",): learning_curve(8.0, 1, seeds)}
    return comparison({**levels, ("proximity",): learning_curve(7.0, 2, seeds)})


def bold(found: Comparison, heading: str) -> list[bool]:
    lines = [line for line in tables.as_markdown(found).splitlines() if line.startswith("|")]
    place = [cell.strip() for cell in lines[0].strip("|").split("|")].index(heading)
    return [line.strip("|").split("|")[place].strip().startswith("**") for line in lines[2:]]


def test_a_clear_winner_is_said_with_its_lead_and_its_seeds() -> None:
    found = clear()
    values = {cell: [run.final["risk"] for run in found.done(cell)] for cell in range(3)}
    leads = [np.subtract(values[cell], values[2]) for cell in range(2)]
    words = [pair(float(np.mean(lead)), float(np.std(lead, ddof=1))) for lead in leads]
    _, sentence = supported(found)
    assert sentence == (
        f"risk: proximity beats isolated by {words[0]} and consensus by {words[1]}, each in 7 of 7 seeds; "
        "consensus beats isolated"
    )


def test_what_beats_all_others_is_bold_and_nothing_else() -> None:
    found = clear()
    assert bold(found, "risk") == bold(found, "risk change") == [False, False, True]
    assert not any(any(bold(found, HEADINGS[name])) for name in ("seconds", "model_order", "bytes_sent"))
    assert tables.as_latex(found).count(r"\mathbf") == 2
    assert "bold: lower than in all other rows" in tables.as_markdown(found)
    lines = list(csv.DictReader(io.StringIO(tables.as_csv(found))))
    assert [line["best"] for line in lines] == ["", "", "risk; risk_change"]


def test_a_lead_within_the_noise_is_neither_said_nor_bold() -> None:
    noisy = [
        value + offset
        for value, offset in zip(learning_curve(7.05), (-1.0, 1.5, -0.7, 0.9, -0.6, 0.8, -0.2), strict=True)
    ]
    found = comparison(
        {("isolated",): learning_curve(9.0), ("consensus",): noisy, ("proximity",): learning_curve(7.0, 2)}
    )
    assert min((row.mean["risk"], row.labels) for row in found.rows())[1] == ("proximity",)
    _, sentence, *_ = supported(found)
    assert sentence.startswith("risk: proximity beats isolated by 2.0")
    assert "no supported difference to consensus" in sentence
    assert bold(found, "risk") == [False, False, False]
    assert "bold: " not in tables.as_markdown(found) + tables.as_latex(found)


def test_the_isolated_nodes_may_be_best_but_no_change_against_themselves_is() -> None:
    found = comparison({("isolated",): learning_curve(7.0), ("consensus",): learning_curve(8.0, 1)})
    assert bold(found, "risk") == [True, False]
    assert bold(found, "risk change") == [False, False]


@pytest.mark.parametrize("seeds", [1, 2, 3, 5])
def test_few_seeds_support_nothing_and_more_are_asked_for(seeds: int) -> None:
    found = clear(seeds)
    (sentence,) = supported(found)
    assert sentence.startswith("at least 6 seeds are needed to tell which row is better: --seeds 6 or more")
    odds = {2: "in all of 2 once in 2 times", 3: "in all of 3 once in 4 times", 5: "in all of 5 once in 16 times"}
    assert sentence.endswith(odds.get(seeds, "or more"))
    assert "at least 6 seeds are needed" in tables.as_text(found)
    assert bold(found, "risk") == [False, False, False]
    assert not any(best(found).values())


def test_seeds_that_change_nothing_do_not_count() -> None:
    found = clear()
    same = tuple(
        replace(run, digest=f"{run.cell}", final=next(other.final for other in found.runs if other.cell == run.cell))
        for run in found.runs
    )
    (sentence,) = supported(replace(found, runs=same))
    assert sentence.startswith("at least 6 seeds are needed")
    assert "no two rows share more than 1" in sentence


def test_rows_that_are_equal_are_called_so() -> None:
    found = comparison(
        {("isolated",): learning_curve(9.0), ("consensus",): learning_curve(7.0), ("proximity",): learning_curve(7.0)}
    )
    _, sentence, *_ = supported(found)
    assert "consensus beats isolated by" in sentence
    assert "equal to proximity in every seed" in sentence
    assert bold(found, "risk") == [False, False, False]
    found = comparison({("isolated",): learning_curve(9.0), ("consensus",): learning_curve(9.0)})
    assert supported(found)[1:] == ["risk: isolated and consensus are equal in every seed"]


def failing(found: Comparison, cell: int, seeds: set[int]) -> Comparison:
    """The runs of a cell failed with some seeds."""
    runs = [
        Run(cell, run.seed, failure="diverged") if run.cell == cell and run.seed in seeds else run for run in found.runs
    ]
    return replace(found, runs=tuple(runs))


def test_a_row_that_failed_with_all_seeds_is_compared_with_nothing() -> None:
    found = failing(clear(), 0, set(range(7)))
    _, sentence = supported(found)
    assert "isolated" not in sentence
    assert bold(found, "risk") == [False, False, True]
    assert "| risk change |" not in tables.as_markdown(found)


def test_rows_are_held_against_each_other_over_the_seeds_that_both_have() -> None:
    found = clear()
    runs = tuple(
        replace(run, final={**run.final, "risk": run.final["risk"] + 9.0}) if run.seed == 3 else run
        for run in found.runs
    )
    found = failing(replace(found, runs=runs), 1, {3})  # the hardest seed: without it, consensus has the lowest mean
    assert min((row.mean["risk"], row.labels) for row in found.rows())[1] == ("consensus",)
    _, sentence = supported(found)
    assert sentence.startswith("risk: proximity beats isolated by 2.0")
    assert "in 7 of 7 seeds and consensus by" in sentence
    assert "in 6 of 6 seeds" in sentence
    assert bold(found, "risk") == [False, False, True]


def test_a_row_with_too_few_seeds_is_named_and_leaves_nothing_bold() -> None:
    found = failing(clear(), 1, {0, 1})
    _, sentence = supported(found)
    assert "proximity beats isolated" in sentence
    assert "fewer than 6 seeds shared with consensus" in sentence
    assert bold(found, "risk") == [False, False, False]


def test_figures_that_are_no_numbers_are_left_out() -> None:
    found = clear()
    runs = [
        replace(run, final={**run.final, "risk": math.nan}) if (run.cell, run.seed) == (0, 2) else run
        for run in found.runs
    ]
    _, sentence = supported(replace(found, runs=tuple(runs)))
    assert "proximity beats isolated by 2.0" in sentence
    assert "in 6 of 6 seeds" in sentence
    nothing = [replace(run, final=dict.fromkeys(METRICS, math.nan)) for run in found.runs]
    assert supported(replace(found, runs=tuple(nothing))) == []
    assert tables.as_text(replace(found, runs=tuple(nothing)))


def test_one_row_is_held_against_nothing() -> None:
    found = comparison({("isolated",): learning_curve(9.0)})
    assert supported(found) == []
    assert bold(found, "risk") == [False]


def networks(count: int, folder: Path | None = None) -> Comparison:
    """Consensus is better on all networks, where all rows are worse from network to network."""
    risks = {}
    for place in range(count):
        risks["isolated", f"n{place}"] = learning_curve(9.0 + 10 * place)
        risks["consensus", f"n{place}"] = learning_curve(8.0 + 10 * place, 1)
    return comparison(risks, ("protocol.name", "topology"), folder=folder)


def test_each_network_has_its_sentence() -> None:
    _, *sentences = supported(networks(3))
    assert [line.split(" by ")[0] for line in sentences] == [
        f"n{place}, risk: consensus beats isolated" for place in range(3)
    ]
    assert bold(networks(3), "risk") == [False, True] * 3


def test_many_sentences_are_cut_on_the_terminal_and_whole_in_the_files(tmp_path: Path) -> None:
    found = networks(SENTENCES + 2, tmp_path)
    text = tables.as_text(found, 200)
    assert text.count("consensus beats isolated") == SENTENCES
    assert f"and 2 more in {tmp_path / 'comparison.txt'}" in text
    tables.write(found, tmp_path)
    for kind in ("txt", "md", "tex"):
        written = (tmp_path / f"comparison.{kind}").read_text(encoding="utf-8")
        assert written.count("consensus beats isolated") == SENTENCES + 2
        assert " more in " not in written


def test_pairs_are_written_with_all_digits() -> None:
    found = networks(2)
    lines = list(csv.DictReader(io.StringIO(tables.pairs_csv(found))))
    assert [(line["figure"], line["topology"], line["better"], line["worse"]) for line in lines] == [
        ("risk", f"n{place}", "consensus", "isolated") for place in range(2)
    ]
    for line, one in zip(lines, found.differences(), strict=True):
        assert (float(line["mean"]), float(line["std"]), float(line["p"])) == (one.mean, one.deviation, one.chance)
        assert (line["wins"], line["seeds"], line["supported"]) == ("7", "7", "1")


def test_names_with_commas_are_quoted() -> None:
    found = comparison(
        {("consensus, penalty = 0.1",): learning_curve(9.0), ("consensus, penalty = 0.2",): learning_curve(8.0, 1)}
    )
    assert 'risk: "consensus, penalty = 0.2" beats "consensus, penalty = 0.1" by ' in supported(found)[1]


def test_a_lead_in_all_seeds_that_is_too_small_asks_for_more_seeds() -> None:
    leads = (0.1, 0.5, 0.01, 0.2, 0.05, 0.3)
    others = {
        (f"row {place}",): learning_curve(50.0, place, 6)[place:] + learning_curve(50.0, place, 6)[:place]
        for place in range(4)
    }
    found = comparison(
        {
            ("isolated",): learning_curve(9.0, 0, 6),
            ("consensus",): list(np.subtract(learning_curve(9.0, 0, 6), leads)),
            **others,
        }
    )
    *_, hint = supported(found)
    assert re.fullmatch(
        r"(one difference has|\d+ differences have) the same sign in all seeds and not enough of them: among 6 rows "
        "chance alone has some such; --seeds 12 tells more",
        hint,
    )


def test_sentences_keep_to_the_width() -> None:
    found = comparison(
        {(name,): learning_curve(9.0 - place, place) for place, name in enumerate(("isolated", *"abcdefgh"))}
    )
    lines = tables.as_text(found, 60).splitlines()
    start = next(place for place, line in enumerate(lines) if line.startswith("risk: "))
    folded = [line for line in lines[start:] if line.startswith(("risk: ", "    "))]
    assert max(map(len, folded)) <= 60
    assert not any(line.endswith("±") or line.strip().startswith("±") for line in folded)
    assert " ".join(line.strip() for line in folded) == supported(found)[1]
