"""Who reads a figure of own data finds its unit beside it: in results, tables, reports and figures."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernelswarm import compare
from kernelswarm.simulations.command.final_figures import as_text
from kernelswarm.simulations.comparison import tables
from kernelswarm.simulations.experiment.experiment import build_experiment
from kernelswarm.simulations.figures.style import column_label
from kernelswarm.simulations.records.outcome import Comparison
from kernelswarm.simulations.records.result import Result, amount, measured_in
from kernelswarm.simulations.report import page
from kernelswarm.simulations.running.simulation import simulate

random = np.random.default_rng(0)
X = random.normal(size=(160, 1))
PRICE = 200_000.0 + 50_000.0 * np.sin(2.0 * X[:, 0])
KEYS: dict[str, Any] = {
    "topology": {"name": "ring", "nodes": 3},
    "protocol": "isolated",
    "rounds": 30,
    "evaluate_every": 10,
}


def ran(targets: dict[str, Any], **keys: Any) -> Result:
    data = {"x": X[:, 0] * 1e3 + 5e4, **targets}
    stream = {"task": "regression", **keys.pop("stream", {})}
    return simulate(**{**KEYS, "learner": "polk", **keys}, data=data, target=list(targets), stream=stream)


def test_a_run_says_its_unit_wherever_it_is_read() -> None:
    result = ran({"price": PRICE})
    deviation = amount(result.facts["deviation_of_price"])
    sentence = f"risk and error are shares of the variance of price (standard deviation {deviation})"
    assert measured_in(result.facts, result.config) == sentence
    assert sentence.capitalize() in " ".join(page.verdict(result))
    text = as_text(result)
    assert "risk and error are shares of the variance of price" in text and amount(result.final["rmse"] or 0.0) in text
    assert f"(price; its standard deviation is {deviation})" in text
    assert amount(result.final["rmse"] or 0.0) in " ".join(page.verdict(result))
    for column, label in {
        "risk": "risk (share of variance)",
        "global_error": "pooled error (share of variance)",
        "disagreement": "disagreement (share of variance)",
        "model_order": "model order (points or features a node)",
    }.items():
        assert column_label(column, result.config, result.facts) == label


def test_other_losses_and_several_targets_say_what_1_stands_for() -> None:
    result = ran({"price": PRICE}, learner={"name": "polk", "loss": "absolute"})
    assert "of standardized targets: 1 stands for" in repr(result) and "of price" in repr(result)
    assert column_label("risk", result.config, result.facts) == "risk (absolute loss, standardized)"
    result = ran({"price": PRICE, "area": PRICE / 1e3})
    assert "rmse" not in result.final
    deviations = [result.facts[f"deviation_of_{name}"] for name in ("price", "area")]
    assert f"1 stands for {amount(deviations[0])} of price, {amount(deviations[1])} of area" in repr(result)


@pytest.mark.parametrize("targets", [(X[:, 0] > 0.0) * 1.0, PRICE])
def test_targets_that_are_taken_as_they_stand_have_their_own_unit(targets: Any) -> None:
    result = ran({"price": targets}, stream={"standardize": False} if targets is PRICE else {})
    assert measured_in(result.facts, result.config) == "" and "variance" not in repr(result)
    assert targets is not PRICE or result.final["rmse"] == pytest.approx(np.sqrt(result.final["error"] or 0.0))
    assert column_label("error", result.config, result.facts) == "error (mean square error)"


def compared(vary: dict[str, Any]) -> Comparison:
    data = {"x": X[:, 0], "price": PRICE}
    experiment = build_experiment(**KEYS, learner="polk", data=data, target="price", stream={"task": "regression"})
    return compare(experiment, vary, seeds=2, jobs=1)


def test_a_comparison_says_its_unit_in_every_format() -> None:
    found = compared({"protocol": ["isolated", "consensus"]})
    texts = (
        tables.as_text(found),
        tables.as_markdown(found),
        tables.as_latex(found),
        *page.comparison_notes(found),
    )
    assert sum("shares of the variance of price (standard deviation 3" in text for text in texts) == 4
    assert not any("protocol = isolated: risk and error" in text for text in texts)  # all rows have it
    assert column_label("risk", dict(found.cells[0].config), found.facts) == "risk (share of variance)"
    lines = tables.as_csv(found).splitlines()
    means = [float(line.split(",")[lines[0].split(",").index("rmse_mean")]) for line in lines[1:]]
    for mean, row in zip(means, found.rows(["rmse"]), strict=True):
        assert mean == row.mean["rmse"] and 100.0 < mean < 50_000.0
    assert "rmse" in tables.as_text(found, columns=["rmse"])


def test_rows_of_different_units_are_distinguished() -> None:
    found = compared({"stream.standardize": [True, False]})
    text = tables.as_text(found, width=1000)
    assert "stream.standardize = true: risk and error are shares of the variance of price" in text
    assert "stream.standardize = false: risk and error are in the unit of the data" in text
    assert column_label("risk", dict(found.cells[0].config), found.facts) == "risk (squared loss)"
