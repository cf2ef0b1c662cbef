"""Archives that are written here are those that NumPy and zipfile read."""

from __future__ import annotations

import io
import zipfile
from typing import Any

import numpy as np
import pytest

from kernelswarm.simulations.core import archives
from kernelswarm.simulations.core.archives import read_arrays, write_arrays

ARRAYS: dict[str, Any] = {
    "points_3": np.arange(6.0).reshape(3, 2),
    "turned": np.arange(6.0).reshape(3, 2).T,
    "every_other": np.arange(8)[::2],
    "dual_0_1": np.array(0.5),
    "empty": np.empty((0, 4)),
    "wörter": np.array(["a", "bc"]),
    "small": np.array([True, False]),
}


def written(arrays: dict[str, Any]) -> io.BytesIO:
    file = io.BytesIO()
    write_arrays(file, arrays)
    file.seek(0)
    return file


@pytest.mark.parametrize("largest", [archives.LARGEST_PLAIN, 0], ids=["plain", "by numpy"])
def test_numpy_reads_what_was_written(largest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "LARGEST_PLAIN", largest)
    found = np.load(written(ARRAYS))
    assert found.files == list(ARRAYS)
    for name, array in ARRAYS.items():
        assert found[name].dtype == array.dtype and found[name].shape == array.shape
        np.testing.assert_array_equal(found[name], array)


def test_checksums_and_sizes_are_those_that_zipfile_expects() -> None:
    with zipfile.ZipFile(written(ARRAYS)) as archive:
        assert archive.testzip() is None
        assert [entry.flag_bits for entry in archive.infolist() if not entry.filename.isascii()] == [archives.UTF8]


@pytest.mark.parametrize("count", [0xFFFE, 0xFFFF, 0x10000])
def test_archives_of_many_arrays_are_whole(count: int) -> None:
    array = np.arange(3.0)
    with zipfile.ZipFile(written({f"weights_{k}": array for k in range(count)})) as archive:
        names = archive.namelist()
        assert len(names) == count
        assert archive.read(names[-1]) == archive.read(names[0])


def test_the_same_arrays_make_the_same_bytes() -> None:
    assert written(ARRAYS).getvalue() == written(dict(ARRAYS)).getvalue()
    for name, array in read_arrays(written(ARRAYS)).items():
        np.testing.assert_array_equal(array, ARRAYS[name])


def test_objects_are_refused() -> None:
    with pytest.raises(ValueError, match="words holds objects"):
        write_arrays(io.BytesIO(), {"words": np.array([None])})
