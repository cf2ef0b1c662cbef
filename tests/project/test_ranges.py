"""Ranges of keys: what an interval holds, and what its refusal says."""

from __future__ import annotations

import math

import pytest

from kernelswarm.ranges import Range


@pytest.mark.parametrize(
    ("allowed", "inside", "outside", "rule"),
    [
        (Range("[1, inf)"), [1, 1e300], [0.999, -1, math.inf, math.nan, "1", None], "at least 1"),
        (Range("(0, inf)"), [1e-300, 5], [0, -1.0, math.inf, math.nan], "positive"),
        (Range("(0, inf]"), [1e-300, math.inf], [0.0, math.nan], "positive"),
        (Range("[0, inf)"), [0, 0.0], [-1e-300, math.inf], "not negative"),
        (Range("(0, 1]"), [1e-9, 1], [0, 1.0000001], "in (0, 1]"),
        (Range("[0, 1]"), [0, 1], [-1e-9, 1.1], "from 0 to 1"),
        (Range("(0, 1)", "", "auto"), ["auto", 0.5], [0, 1, "often"], 'between 0 and 1, or "auto"'),
        (Range("(-inf, inf)"), [-1e300, 0], [math.inf, -math.inf, math.nan], "finite"),
        (Range("[1, 1,000]", "", None), [None, 1000], [1001, "auto"], "from 1 to 1,000"),
        (Range("[1, 32]", "", 64), [32, 64], [33, 63], "from 1 to 32"),
    ],
)
def test_ranges_hold_what_their_interval_says(allowed, inside, outside, rule):
    assert str(allowed) == rule
    for value in inside:
        allowed.check("key", value)
    for value in outside:
        with pytest.raises(ValueError, match=r"^key = .* must"):
            allowed.check("key", value)


@pytest.mark.parametrize(
    ("allowed", "value", "message"),
    [
        (Range("[0, inf)", "0 is none"), -1, "key = -1 must not be negative: 0 is none"),
        (Range("(0, inf)"), math.inf, "key = inf must be positive and finite"),
    ],
)
def test_refusals_say_the_value_the_rule_and_the_remedy(allowed, value, message):
    with pytest.raises(ValueError, match="key") as refusal:
        allowed.check("key", value)
    assert str(refusal.value) == message
