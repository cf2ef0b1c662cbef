"""Signals that are noted: which of them end what, and that none is lost."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from kernelswarm.simulations.core.errors import Interrupted
from kernelswarm.simulations.core.interruption import Terminated, noted, terminating, waiting

SIGINT, SIGTERM, SIGHUP = signal.SIGINT, signal.SIGTERM, signal.SIGHUP


@pytest.fixture(autouse=True)
def untouched() -> Iterator[None]:
    """Signals do in a new process what Python has them do; where Ray has run, what Ray does."""
    before: dict[signal.Signals, Any] = {
        SIGINT: signal.default_int_handler,
        SIGTERM: signal.SIG_DFL,
        SIGHUP: signal.SIG_DFL,
    }
    for number, handler in before.items():
        before[number] = signal.signal(number, handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def live(reached: list[object], *signals: signal.Signals, error: BaseException | None = None) -> None:
    """Live in a block in which signals come, which ends for them where it raises Interrupted."""
    with noted(True) as asked:
        for number in signals:
            signal.raise_signal(number)
            reached.append((asked.by, asked.cause))
        if isinstance(error, Interrupted):
            asked.by = None
        if error is not None:
            raise error


def restored() -> bool:
    return signal.getsignal(SIGINT) is signal.default_int_handler


def test_a_signal_that_nobody_has_ended_for_acts_when_the_block_is_left() -> None:
    reached: list[object] = []
    with pytest.raises(KeyboardInterrupt):
        live(reached, SIGINT)
    for number in (SIGTERM, SIGHUP):
        with terminating(), pytest.raises(Terminated) as stop:
            live(reached, number)
        assert stop.value.number == number
    assert reached == [(SIGINT, "Ctrl-C"), (SIGTERM, "SIGTERM"), (SIGHUP, "SIGHUP")] and restored()


def test_a_signal_before_an_error_that_is_recovered_from_acts_too() -> None:
    lost = ConnectionError("actors are lost")
    with pytest.raises(KeyboardInterrupt) as stop:
        live([], SIGINT, error=lost)
    assert stop.value.__context__ is lost and restored()


def test_a_signal_that_was_ended_for_acts_once() -> None:
    with pytest.raises(Interrupted) as stop:
        live([], SIGINT, error=Interrupted("stopped", SIGINT, 3))
    assert stop.value.__context__ is None and restored()


def test_a_second_ctrl_c_interrupts_at_once_and_once() -> None:
    reached: list[object] = []
    with pytest.raises(KeyboardInterrupt) as stop:
        live(reached, SIGINT, SIGINT)
    assert len(reached) == 1 and stop.value.__context__ is None and restored()


def test_signals_are_left_alone_where_that_is_wanted_or_they_are_ignored() -> None:
    with noted(False) as asked:
        assert restored() and asked.by is None
    signal.signal(SIGINT, signal.SIG_IGN)
    try:
        reached: list[object] = []
        live(reached, SIGINT)
    finally:
        signal.signal(SIGINT, signal.default_int_handler)
    assert reached == [(None, "a signal")]


def hang_up_early(reached: list[str]) -> None:
    with waiting({SIGHUP}):
        signal.raise_signal(SIGHUP)
        child = "import signal; print(signal.SIGHUP in signal.pthread_sigmask(signal.SIG_BLOCK, []))"
        reached.append(subprocess.run([sys.executable, "-c", child], capture_output=True, text=True).stdout)
    reached.append("too late")


def test_signals_wait_in_here_and_come_afterwards() -> None:
    reached: list[str] = []
    with terminating(), pytest.raises(Terminated):
        hang_up_early(reached)
    assert reached == ["True\n"]
