"""Values that a comparison draws: by their scale's formula, the same however they are asked for, refused in words."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.experiment.variation import (
    RandomValues,
    cells,
    draw,
    is_drawn,
    parse_draws,
    parse_vary,
    read_compare,
    short,
)
from tests.helpers.small_comparisons import TABLE

STEP, PENALTY = "learner.step_size", "protocol.penalty"


@pytest.mark.parametrize(
    ("scale", "low", "high", "formula"),
    [
        ("log", 0.01, 1.0, lambda share: 0.01 * 100.0**share),
        ("uniform", -2.0, 3.0, lambda share: -2.0 + 5.0 * share),
        ("integer", 1.0, 6.0, lambda share: 1.0 + np.floor(6.0 * share)),
    ],
)
def test_values_are_the_quantiles_of_their_scale(scale: str, low: float, high: float, formula: Any) -> None:
    shares = np.linspace(0.0, 1.0, 300, endpoint=False)
    values = RandomValues(scale, low, high, 300).quantiles(shares.tolist())
    np.testing.assert_allclose(values, formula(shares), rtol=1e-11)
    assert low <= min(values) and max(values) <= high
    if scale == "integer":
        assert set(values) == {1, 2, 3, 4, 5, 6} and all(isinstance(value, int) for value in values)


def unit(count: int, keys: int = 1) -> dict[str, RandomValues]:
    return {f"a.key{place}": RandomValues("uniform", 0.0, 1.0, count) for place in range(keys)}


@pytest.mark.parametrize("count", [1, 2, 6, 8, 31, 64])
def test_every_key_is_drawn_from_each_part_of_its_range(count: int) -> None:
    parts = 2 ** (count.bit_length() - 1)  # the largest power of two up to the count
    for seed in range(5):
        for values in draw(unit(count, 7), seed).values():
            assert {math.floor(value * parts) for value in values} == set(range(parts))


def test_two_keys_cover_their_box() -> None:
    for seed in range(5):
        first, second = draw(unit(16, 2), seed).values()
        for wide in (1, 2, 4, 8, 16):  # one draw in each of 16 equal rectangles, whatever their shape
            cells_of = {(int(x * wide), int(y * (16 // wide))) for x, y in zip(first, second, strict=True)}
            assert len(cells_of) == 16


def test_draws_depend_on_the_seed_and_the_drawn_keys_but_not_on_their_order() -> None:
    keys = unit(5, 3)
    found = draw(keys, 5)
    assert draw(keys, 5) == found == draw(dict(reversed(keys.items())), 5)
    assert draw(keys, 6) != found
    (one,), (other,) = (list(draw({key: RandomValues("uniform", 0, 1, 5)}, 5).values()) for key in ("a.b", "a.c"))
    assert one != other


def test_the_first_draws_stay_when_more_are_asked_for() -> None:
    few, many = (draw(unit(count, 3), 0) for count in (3, 9))
    assert {key: values[:3] for key, values in many.items()} == few
    three, nine = ([cell.config for cell in cells(TABLE, {STEP: f"log:0.01:1:{count}"})] for count in (3, 9))
    assert all(config in nine for config in three)


def test_drawn_keys_are_one_axis_sorted_by_the_first_and_crossed_with_lists() -> None:
    vary = {"topology.name": ["ring", "star"], STEP: "log:0.01:1:4", PENALTY: "uniform:0:1:4"}
    found = cells(TABLE, vary)
    keys = {STEP: RandomValues("log", 0.01, 1, 4), PENALTY: RandomValues("uniform", 0, 1, 4)}
    pairs = sorted(zip(*draw(keys, 3).values(), strict=True))
    assert [(cell.drawn[STEP], cell.drawn[PENALTY]) for cell in found] == [*pairs, *pairs]
    for cell in found:
        assert cell.config["learner"]["step_size"] == cell.drawn[STEP]  # literally, so that its file says it
        assert Experiment.from_dict(cell.config).to_dict()["protocol"]["penalty"] == cell.drawn[PENALTY]
    assert {cell.labels[0] for cell in found[:4]} == {"ring"}


def test_what_else_is_listed_moves_no_draw() -> None:
    alone = {cell.drawn[STEP] for cell in cells(TABLE, {STEP: "log:0.01:1:4"})}
    others = cells(TABLE, {"rounds": [10, 20], STEP: "log:0.01:1:4"})
    assert {cell.drawn[STEP] for cell in others} == alone


def test_a_drawn_key_that_a_part_lacks_is_left_out() -> None:
    found = cells(TABLE, {"protocol.name": ["isolated", "consensus"], PENALTY: "log:0.1:1:3"})
    assert [cell.labels[1] == "–" for cell in found] == [True, False, False, False]
    assert found[0].drawn == {}


def test_options_and_files_say_the_same_and_lists_stay_lists(tmp_path: Path) -> None:
    vary = parse_vary([f"{STEP}=log:0.01:1:8", "learner.kernel=log:kernel", "rounds=1"])
    assert vary == {STEP: "log:0.01:1:8", "learner.kernel": ["log:kernel"], "rounds": [1]}
    path = tmp_path / "experiment.toml"
    path.write_text('[compare.vary]\nlearner.step_size = "log:0.01:1:8"\n')
    assert read_compare(path).vary == {STEP: "log:0.01:1:8"}
    assert read_compare(path).with_options({STEP: "log:1:2:3"}).vary == {STEP: "log:1:2:3"}
    for word in ("isolated", "logistic", "07:32:00", "C:/data/log:1", "uniform"):
        assert not is_drawn(word)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("log:0.01:1", "the lowest value, the highest one and how many"),
        ("log:0:1:8", "above 0"),
        ("log:1:0.01:8", "lowest value first"),
        ("uniform:1:1:8", "lowest value first"),
        ("uniform:0:inf:8", "finite"),
        ("uniform:low:high:8", "finite"),
        ("uniform:0:1:0", "whole number from 1 to 1,000"),
        ("uniform:0:1:2.5", "whole number from 1 to 1,000"),
        ("integer:1:2.5:8", "whole numbers"),
        ("uniforn:0:1:8", 'did you mean "uniform"'),
    ],
)
def test_bad_draws_are_refused_with_key_rule_and_remedy(text: str, rule: str) -> None:
    assert is_drawn(text)
    with pytest.raises(InputError, match=rf'vary learner\.step_size = "{text}".*{rule}'):
        parse_draws(STEP, text)


def test_draws_stand_alone_and_have_one_number() -> None:
    with pytest.raises(InputError, match=r"learner\.step_size.*must stand alone"):
        cells(TABLE, {STEP: [0.1, "log:0.01:1:8"]})
    with pytest.raises(InputError, match=r"protocol\.penalty.*must have 8 draws as learner\.step_size has"):
        cells(TABLE, {STEP: "log:0.01:1:8", PENALTY: "log:0.01:1:7"})
    with pytest.raises(InputError, match="--seeds"):
        cells(TABLE, {"seed": "integer:1:9:3"})
    with pytest.raises(InputError, match=r"learner\.step_siz cannot be varied"):
        cells(TABLE, {"learner.step_siz": "log:0.01:1:8"})


def test_labels_have_three_digits_or_what_tells_them_apart() -> None:
    values = draw({STEP: RandomValues("log", 1e-6, 1e3, 40)}, 0)[STEP]
    for value, written in zip(values, short(values), strict=True):
        assert math.isclose(float(written), value, rel_tol=5.1e-3)
    assert short([0.50001, 0.50002]) == ["0.50001", "0.50002"]
