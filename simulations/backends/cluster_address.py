"""Whether a Ray cluster answers at an address, and encrypted or not, before Ray waits for it for minutes."""

import os
import socket
from contextlib import suppress

from kernelswarm.simulations.core.errors import InputError

SECONDS = 5.0
"""Seconds for an answer of the address."""

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04" + b"\x00" * 5
"""The begin of a gRPC connection, its settings: a server without TLS answers with its own, one with TLS hangs up."""


def require_cluster(address: str) -> None:
    """Refuse an address where nothing listens, or where TLS is wanted and not offered, or the other way round.

    Parameters
    ----------
    address : str
        "host:port".

    Raises
    ------
    InputError
        One side has TLS and the other has not.
    OSError, ValueError
        Nothing listens there, or it is no address.
    """
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=SECONDS) as connection:
        answer = None
        with suppress(TimeoutError):
            answer = _answer(connection)
    encrypts = os.environ.get("RAY_USE_TLS", "0").lower() in ("1", "true")
    if answer == b"" and not encrypts:
        raise InputError(
            f"backend.address = {address!r}: the Ray cluster there wants TLS: set RAY_USE_TLS=1, RAY_TLS_SERVER_CERT, "
            "RAY_TLS_SERVER_KEY and RAY_TLS_CA_CERT here too, as docs/cluster.md says"
        )
    if answer and encrypts:
        raise InputError(
            f"backend.address = {address!r}: the Ray cluster there has no TLS, and RAY_USE_TLS = "
            f"{os.environ['RAY_USE_TLS']!r} asks for it: start the cluster with the same, or unset RAY_USE_TLS"
        )


def _answer(connection: socket.socket) -> bytes:
    """Return the first bytes that a server says; none where it hangs up."""
    try:
        connection.sendall(PREFACE)
        return connection.recv(9)
    except (BrokenPipeError, ConnectionResetError):
        return b""
