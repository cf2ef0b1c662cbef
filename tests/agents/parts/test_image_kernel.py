"""The kernel of images is the Gaussian kernel of what Gaussian windows see, whatever else is in the call."""

from typing import Any

import numpy as np
import pytest
from scipy.spatial import distance

from kernelswarm import KernelClassifier
from kernelswarm.agents.parts.image_kernel import REACH, Images
from kernelswarm.agents.parts.losses import Hinge
from kernelswarm.agents.parts.sample import Sample
from kernelswarm.arrays import Array


def draw(seed: int, rows: int, inputs: int) -> Array:
    points: Array = np.random.default_rng(seed).uniform(size=(rows, inputs))
    return points


def windows(length: int, spacing: float) -> Array:
    """Gaussian weights, one window at a time."""
    count = max(int(length / spacing), 1)
    found = np.zeros((count, length))
    for a in range(count):
        center = (length - 1) / 2 + spacing * (a - (count - 1) / 2)
        for i in range(length):
            away = (i - center) / (spacing / 2)
            found[a, i] = np.exp(-(away**2) / 2) if abs(away) <= REACH else 0.0
    largest: Array = found / found.sum(axis=1).max()
    return largest


def view(kernel: Images, points: Array) -> Array:
    """The definition of u, by dense matrices."""
    rows, columns = kernel.shape
    down, along = windows(rows, float(kernel.spacing)), windows(columns, float(kernel.spacing))
    seen = np.array([(down @ point.reshape(rows, columns) @ along.T).ravel() for point in points])
    norms = np.linalg.norm(seen, axis=1, keepdims=True)
    found: Array = np.divide(seen, norms, out=np.zeros_like(seen), where=norms > 0)
    return found


KERNELS = [
    Images((5, 4), bandwidth=0.8),
    Images((28, 28), bandwidth=0.6),
    Images((9, 7), spacing=1.0, bandwidth=0.5),
    Images((1, 40), spacing=2.5, bandwidth=0.7),
    Images((6, 8), spacing=8.0, bandwidth=0.4),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_cross_is_the_gaussian_kernel_of_what_windows_see(kernel: Images) -> None:
    points, centers = draw(0, 7, kernel.inputs), draw(1, 5, kernel.inputs)
    points[3] = 0.0  # a dark image
    squares = distance.cdist(view(kernel, points), view(kernel, centers), "sqeuclidean")
    np.testing.assert_allclose(
        kernel.cross(points, centers), np.exp(-squares / (2 * float(kernel.bandwidth) ** 2)), rtol=1e-9
    )
    np.testing.assert_allclose(kernel.seen(points), view(kernel, points), rtol=1e-12, atol=1e-15)
    np.testing.assert_array_equal(np.diag(kernel.cross(points, points.copy())), 1.0)
    np.testing.assert_array_equal(kernel.seen(points[2:3])[0], kernel.seen(points)[2])  # whichever others are seen


def test_median_is_a_share_of_the_median_distance_of_what_is_seen() -> None:
    kernel, points = Images((6, 6)), draw(6, 40, 36)
    assert kernel.automatic == ("bandwidth",)
    sample = Sample(points, np.ones((40, 1)), Hinge(), 1, 1, lambda chosen: np.eye(len(chosen)))
    fitted = kernel.resolved(sample)
    assert fitted.bandwidth == pytest.approx(0.4 * np.median(distance.pdist(view(kernel, points))))
    assert fitted.automatic == () and fitted.resolved(sample) is fitted
    with pytest.raises(ValueError, match="is a word that training data turn into a number"):
        kernel.cross(points, points)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"shape": (28,)}, "shape = \\(28,\\) must be two whole numbers"),
        ({"shape": (28, 0)}, "shape = \\(28, 0\\) must be two whole numbers"),
        ({"shape": (28, 2.5)}, "shape = \\(28, 2.5\\) must be two whole numbers"),
        ({"shape": "28"}, "shape = '28' must be two whole numbers"),
        ({"shape": (4, 6), "spacing": 0.5}, "spacing = 0.5 must be between 1 pixel and 6"),
        ({"shape": (4, 6), "spacing": 7}, "spacing = 7 must be between 1 pixel and 6"),
        ({"shape": (4, 6), "spacing": float("nan")}, "spacing = nan must be between 1 pixel and 6"),
        ({"shape": (4, 6), "bandwidth": 0.0}, "bandwidth = 0.0 must be positive"),
        ({"shape": (4, 6), "bandwidth": "relevance"}, "bandwidth = 'relevance' must be one number for all windows"),
        ({"shape": (4, 6), "bandwidth": (1.0, 2.0)}, "bandwidth = \\(1.0, 2.0\\) must be one number for all windows"),
    ],
)
def test_values_out_of_range_are_refused_by_field(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        Images(**keys)


@pytest.mark.parametrize(("shape", "spacing"), [((28, 28), 2.0), ((8, 9), 1.0), ((70, 56), 4.0)])
def test_fourteen_windows_stand_along_the_shorter_side_or_one_for_each_pixel(
    shape: tuple[int, int], spacing: float
) -> None:
    kernel = Images(shape, bandwidth=1.0)
    assert kernel.spacing == spacing
    rows, columns = (int(side / spacing) for side in shape)
    assert kernel.seen(np.ones((1, kernel.inputs))).shape == (1, rows * columns)


def test_other_numbers_of_pixels_are_refused() -> None:
    with pytest.raises(ValueError, match=r"shape = \[4, 6\] takes 24 pixels, and points have 25 inputs"):
        Images((4, 6), bandwidth=1.0).cross(np.zeros((2, 25)), np.zeros((2, 25)))


def test_classifiers_find_the_bandwidth_and_say_what_does_not_fit() -> None:
    generator = np.random.default_rng(7)
    images = generator.uniform(0.0, 0.1, size=(300, 8, 8))
    labels = generator.integers(2, size=300)
    for image, label, place in zip(images, labels, generator.integers(1, 7, size=300), strict=True):
        image[(slice(None), place) if label else (place, slice(None))] += 1.0
    table = {"name": "images", "shape": [8, 8]}
    rows = images.reshape(300, -1)
    model = KernelClassifier(60, kernel=table, loss="squared_hinge", random_state=0).fit(rows[:200], labels[:200])
    assert model.score(rows[200:], labels[200:]) > 0.95
    with pytest.raises(ValueError, match="64"):
        KernelClassifier(60, kernel=table).fit(rows[:, :60], labels)
