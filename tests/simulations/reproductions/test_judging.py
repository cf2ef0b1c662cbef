"""How rivals are judged."""

import pytest

from kernelswarm.simulations.reproductions.contract import errs_more


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
