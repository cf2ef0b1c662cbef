"""Networks whose edges come and go, and networks in which not all ask, beside those that they are parts of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kernelswarm.simulations.reproductions.contract import Claim
from kernelswarm.simulations.reproductions.networks.problems import PROTOCOLS, Outcome, Problem, Run

PROBLEMS = tuple(
    Problem(stream, graph)
    for stream in ("sine", "patches")
    for graph in (
        "ring",
        "directed ring",
        "three asked",
        "exponential",
        "exponential, one distance a round",
        "complete",
        "complete, in pairs",
        "complete, mobile",
    )
)
"""Streams, each on every network of eight nodes."""

Compared = Mapping[tuple[Problem, str], Outcome]
"""By problem and protocol; isolated nodes are the same on all networks."""


def changing(problems: Sequence[Problem]) -> dict[tuple[Problem, str], Run]:
    """Return all problems under all protocols."""
    return {
        (problem, protocol): Run(f"{protocol}: {problem.words}", problem, PROTOCOLS[protocol])
        for place, problem in enumerate(problems)
        for protocol in PROTOCOLS
        if protocol != "isolated" or problem.stream not in {other.stream for other in problems[:place]}
    }


def rows(found: Compared) -> Iterator[Claim]:
    """Yield a row for each problem: the errors over those of isolated nodes, and what was sent."""
    alone = {problem.stream: one.error for (problem, protocol), one in found.items() if protocol == "isolated"}
    for problem in dict.fromkeys(problem for problem, _ in found):
        outcomes = {protocol: one for (other, protocol), one in found.items() if other == problem}
        sentences = [
            f"{protocol}: {one.error / alone[problem.stream]:.3f}"
            for protocol, one in outcomes.items()
            if protocol != "isolated"
        ]
        sent = outcomes["consensus"].bytes / 1e3
        yield Claim(
            f"error over that of isolated nodes, {problem.words}",
            "",
            "; ".join(sentences),
            f"8 nodes; consensus sends {sent:,.0f} kB",
        )
