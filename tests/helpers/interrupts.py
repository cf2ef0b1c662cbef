"""Ctrl-C for processes that tests start."""

import signal


def listen() -> None:
    """Let SIGINT interrupt the process about to start, as on a terminal; what runs in the background ignores it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
