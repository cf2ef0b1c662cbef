"""Suggestions for an experiment's numbers, tried in short runs on its data and network."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelswarm.simulations.comparison.candidates import ALIKE, Range, candidates, halve, ranges, refine
from kernelswarm.simulations.comparison.pilots import Search, Trial, refuse_untried
from kernelswarm.simulations.core.errors import InputError, SimulationError, toml
from kernelswarm.simulations.core.notebook import watched
from kernelswarm.simulations.core.parallel import cores
from kernelswarm.simulations.core.toml_tables import parse
from kernelswarm.simulations.experiment.changes import assigned, changed, rewritten
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.experiment.judging import Judgement
from kernelswarm.simulations.experiment.variation import read_compare
from kernelswarm.simulations.running.network import open_network


@dataclass(frozen=True, repr=False)
class Suggestion:
    """The trials of a suggestion, and its choice.

    Attributes
    ----------
    ranges : tuple of Range
        The keys that were tried.
    trials : tuple of Trial
        The best first, of the longest pilots first; the experiment as it is among them.
    chosen : Trial
        The one that is taken.
    reason : str
        Why, in a sentence.
    judgement : Judgement
        The best candidate against the experiment as it is, with seeds that took no part in the choice.
    pooled : bool
        Whether the pooled risk was compared.
    node_rounds : int
        Rounds of all pilots, times nodes.
    """

    ranges: tuple[Range, ...]
    trials: tuple[Trial, ...]
    chosen: Trial
    reason: str
    judgement: Judgement
    pooled: bool
    node_rounds: int

    def __repr__(self) -> str:
        """Return the choice and its reasons in a few lines; all trials would fill pages."""
        name = f"Suggestion({len(self.trials)} candidates, {self.node_rounds:,} node-rounds)"
        values = [f"{key} = {toml(value)}" for key, value in self.chosen.values.items()]
        return "\n  ".join([name, self.reason, *values])


def suggest(
    table: Mapping[str, Any],
    folder: Path | None = None,
    *,
    everything: bool = False,
    pooled: bool = False,
    rounds: int | None = None,
    jobs: int | None = None,
    watch: Callable[[int, int, float], None] | None = None,
) -> Suggestion:
    """Try values for the keys that an experiment leaves open, and choose.

    Candidates are tried by successive halving in pilots: runs of the experiment on its own network for fewer rounds. A
    pilot learns from four fifths of the samples that nodes learn from, and is measured on the others, so that the test
    data of the experiment take no part. The best candidate's neighbours are tried for the full length. The candidate
    with the least risk is the best; of those within 1% of it the one with the smallest model. The experiment as it is
    stays among the candidates to the end. Both are run with four other seeds, and the best one is taken where it risks
    less by more than one standard error of the paired differences.

    Parameters
    ----------
    table : mapping
        What the experiment file says.
    folder : Path, optional
        Where relative paths in it start.
    everything : bool
        Whether keys that the table gives as numbers are tried too.
    pooled : bool
        Whether to compare the risk on the samples of all nodes together, and not on each node's own.
    rounds : int, optional
        Rounds of the longest pilots; by default the experiment's, or as many as read about 30 million numbers.
    jobs : int, optional
        Processes at a time; the number of cores when left out. A script that uses several calls this function under
        ``if __name__ == "__main__":``, because each process reads the script again.
    watch : callable, optional
        Called with the rounds of the pilots, the candidates, and the share done; left out, a notebook shows a bar.

    Raises
    ------
    InputError
        The experiment is refused, leaves nothing open, or has too little data.
    SimulationError
        Every pilot failed.
    """
    if isinstance(table, Experiment):
        raise InputError(
            "suggest takes the table that an experiment file holds, not an Experiment, which has a value for every "
            "key and no longer tells which were left open: give the dict that it was made of, or tomllib.load(file)"
        )
    experiment = Experiment.from_dict(table, folder)
    network = open_network(experiment)
    refuse_untried(experiment, network)
    found = ranges(experiment, table, everything)
    if not found:
        raise InputError(
            "the experiment leaves no number open that suggest could try (bandwidth, step_size, budget, penalty, scale "
            "of gamma): --all tries those too that it gives"
        )

    def build(changes: Mapping[str, Any]) -> Experiment | str:
        return _experiment(table, changes, folder)

    with watched(watch, "suggestion_bar") as observer:
        search = Search(build, network, candidates(found), pooled, rounds, jobs or cores(), observer)
        finals = refine(halve(len(search.values), search.longest, search.scores), found, search)
        trials, best = search.trials, _chosen(finals, search)
        if math.isinf(search.score(best)):
            raise SimulationError(f"every pilot failed, the experiment as it is with: {trials[0].figures.failure}")
        judgement = search.judged(best)
    chosen = best if judgement.holds else 0
    order = sorted(trials, key=lambda place: (-trials[place].rounds, search.score(place), place))
    return Suggestion(
        tuple(found),
        tuple(trials[place] for place in order),
        trials[chosen],
        _reason(best, finals, search, judgement),
        judgement,
        pooled,
        search.node_rounds,
    )


def _experiment(table: Mapping[str, Any], changes: Mapping[str, Any], folder: Path | None) -> Experiment | str:
    """Return the experiment with some changes, or why it is refused."""
    for key, value in changes.items():
        table = changed(table, key, value, explicit=True)
    try:
        return Experiment.from_dict(table, folder)
    except InputError as error:
        if not changes:
            raise
        return str(error)


def _chosen(finals: Mapping[int, float], search: Search) -> int:
    """Return the smallest model among candidates of nearly the least risk, no larger than the experiment's as it is."""
    least = min(finals.values())
    limit = min(least + ALIKE * abs(least), finals[0])
    alike = [place for place, risk in finals.items() if risk <= limit]
    return min(alike, key=lambda place: (search.trials[place].figures.model_order, finals[place], place))


