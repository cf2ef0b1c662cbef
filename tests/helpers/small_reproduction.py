"""A reproduction that takes no time, for the tests of the command."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from kernelswarm.simulations.reproductions.contract import Claim, Reproduction, Request

REQUESTS: list[Request] = []


def reproduce(request: Request) -> Reproduction:
    """Someone 2020, table 1: a coin falls on either side.

    More words about it.
    """
    REQUESTS.append(request)
    heads = np.random.default_rng(request.seed).integers(2, size=10 if request.quick else 1000)
    request.tell("throwing", 0.5)
    figure = Figure()
    figure.subplots().plot(np.cumsum(heads))
    claims = [
        Claim("share of heads", "about 0.5 (table 1)", f"{heads.mean():.3f}", "one | coin, [bold]", True),
        Claim("share on its edge", "0.1", "0", "one coin", False),
        Claim("colour", "", "brown", "one coin"),
    ]
    return Reproduction(claims, ["The coin_was not\n published."], {"throws": figure}, {"heads": heads.astype(float)})


def diverge(request: Request) -> Reproduction:
    """Someone 2020, table 2: a failure."""
    from kernelswarm.simulations.core.errors import SimulationError

    raise SimulationError("the coin rolled away")


def exit(request: Request) -> Reproduction:
    """Someone 2020, table 3: a process that dies."""
    import os

    os._exit(3)


def take_long(request: Request) -> Reproduction:
    """Someone 2020, table 4: it takes until somebody ends it."""
    import threading

    threading.Event().wait()
    raise AssertionError
