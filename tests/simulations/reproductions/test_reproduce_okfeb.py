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
    np.savetxt(tmp_path / "cal_housing.data.gz", np.hstack([x, y]), delimiter=",", header="a,b,c,d", comments="")
    gaps = x.copy()
    gaps[::7, 1] = -200.0
    savemat(tmp_path / "air_quality.mat", {"X": gaps, "Y": y})
    points, targets = okfeb_regression.load(tmp_path)["air quality"]
    np.testing.assert_array_equal(points[7, 1], x[6, 1])  # the last value before a missing one
    assert points.shape == (300, 3) and targets.shape == (300, 1)
    found = okfeb_regression.reproduce(Request(data=tmp_path, quick=True))
    assert set(found.figures) == {"regression"}
    assert {claim.quantity.split(",")[1] for claim in found.claims[:2]} == {" OK-FEB"}
    (tmp_path / "air_quality.mat").write_bytes(b"no matrix")
    with pytest.raises(InputError, match="not the data that was published"):
        okfeb_regression.reproduce(Request(data=tmp_path, quick=True))