def _reason(best: int, finals: Mapping[int, float], search: Search, judgement: Judgement) -> str:
    before, risk = finals[0], finals[best]
    least = min(finals, key=lambda place: finals[place])
    if not best:
        which = "risks less" if least == 0 else f"has a smaller model, and smaller risks differ by {ALIKE:.0%} at most"
        return f"the experiment as it is: no candidate {which}; {judgement.sentence}"
    if not judgement.holds:
        return (
            f"the experiment as it is: the best candidate risked {risk:.4g} against {before:.4g}, which is no more "
            f"than luck: {judgement.sentence}"
        )
    what = "the least risk" if best == least else f"the smallest model of those within {ALIKE:.0%} of the least risk"
    against = "which fails" if math.isinf(before) else f"which risks {before:.4g}"
    worse = f"; {judgement.worse}" if judgement.worse else ""
    return f"{what}, {risk:.4g}, against the experiment as it is, {against}; {judgement.sentence}{worse}"


# A suggestion for an experiment file, and how it gets into it.


def suggest_for(
    path: Path,
    changes: Sequence[str] = (),
    *,
    everything: bool = False,
    pooled: bool = False,
    rounds: int | None = None,
    jobs: int | None = None,
    watch: Callable[[int, int, float], None] | None = None,
) -> Suggestion:
    """Return the result of :func:`~kernelswarm.simulations.comparison.suggest.suggest` for an experiment file.

    Parameters
    ----------
    path : Path
        The file.
    changes : sequence of str
        Such as "learner.step_size=1", applied before the pilots; a key with a number is not tried. They do not change
        the file.
    everything, pooled, rounds, jobs, watch
        As of that function.

    Raises
    ------
    InputError
        The file is refused, as by a run, or leaves no key open.
    SimulationError
        Every pilot failed.
    """
    experiment = Experiment.from_file(path, changes)  # whose refusals name the file
    read_compare(path).combinations(experiment.to_dict())
    table = assigned(parse(path.read_bytes().decode()), changes)
    return suggest(
        table, experiment.folder, everything=everything, pooled=pooled, rounds=rounds, jobs=jobs, watch=watch
    )


def write(path: Path, suggestion: Suggestion) -> str:
    """Write the chosen values into the file, whole or not at all, and return a text about it.

    Raises
    ------
    InputError
        The file cannot be written, or has a key in a form that cannot be changed.
    """
    changes = suggestion.chosen.values
    if not changes:
        return f"{path} stays as it is"
    place = path.resolve()  # a link stays one
    text = rewritten(place.read_bytes().decode(), changes)
    partial = place.with_name(f".{place.name}.part")
    try:
        partial.write_bytes(text.encode())
        partial.chmod(place.stat().st_mode)
        partial.replace(place)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise InputError(f"{path} cannot be written: {error.strerror}") from error
    return f"{path} holds them now; next: kernelswarm run {path}"
