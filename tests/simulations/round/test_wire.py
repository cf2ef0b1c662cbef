"""What crosses to another process arrives bit for bit, and nothing else does."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kernelswarm.agents.node.node import Outgoing
from kernelswarm.simulations.round.wire import Reader, pack

INPUTS, OUTPUTS = 3, 2


@st.composite
def messages(draw):
    """Make messages of some senders, each with the places of the neighbours for which it is meant."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    symmetric, constrained, answered = draw(st.booleans()), draw(st.booleans()), draw(st.booleans())
    found = []
    for sender in draw(st.lists(st.integers(0, 2**40), min_size=1, max_size=4, unique=True)):
        degree = draw(st.integers(1, 5))
        lengths = [draw(st.integers(0, 3)) for _ in range(degree + 1)]
        outgoing = Outgoing(
            random.standard_normal((draw(st.integers(0, 3)), INPUTS)),
            random.standard_normal((lengths[degree], OUTPUTS)) if symmetric and answered else None,
            [random.standard_normal((length, OUTPUTS)) for length in lengths[:degree]] if answered else [],
            random.standard_normal(degree) if constrained else None,
        )
        places = draw(st.lists(st.integers(0, degree - 1), min_size=1, unique=True).map(sorted))
        found.append((sender, outgoing, places))
    return found


@given(messages(), st.data())
def test_what_is_wanted_arrives_bit_for_bit(sent, data):
    wanted = {
        sender: data.draw(st.sets(st.sampled_from(places), min_size=1))
        for sender, _, places in sent
        if data.draw(st.booleans())
    }
    reader = Reader(INPUTS, OUTPUTS, wanted)
    for _ in range(2):  # the second time from what the first has learned of the layout
        found = reader.read(pack(sent))
        assert found.keys() == wanted.keys()
        for sender, message, _ in sent:
            if sender not in wanted:
                continue
            received = found[sender]
            assert np.array_equal(received.points, message.points)
            assert not received.points.flags.writeable
            assert (received.own is None) == (message.own is None)
            assert message.own is None or np.array_equal(received.own, message.own)
            assert (received.duals is None) == (message.duals is None)
            for place in wanted[sender]:
                if message.answers:
                    assert np.array_equal(received.answers[place], message.answers[place])
                    assert not received.answers[place].flags.writeable
                if message.duals is not None:
                    assert received.duals[place] == message.duals[place]
            asked = {place for place, answer in enumerate(received.answers) if answer is not None}
            assert asked == (wanted[sender] if message.answers else set())


def test_nothing_travels_as_no_bytes():
    assert pack([]) == b""
    assert Reader(INPUTS, OUTPUTS, {0: {0}}).read(b"") == {}


def test_values_of_a_users_learner_arrive_as_float64_whatever_their_layout():
    values = np.arange(12, dtype=np.float32).reshape(OUTPUTS, 6).T[::2]
    message = Outgoing(np.asfortranarray(np.arange(6.0).reshape(2, INPUTS)), None, [values], None)
    received = Reader(INPUTS, OUTPUTS, {4: {0}}).read(pack([(4, message, (0,))]))[4]
    assert np.array_equal(received.points, message.points)
    assert np.array_equal(received.answers[0], values)
    assert received.answers[0].dtype == np.float64
