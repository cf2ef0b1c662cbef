"""How rivals are judged: each verdict turns with the numbers, and is "no" where the draws do not tell."""

import numpy as np
import pytest

from kernelswarm.simulations.reproductions import okfeb_manifold, okfeb_regression, polk_multidist, survey_figure2
from kernelswarm.simulations.reproductions.contract import beyond, errs_more
from kernelswarm.simulations.reproductions.sheets import rows
from kernelswarm.simulations.reproductions.walks import Course


@pytest.mark.parametrize(
    ("errors", "others", "more"),
    [
        ([0.30, 0.31, 0.29], [0.10, 0.11, 0.09], True),
        ([0.30, 0.11, 0.12], [0.10, 0.12, 0.11], False),  # more in the mean, by one draw of three
        ([0.10, 0.11, 0.09], [0.30, 0.31, 0.29], False),
        ([0.1, 0.9, 0.5], [0.09, 0.88, 0.485], True),  # draws differ far more than the methods do
        ([0.3, 0.3], [0.1, 0.1], None),
    ],
)
def test_a_rival_errs_more_where_the_draws_say_so(errors, others, more):
    assert errs_more(errors, others) is more


def test_a_difference_is_written_with_its_standard_error():
    assert beyond([0.3, 0.5], [0.1, 0.1]) == "a difference of 0.3 ± 0.1"
    assert beyond([0.3], [0.1]) == "a difference of 0.2"


def constant(error, order):
    """A course that errs as much at every look."""
    looks = np.ones(3)
    return Course(np.array([1.0, 1000.0, 5000.0]), error * looks, error * looks, order * looks)


NOISE = np.array([0.0, 0.004, -0.004, 0.002, -0.002])
BAYES = 0.3 + np.arange(5) / 20.0


def multidist(polk, finer, rival):
    """The verdicts of one radius, by quantity, of errors beyond LIBSVM's: POLK's, with the finer budget, BSGD's."""
    settings = rows("polk-multidist")
    group = polk_multidist.Radius(1.0, "r", list(BAYES), list(BAYES), [9.0] * 5)
    for place, setting in enumerate(settings):
        errors = rival if setting.rival else (polk, finer, polk, polk)[place]
        group.courses[setting.label] = [constant(error, 16.0) for error in BAYES + errors]
    fit = polk_multidist.BatchFit(0.3, 0.1, 5.0)
    group.batches = {name: [fit._replace(error=error) for error in BAYES + polk] for name in polk_multidist.BATCHES}
    return {claim.quantity: claim for claim in polk_multidist._errors(polk_multidist.SHEET, group, settings)}


def test_polk_is_near_libsvm_and_its_rivals_and_a_larger_constant_err_more_where_the_draws_say_so():
    ours, finer = "test error, POLK, hinge loss, K = 0.04, r", "test error, hinge loss, the smaller K, r"
    rival, batch = "test error, BSGD, hinge loss, merging, r", "test error, L-BFGS, hinge loss, r"
    for polk, fine, bsgd, verdicts in (
        (NOISE, NOISE - 0.01, NOISE + 0.02, (True, True, True, True)),
        (NOISE + 0.02, NOISE, NOISE, (False, True, False, False)),
        (NOISE, NOISE[::-1] - 0.0005, NOISE[::-1] + 0.0005, (True, False, False, True)),  # less, and more, by chance
    ):
        rows = multidist(polk, fine, bsgd)
        assert tuple(rows[name].holds for name in (ours, finer, rival, batch)) == verdicts
    assert rows[ours].published.startswith("about that of LIBSVM")  # what is judged, beside a number that is not


@pytest.mark.parametrize(("early", "holds"), [(0.03, True), (0.051, False)])
def test_an_error_below_four_percent_is_below_four_percent(early, holds):
    samples, errors = np.array([survey_figure2.EARLY, 2000.0, 5000.0]), np.array([early, 0.02, 0.02])
    course = Course(samples, errors, errors, np.full(3, 16.0))
    found = dict.fromkeys(("POLK, K = 0.04", "POLK, K = 0.0001", "BSGD, η = 1"), [course] * 3)
    bayes = [early - 0.001] * 3
    claims = survey_figure2._claims(survey_figure2.SHEET.given(draws=bayes), found, bayes)
    rows = {claim.quantity: claim for claim in claims}
    assert rows["error after 1,249 samples"].holds is holds  # however near the Bayes error that is
    assert rows["error after 1,249 samples beyond the Bayes error"].holds is None


def fits(**levels):
    """Fits of five draws, by name, of means before, at and after the change."""
    generator = np.random.default_rng(0)
    names = [f"B = {times}r, {label}" for times in (2, 5) for label in okfeb_manifold.RECENCIES] + ["batch"]
    found = {}
    for name in names:
        before, change, after = levels.get(name.split(", ")[-1], (0.2, 0.2, 0.2))
        lines = [np.full(2 * okfeb_manifold.HALF, after) for _ in range(5)]
        for line in lines:
            line[okfeb_manifold.PHASES["before"]], line[okfeb_manifold.PHASES["change"]] = before, change
            line += 0.01 * generator.normal()
        found[name] = lines
    return found


def test_a_fit_is_better_where_the_draws_say_so():
    def verdicts(**levels):
        rows = okfeb_manifold.claims(fits(**levels), {}, [])
        return {claim.quantity: claim.holds for claim in rows if claim.holds is not None}

    best = {"β = 1": (0.1, 0.5, 0.1), "β = 0.9": (0.2, 0.3, 0.2), "FIFO": (0.3, 0.3, 0.3), "batch": (0.2, 0.2, 0.2)}
    assert len(verdicts(**best)) == 10
    assert [name for name, holds in verdicts(**best).items() if not holds] == [
        "OK-FEB against batch after the change, B = 2r"  # half of it is not similar
    ]
    level = verdicts()  # all alike but for the draws
    assert [name for name, holds in level.items() if holds] == ["OK-FEB against batch after the change, B = 2r"]
    worst = {"β = 1": (0.5, 0.1, 0.5), "β = 0.9": (0.2, 0.3, 0.2), "FIFO": (0.1, 0.1, 0.1), "batch": (0.1, 0.1, 0.1)}
    assert not any(verdicts(**worst).values())


def test_a_matrix_is_nearer_where_the_draws_say_so():
    draws = np.array([[0.10, 0.14, 0.12, 0.13]])
    for step, holds in ((0.02, True), (0.0, False), (-0.02, False)):
        matrices = {
            "OK-FEB, parametric": draws,
            "KPCA": draws[:, ::-1] + step * 0.001,
            "Nystroem, uniform": draws + step,
        }
        rows = [row for row in okfeb_manifold.claims(fits(), matrices, [5]) if row.quantity.startswith("mismatch")]
        assert [row.holds for row in rows] == [False, holds]  # KPCA differs by chance alone


def test_progressive_errors_are_compared_over_parts_of_the_stream():
    generator = np.random.default_rng(1)
    noise = generator.exponential(1.0, 2000)
    methods = {name: okfeb_regression.METHODS[name] for name in ("OK-FEB", "BPA")}
    for others, holds in (
        (noise * 1.2, True),
        (generator.permutation(noise) * 1.001, False),
        (noise * 0.8, False),
        (noise + np.inf, True),  # it diverged
    ):
        learning_curves = {
            name: okfeb_regression.TunedCurve(errors, 1.0, "", 5)
            for name, errors in (("OK-FEB", noise), ("BPA", others))
        }
        rows = okfeb_regression.claims("data", methods, 8, learning_curves)
        assert [row.holds for row in rows] == [None, None, holds, holds]
