"""What reproductions share: learners on their way, figures as data, and progress by parts."""

from __future__ import annotations

import numpy as np
import pytest

from kernelswarm.agents.learners.polk import Polk
from kernelswarm.agents.parts.budgets import Epsilon
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.agents.parts.losses import MulticlassLogistic
from kernelswarm.agents.parts.schedules import Constant
from kernelswarm.simulations.reproductions.contract import Request
from kernelswarm.simulations.reproductions.sheets import Sheet, combined, drawn
from kernelswarm.simulations.reproductions.walks import Course, course, followed, single_steps

LEARNER = Polk(MulticlassLogistic(), Gaussian(0.5), Constant(0.5), 1e-3, 4, Epsilon(0.01))


def samples(count: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    points = generator.normal(size=(count, 2))
    return points, (points[:, :1] > 0.0) + (points[:, 1:] > 0.0).astype(np.float64)


def test_a_course_in_another_order_is_that_of_the_samples_so_ordered():
    (points, labels), test = samples(40), samples(25)
    order = np.random.default_rng(1).permutation(40)
    ordered = course(LEARNER, (points[order], labels[order]), test, [8, 40], 3)
    for rows in (7, 1000):  # tests in parts are the same tests
        found = course(LEARNER, (points, labels), test, [8, 40], 3, rows=rows, order=order)
        for mine, other in zip(found, ordered, strict=True):
            np.testing.assert_allclose(mine, other, rtol=1e-12)
    assert ordered.samples.tolist() == [8.0, 40.0] and ordered.losses[1] < ordered.losses[0]


@pytest.mark.parametrize(("count", "same"), [(40, True), (38, False)])
def test_single_steps_differ_from_a_pass_in_the_weight_of_a_smaller_last_batch(count, same):
    training = samples(count)
    ((_, one, _),), ((_, other, _),) = (
        list(followed(LEARNER, *training, [count], 3, *steps)) for steps in ((), (single_steps,))
    )
    assert np.array_equal(one.values(training[0]), other.values(training[0])) is same


def test_the_last_twentieth_of_the_samples_is_averaged():
    found = Course(np.array([90.0, 95.0, 96.0, 100.0]), np.zeros(4), np.array([9.0, 9.0, 1.0, 2.0]), np.zeros(4))
    assert found.last("errors") == 1.5


def test_a_figure_is_what_its_panels_say():
    curves = [
        {"x": [1, 10], "y": "line", "color": "vermillion", "label": "{name}", "dash": "--"},
        {"y": 2.5, "color": "black", "label": "level"},
        {"x": 4},
    ]
    said = Sheet("", {"line": np.array([[1.0, 3.0], [3.0, 3.0]]), "name": "line", "words": ["none", "much"]})
    said = said.given(panels={"more": {}}, lines={"more": {"y": [1.0, 2.0]}})
    first = {"curves": curves, "title": "t", "x": "x", "y": "y", "log": "x", "ticks": [1, 10]}
    other = {"each": "panels", "curves": [{"each": "lines", "x": [0, 1], "label": "{panel}"}]}
    other |= {"words": "words", "axes": {"ylim": [0.0, 5.0]}}
    for of_all, labels in ((False, ["line", "level"]), (True, ["line", "level", "more"])):
        figure = drawn(said, [first, other], (2.0, 1.5, 0.5), below=2, of_all=of_all)
        assert tuple(figure.get_size_inches()) == (4.0, 2.0)
        assert [text.get_text() for text in figure.legends[0].get_texts()] == labels
    left, right = figure.axes
    assert (left.get_title(), left.get_xlabel(), left.get_ylabel()) == ("t", "x", "y")
    assert (left.get_xscale(), left.get_yscale(), right.get_ylim()) == ("log", "linear", (0.0, 5.0))
    assert [text.get_text() for text in left.get_xticklabels()] == ["1", "10"]
    assert [text.get_text() for text in right.get_xticklabels()] == ["none", "much"]
    drawn_line, across, upright = left.lines
    assert drawn_line.get_linestyle() == "--" and np.all(np.equal(across.get_ydata(), 2.5))
    assert np.all(np.equal(upright.get_xdata(), 4))
    np.testing.assert_array_equal(drawn_line.get_ydata(), [2.0, 3.0])  # means over the draws
    assert len(drawn(said, [other] * 3, (4.0, 4.0), columns=2).axes) == 3


def test_a_grid_has_every_combination_of_its_axes():
    keys = {"penalty": "protocol.penalty", "links": {"late": {"links.delay": 3, "links.max_age": 9}, "ideal": {}}}
    axes = {"links": ["ideal", "late"], "penalty": [1.0, 2.0]}
    found = combined("{links}, {penalty:g}", axes, {**keys, "other": {}}, {"protocol": {"name": "consensus"}})
    assert list(found) == ["ideal, 1", "ideal, 2", "late, 1", "late, 2"]
    assert found["ideal, 2"] == {"protocol": {"name": "consensus", "penalty": 2.0}}
    assert found["late, 1"]["links"] == {"delay": 3, "max_age": 9}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{one:.1f}; {one:g| / }; {one:max g} of {one:len }", "1.0, 2.0; 1 / 2; 2 of 2"),
        ("{one:.1f±.2g}; {draws:g} at {draws:min g}; {by:.2f}", "1.5 ± 0.71; 2, 4 at 1; x 0.50"),
    ],
)
def test_a_text_is_filled_with_numbers_with_draws_by_their_means(text: str, words: str) -> None:
    values = {"one": [1.0, 2.0], "draws": np.array([[1.0, 2.0], [3.0, 6.0]]), "by": {"x": 0.5}}
    assert Sheet("", values).filled(text) == words


def test_shares_of_parts_lie_in_the_whole():
    said: list[tuple[str, float]] = []
    request = Request(tell=lambda what, share: said.append((what, share)))
    assert list(request.part(0.5, 1.0).part(0.0, 0.5).each([7, 8], "number {}".format)) == [7, 8]
    assert list(request.draws(1)) == [0]
    assert said == [("number 7", 0.5), ("number 8", 0.625), ("draw 1 of 1", 0.0)]
