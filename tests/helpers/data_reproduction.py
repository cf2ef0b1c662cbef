"""A reproduction that needs data, for the tests of the command."""

from __future__ import annotations

from kernelswarm.simulations.reproductions.contract import Claim, Reproduction, Request

DATA = "coins.csv, published by the Royal Mint"


def reproduce(request: Request) -> Reproduction:
    """Someone 2020, figure 1: coins of a file."""
    assert request.data is not None
    return Reproduction([Claim("bytes", "", str(len(request.data.read_bytes())), "")])
