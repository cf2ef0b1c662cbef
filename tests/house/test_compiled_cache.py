"""What is kept compiled never outlives the sources that it came from."""

import os

from kernelswarm.compiled_cache import drop_stale


def written(path, age):
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"")
    os.utime(path, (1e9 - age, 1e9 - age))
    return path


def test_compiled_functions_older_than_any_source_are_dropped(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
    written(first / "caller.py", 50)
    written(second / "called.py", 10)
    old = [written(first / "__pycache__" / f"caller.f-1.py311.{kind}", 20) for kind in ("nbi", "nbc")]
    fresh = written(first / "__pycache__" / "caller.g-1.py311.nbi", 5)
    other = written(first / "__pycache__" / "caller.cpython-311.pyc", 90)
    drop_stale([first, second])
    assert not any(file.exists() for file in old)
    assert fresh.exists()
    assert other.exists()


def test_rooms_within_rooms_are_looked_through(tmp_path):
    outer, inner = tmp_path / "outer", tmp_path / "outer" / "room" / "inner"
    inner.mkdir(parents=True)
    written(inner / "called.py", 10)
    places = [folder / "__pycache__" for folder in (outer, inner, tmp_path / "other")]
    for place in places:
        place.mkdir(parents=True)
    old = [written(place / "caller.f-1.py311.nbi", 20) for place in places]
    fresh = written(inner / "__pycache__" / "caller.g-1.py311.nbi", 5)
    drop_stale([outer])
    assert [file.exists() for file in old] == [False, False, True]
    assert fresh.exists()


def test_folders_without_anything_compiled_are_left_alone(tmp_path):
    drop_stale([tmp_path])
    assert list(tmp_path.iterdir()) == []
