"""The reproduction of regression with features on a budget, quickly: its data, figures and refusals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from kernelswarm.simulations.ground.errors import InputError
from kernelswarm.simulations.reproductions import okfeb_regression
from kernelswarm.simulations.reproductions.contract import Request


def test_regression_reads_the_published_files_and_refuses_others(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^--data is missing: it must name a folder with cal_housing.data.gz"):
        okfeb_regression.reproduce(Request(quick=True))
    with pytest.raises(InputError, match=r"has no cal_housing.data.gz: it must be"):
        okfeb_regression.reproduce(Request(data=tmp_path, quick=True))
    generator = np.random.default_rng(0)
    x = generator.normal(size=(300, 3))
    y = np.sin(x[:, :1])
    houses = np.hstack([x, x[:, :2], x, y])
    np.savetxt(tmp_path / "cal_housing.data.gz", houses, delimiter=",", header="a,b,c,d,e,f,g,h,i", comments="")
    gaps = x.copy()
    gaps[::7, 1] = -200.0
    savemat(tmp_path / "air_quality.mat", {"X": gaps, "Y": y})
    points, targets = okfeb_regression.load(tmp_path)["air quality"]
    np.testing.assert_array_equal(points[7, 1], x[6, 1])  # the last value before a missing one
    assert points.shape == (300, 3) and targets.shape == (300, 1)
    found = okfeb_regression.reproduce(Request(data=tmp_path, quick=True))
    assert set(found.figures) == {"regression"}
    assert {claim.quantity.split(",")[1] for claim in found.claims[:2]} == {" OK-FEB"}
    assert any("Slice and Year: not at hand" in note for note in found.notes)
    (tmp_path / "air_quality.mat").write_bytes(b"no matrix")
    with pytest.raises(InputError, match="not the data that was published"):
        okfeb_regression.reproduce(Request(data=tmp_path, quick=True))


def test_slices_and_years_take_part_where_the_folder_has_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    inputs, positions = random.normal(size=(30, 384)), np.arange(30.0)[:, None]
    inputs[:, 5] = 0.25  # bins that no patient fills
    names = ",".join(["patientId", *(f"value{n}" for n in range(384)), "reference"])
    numbers = np.hstack([np.full((30, 1), 7.0), inputs, positions])
    np.savetxt(tmp_path / "slice_localization_data.csv", numbers, delimiter=",", header=names, comments="")
    songs, years = random.normal(size=(40, 90)), random.integers(1922, 2011, size=(40, 1))
    np.savetxt(tmp_path / "YearPredictionMSD.txt", np.hstack([years, songs]), delimiter=",")
    monkeypatch.setattr(okfeb_regression, "MOST", 35)
    found = okfeb_regression.further(tmp_path)
    points, targets = found["Slice"]
    order = np.argsort(targets[:, 0])
    np.testing.assert_array_equal(targets[order], positions)
    np.testing.assert_array_equal(points[order], inputs)
    np.testing.assert_array_equal(okfeb_regression.standardised(points)[:, 5], 0.0)
    points, targets = found["Year"]
    assert points.shape == (35, 90)
    places = [int(np.flatnonzero((songs == row).all(axis=1))[0]) for row in points]
    assert len(set(places)) == 35
    np.testing.assert_array_equal(targets, years[places])
    (tmp_path / "slice_localization_data.csv").write_text("1,2,3\n4,5,6\n")
    with pytest.raises(InputError, match=r"rows of 3 numbers, and 386 are published: it must be .*CT slices"):
        okfeb_regression.further(tmp_path)
    (tmp_path / "slice_localization_data.csv").unlink()
    assert list(okfeb_regression.further(tmp_path)) == ["Year"]
