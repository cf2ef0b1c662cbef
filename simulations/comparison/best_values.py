"""The best values of an experiment's tuned keys, found on other seeds than the measured ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from kernelswarm.simulations.comparison.candidates import bracket, candidates, edges, halve
from kernelswarm.simulations.comparison.ranges import own_ranges
from kernelswarm.simulations.comparison.trials import APART, Search, refuse_untried
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.experiment.judging import Tuned
from kernelswarm.simulations.experiment.variation import PILOT_SEEDS
from kernelswarm.simulations.running.network import open_network

CANDIDATES = 12
"""Spread over the ranges, beside the experiment as it is, however many keys there are."""

MEASURED = 20_000
"""Samples of a pilot that are measured on: in strong noise fewer do not tell penalties apart."""

POLLED = 24
"""Candidates, at most, that are tried around the best one to have worse ones on all sides of it."""


def tuned(
    experiment: Experiment,
    pooled: bool = False,
    watch: Callable[[float], None] | None = None,
    pilot_seeds: int = PILOT_SEEDS,
) -> Tuned:
    """Search the keys of :func:`~kernelswarm.simulations.comparison.ranges.own_ranges`, in this process.

    Successive halving of as many candidates for every experiment, then a pattern search around the best one, see
    :func:`~kernelswarm.simulations.comparison.candidates.bracket`. Pilots are those of
    :func:`~kernelswarm.simulations.comparison.suggest.suggest`, with seeds of their own. The candidate with the least
    risk and the experiment as it is are run with four further seeds. It is taken where it risks less by more than one
    standard error of the paired differences.

    Parameters
    ----------
    experiment : Experiment
        As it is; its values are one candidate.
    pooled : bool
        Whether the risk on the samples of all nodes together is compared, and not that on each node's own.
    watch : callable, optional
        Called with about the share that is done.
    pilot_seeds : int
        With how many seeds each candidate is tried; its risks are averaged.

    Raises
    ------
    InputError
        The experiment is refused, has too little data, or is of a Markov chain, whose values are not in the data.
    """
    report = watch or (lambda share: None)
    seeds = tuple(range(experiment.seed + APART, experiment.seed + APART + pilot_seeds))
    first = replace(experiment, seed=seeds[0])
    found = own_ranges(first)
    if not found:
        return Tuned()
    network = open_network(first)
    refuse_untried(first, network)

    def build(changes: Mapping[str, Any]) -> Experiment | str:
        try:
            return first.with_changes(changes)
        except InputError as error:
            return str(error)

    def tell(rounds: int, count: int, share: float) -> None:
        report(min(1.0, len(search.trials) / (CANDIDATES + 1 + POLLED)))

    search = Search(build, network, candidates(found, CANDIDATES), pooled, None, 1, tell, seeds, MEASURED)
    finals = bracket(halve(len(search.values), search.longest, search.scores), found, search, POLLED)
    best = min(finals, key=lambda place: finals[place])
    keys = tuple(entry.key for entry in found)
    judgement = search.judged(best)
    taken = best if judgement.holds else 0
    sides = edges(taken, finals, found, search)
    return Tuned(search.trials[taken].values, keys, search.pilots, seeds, sides, judgement)
