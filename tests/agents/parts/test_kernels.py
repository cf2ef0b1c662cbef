"""Kernels are what their formulas say, far out and close by."""

import mmap
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial import distance

from kernelswarm.agents.arithmetic.kernel_formulas import NARROW
from kernelswarm.agents.parts.kernels import Gaussian, Kernel, Laplacian, Linear, Matern, Polynomial, StudentT, Trended
from kernelswarm.arrays import Array
from tests.contracts import specimens

KERNELS: list[Kernel] = [kernel for kernel in specimens.KERNELS if getattr(kernel, "inputs", None) is None]
RADIAL = [kernel for kernel in KERNELS if kernel.supremum is not None]
PAGES = Path("/proc/self/statm")
WIDTHS = [1, 2, 7, NARROW, NARROW + 1, 90]

every_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=repr)
every_radial_kernel = pytest.mark.parametrize("kernel", RADIAL, ids=repr)
every_width = pytest.mark.parametrize("inputs", WIDTHS)


def formula(kernel: Kernel, points: Array, centers: Array) -> Array:
    """Evaluate the definition with scipy's pairwise distances."""
    match kernel:
        case Gaussian(bandwidth=s):
            return np.asarray(np.exp(-distance.cdist(points, centers, "sqeuclidean") / (2 * s**2)))
        case Laplacian(bandwidth=s):
            return np.asarray(np.exp(-distance.cdist(points, centers, "cityblock") / s))
        case Matern(bandwidth=s, smoothness=1.5):
            r = np.sqrt(3.0) * distance.cdist(points, centers) / s
            return np.asarray((1 + r) * np.exp(-r))
        case Matern(bandwidth=s):
            r = np.sqrt(5.0) * distance.cdist(points, centers) / s
            return np.asarray((1 + r + r**2 / 3) * np.exp(-r))
        case StudentT(bandwidth=s, degrees=n):
            return np.asarray((1 + distance.cdist(points, centers, "sqeuclidean") / (n * s**2)) ** (-(n + 1) / 2))
        case Trended(bandwidth=s, trend=t):
            affine = t * (1.0 + points @ centers.T) / (1.0 + points.shape[1])
            return formula(Gaussian(s), points, centers) + affine
        case Polynomial(degree=d, offset=o, scale=a):
            return np.asarray((a * points @ centers.T + o) ** d)
        case Linear(offset=o):
            return np.asarray(points @ centers.T + o)
    raise AssertionError(kernel)


def draw(seed: int, rows: int, inputs: int) -> Array:
    points: Array = np.random.default_rng(seed).normal(size=(rows, inputs)) / np.sqrt(inputs)
    return points


@every_kernel
@every_width
def test_cross_follows_the_formula(kernel: Kernel, inputs: int) -> None:
    points, centers = draw(0, 9, inputs), draw(1, 6, inputs)
    np.testing.assert_allclose(kernel.cross(points, centers), formula(kernel, points, centers), rtol=1e-9, atol=1e-14)


@every_radial_kernel
@pytest.mark.parametrize("inputs", [2, 50])
@pytest.mark.parametrize("size", [1e-120, 1.0, 1e6, 1e140, 1e180])
def test_extreme_inputs_give_numbers_between_zero_and_one(kernel: Kernel, inputs: int, size: float) -> None:
    points = size * draw(8, 4, inputs)
    gram = kernel.cross(points, points)
    assert np.all((gram >= 0.0) & (gram <= 1.0))
    np.testing.assert_array_equal(np.diag(gram), 1.0)


@every_radial_kernel
@pytest.mark.parametrize("inputs", [2, 50])
def test_points_far_from_the_origin_keep_their_digits_and_equal_ones_have_kernel_exactly_one(
    kernel: Kernel, inputs: int
) -> None:
    points, centers = 1e5 + draw(10, 5, inputs), 1e5 + draw(11, 4, inputs)
    np.testing.assert_allclose(kernel.cross(points, centers), formula(kernel, points, centers), rtol=1e-9)
    np.testing.assert_array_equal(np.diag(kernel.cross(points, points.copy())), 1.0)


@pytest.mark.skipif(not PAGES.exists(), reason="the system does not say how much memory a process has")
@pytest.mark.parametrize("lengths", [False, True])
@pytest.mark.parametrize("kernel", [Gaussian, Laplacian, Matern, StudentT])
def test_rows_of_many_inputs_leave_no_memory_behind(kernel: type[Gaussian], lengths: bool) -> None:
    points = draw(14, 500, NARROW + 8)
    held = kernel((2.0,) * points.shape[1] if lengths else 2.0)
    one = points.nbytes

    def pages() -> int:
        return int(PAGES.read_text().split()[1]) * mmap.PAGESIZE

    for _ in range(20):
        held.cross(points[:2], points)
    before = pages()
    for _ in range(400):
        held.cross(points[:2], points)
    assert pages() - before < 100 * one  # what a call works with is about one, and would be 400


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: Gaussian(bandwidth=0.0), "bandwidth = 0.0 must be positive"),
        (lambda: Gaussian(bandwidth=-1), "bandwidth = -1 must be positive"),
        (lambda: Gaussian(bandwidth=float("nan")), "bandwidth = nan must be positive"),
        (lambda: Laplacian(bandwidth=float("inf")), "bandwidth = inf must be positive"),
        (lambda: Matern(bandwidth=0), "bandwidth = 0 must be positive"),
        (lambda: Matern(smoothness=2.0), "smoothness = 2.0 must be 1.5 or 2.5"),
        (lambda: StudentT(degrees=0.0), "degrees = 0.0 must be positive"),
        (lambda: StudentT(degrees=float("inf")), "degrees = inf must be positive"),
        (lambda: Polynomial(degree=0), "degree = 0 must be an integer of at least 1"),
        (lambda: Polynomial(degree=True), "degree = True must be an integer"),
        (lambda: Polynomial(offset=-0.5), "offset = -0.5 must be a finite number >= 0"),
        (lambda: Polynomial(scale=0.0), "scale = 0.0 must be positive"),
        (lambda: Linear(offset=-1.0), "offset = -1.0 must be a finite number >= 0"),
    ],
)
def test_values_out_of_range_are_refused_by_field(make: object, field: str) -> None:
    assert callable(make)
    with pytest.raises(ValueError, match=f"^{field}"):
        make()


def test_a_student_t_kernel_comes_to_the_gaussian_one_and_begins_at_the_cauchy_one() -> None:
    points, centers = draw(0, 9, 3), draw(1, 6, 3)
    gaussian, nearly = (kernel.cross(points, centers) for kernel in (Gaussian(0.7), StudentT(0.7, 1e9)))
    np.testing.assert_allclose(nearly, gaussian, rtol=1e-6)
    squares = distance.cdist(points, centers, "sqeuclidean") / 0.7**2
    np.testing.assert_allclose(StudentT(0.7).cross(points, centers), 1.0 / (1.0 + squares), rtol=1e-12)


def test_equal_fields_make_equal_kernels() -> None:
    assert Gaussian(bandwidth=1) == Gaussian(bandwidth=np.float64(1.0))
    assert type(Gaussian(bandwidth=1).bandwidth) is float
