"""The reproductions of SPPPOT run, measure what they say, and refuse data that is missing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.data.gaussian_mixture import GaussianDensity
from kernelswarm.simulations.reproductions import densities, spppot_gaussian, spppot_shots
from kernelswarm.simulations.reproductions.contract import Request


def test_the_batch_estimate_is_near_the_density() -> None:
    stream = GaussianDensity().open(1, 0, 10, None)
    events = stream.nodes[0].draw(3000)[0]
    estimate, ridge = densities.chosen_batch(spppot_gaussian.LOSS, spppot_gaussian.KERNEL, events)
    values = estimate.values(densities.FINE)[:, 0]
    truth = stream.truth(0, densities.FINE, 0)[:, 0]  # type: ignore[misc]
    assert ridge in densities.RIDGES and (values >= 0.0).all()
    assert np.mean((values - truth) ** 2) < 0.02 and values.mean() == pytest.approx(1.0, abs=0.01)


def test_gaussian_quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spppot_gaussian, "EPOCHS", 2)  # the settings are published for eight
    shares: list[float] = []
    found = spppot_gaussian.reproduce(Request(quick=True, tell=lambda what, share: shares.append(share)))
    assert shares == sorted(shares) and shares[-1] < 1.0
    assert (found.arrays["spppot_constant_density"] > 0.0).all()
    assert {"spppot_gaussian"} == set(found.figures) and all(found.notes)
    assert found.arrays["pmd_eta_0.012_ise"] == pytest.approx(found.arrays["spppot_constant_ise"], rel=0.05)


@pytest.mark.parametrize(
    ("quantity", "name", "change", "verdict"),
    [
        ("RMSE and ISE", "SPPPOT constant", {}, True),
        ("RMSE and ISE", "SPPPOT constant", {"ise": 0.3}, False),
        ("RMSE and ISE", "PMD", {}, None),
        ("model order", "SPPPOT adaptive", {"order": 104.0}, True),
        ("model order", "SPPPOT adaptive", {"order": 60.0}, False),
        ("test loss", "SPPPOT constant", {}, True),
        ("test loss", "SPPPOT constant", {"loss": 0.9}, False),
        ("a density", "PMD", {}, True),
        ("a density", "PMD", {"least": -0.1}, False),
        ("a density", "PMD", {"total": 1.2}, False),
    ],
)
def test_a_claim_holds_where_the_numbers_say_so_and_nowhere_else(
    quantity: str, name: str, change: dict[str, float], verdict: bool | None
) -> None:
    good = spppot_gaussian.Final(ise=0.1, loss=0.5, order=100.0, least=0.01, total=1.0)
    names = [*spppot_gaussian.ROWS, "batch"]
    finals = {known: [good, good] for known in names} | {"PMD": [replace(good, ise=0.2)] * 2}
    finals["SPPPOT adaptive"] = [replace(good, order=105.0)] * 2
    finals[name] = [finals[name][0], replace(finals[name][1], **change)]  # in one of two draws
    rows = {claim.quantity: claim.holds for claim in spppot_gaussian._claims(spppot_gaussian.SHEET, finals)}
    assert rows["test loss, SPPPOT" if quantity == "test loss" else f"{quantity}, {name}"] is verdict


def test_shots_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    feet = np.concatenate([random.integers(0, 4, 300), random.normal(25.0, 2.0, 300).round(), [45.0] * 9])
    path = tmp_path / "shots.csv"
    lines = [f'"{k}","layup",{distance:.0f}' for k, distance in enumerate(feet)]
    path.write_text('"","action_type","shot_distance"\n' + "\n".join(lines) + "\n", encoding="utf-8")
    monkeypatch.setattr(spppot_shots, "PUBLISHED_EPOCHS", 2)
    assert len(spppot_shots.read_distances(path)) == 600
    found = spppot_shots.reproduce(Request(data=path, quick=True))
    densities_found = [claim for claim in found.claims if claim.quantity.startswith("a density")]
    assert len(densities_found) == 3 and all("least value" in claim.measured for claim in densities_found)
    assert "600 shots" in found.notes[0]


def test_missing_data_is_named_with_where_it_is_published(tmp_path: Path) -> None:
    for data in (None, tmp_path / "nothing"):
        with pytest.raises(InputError, match=r"(?s)(--data.*|stats\.nba\.com.*){2}"):
            spppot_shots.reproduce(Request(data=data))
