"""A call in a child process of its own, with an end to its time and memory: also a crash or a hang is an outcome."""

from __future__ import annotations

import faulthandler
import os
import resource
import select
import shutil
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

CPU_SECONDS = 60
WALL_SECONDS = 300
MEMORY = 2 * 2**30
"""Bytes of addresses that a call may take beside those that the process has."""

FOUND = "not sound"


class Outcome(NamedTuple):
    """How a call ended: sound or not, and in which words."""

    sound: bool
    words: str


def outcome(call: Callable[[], str]) -> Outcome:
    """Make a call in a child, in an empty folder, and return what it says of itself.

    The call returns a word for a sound end and raises otherwise. A child that ends in any other way, by a signal or a
    limit, is not sound.
    """
    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        _live(call, folder, writing)
    os.close(writing)
    try:
        output = _read(reading)
        if output is None:
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    finally:
        os.close(reading)
        shutil.rmtree(folder, ignore_errors=True)
    if output is None:
        return Outcome(False, f"hung: no end after {WALL_SECONDS} s")
    if os.WIFSIGNALED(status):
        name = signal.Signals(os.WTERMSIG(status)).name
        return Outcome(
            False, f"hung: no end after {CPU_SECONDS} s of work" if name == "SIGXCPU" else f"ended by {name}"
        )
    sound, _, words = output.partition(":")
    return Outcome(sound == "sound", words or "ended without a word")


def _live(call: Callable[[], str], folder: Path, writing: int) -> None:
    """Be the child; never returns."""
    output = f"{FOUND}:"
    try:
        os.chdir(folder)
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(null, stream)
        faulthandler.disable()  # which writes where pytest had it write
        taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (taken + MEMORY, taken + MEMORY))
        spent = int(sum(os.times()[:2])) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (spent + CPU_SECONDS, spent + CPU_SECONDS + 5))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        output = f"sound:{call()}"
    except BaseException:  # noqa: BLE001  whatever comes is what is looked for
        output = f"{FOUND}:{traceback.format_exc()[-3000:]}"
    finally:
        try:
            os.write(writing, output.encode(errors="replace"))
        finally:
            os._exit(0)


def _read(reading: int) -> str | None:
    """Return all that the child says until it ends; None where it takes too long."""
    pieces = []
    while True:
        ready, _, _ = select.select([reading], [], [], WALL_SECONDS)
        if not ready:
            return None
        piece = os.read(reading, 65536)
        if not piece:
            return b"".join(pieces).decode(errors="replace")
        pieces.append(piece)
