"""Strings of bytes that travel as one between blocks, and back, bit for bit."""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def joined(parts: Sequence[bytes]) -> bytes:
    """Write some strings of bytes behind the lengths of all of them."""
    lengths = np.array([len(part) for part in parts], dtype=np.int64)
    return b"".join([lengths.tobytes(), *parts])


def parted(message: bytes, count: int) -> list[bytes]:
    """Undo :func:`joined` of so many strings."""
    found, begin = [], 8 * count
    for length in np.frombuffer(message[:begin], dtype=np.int64).tolist():
        found.append(message[begin : begin + length])
        begin += length
    return found


def with_bands(message: bytes, bands: Mapping[int, Array]) -> bytes:
    """Append the messages of nodes' bands, (C, 2) by label, and last the count of their numbers."""
    rows = np.array([[node, *numbers.flat] for node, numbers in bands.items()], dtype=np.float64)
    return b"".join([message, rows.tobytes(), np.array([rows.size, len(rows)], dtype=np.float64).tobytes()])


def without_bands(message: bytes) -> tuple[bytes, dict[int, Array]]:
    """Undo :func:`with_bands`; nothing was written behind an empty message."""
    if not message:
        return b"", {}
    numbers = np.frombuffer(message)
    size, nodes = int(numbers[-2]), int(numbers[-1])
    rows = numbers[len(numbers) - 2 - size : -2].reshape(nodes, -1)
    rest = message[: len(message) - numbers.itemsize * (2 + size)]
    return rest, {int(row[0]): row[1:].reshape(-1, 2) for row in rows}
