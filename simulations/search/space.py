"""The space of a search: a range or a list of values for each of its keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.core.messages import shown
from kernelswarm.simulations.experiment.draws import RandomValues, is_drawn, parse_draws
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.experiment.variation import Cell, cells

Proposal = Mapping[str, float | int]
"""For each key a number in its range, or the place of a value in its list."""


@dataclass(frozen=True)
class Space:
    """The keys of a search.

    Parameters
    ----------
    ranges : dict of str to RandomValues
        Keys whose values are numbers in a range.
    lists : dict of str to list
        Keys whose values are listed.
    """

    ranges: Mapping[str, RandomValues]
    lists: Mapping[str, Sequence[Any]]

    @property
    def keys(self) -> tuple[str, ...]:
        """All keys."""
        return (*self.ranges, *self.lists)

    def cell(self, experiment: Experiment, proposal: Proposal) -> Cell:
        """Return the experiment with the proposed values; a key that a part does not have is left out."""
        tried: dict[str, Any] = {key: [ends.rounded(proposal[key])] for key, ends in self.ranges.items()}
        tried |= {key: [values[int(proposal[key])]] for key, values in self.lists.items()}
        (cell,) = cells(experiment.to_dict(), tried, lacking=True)
        return cell


def space(experiment: Experiment, vary: Mapping[str, Any]) -> Space:
    """Return the space of a search, checked on the experiment before anything is run.

    Parameters
    ----------
    experiment : Experiment
        The common experiment of all trials.
    vary : mapping of str to str or list
        For each key a range, ``"log:0.01:1"``, ``"uniform:0:1"`` or ``"integer:1:9"``, or a list of values.

    Raises
    ------
    InputError
        There is no key, a range is wrong, or no part has a key.
    """
    if not vary:
        raise InputError("there is nothing to search: give a key and its range, --vary learner.step_size=log:0.01:1")
    ranges = {key: parse_draws(key, text, counted=False) for key, text in vary.items() if is_drawn(text)}
    lists = {key: values for key, values in vary.items() if key not in ranges}
    for key, values in lists.items():
        for value in values:
            if is_drawn(value):
                raise InputError(f"vary {key}: {shown(value)} must stand alone, not in a list")
    lowest = {key: [ends.rounded(ends.low)] for key, ends in ranges.items()}
    refusals = []
    found = cells(experiment.to_dict(), {**lowest, **lists})
    for cell in found:
        try:
            experiment.other(cell.config)
        except InputError as error:
            refusals.append(error)
    if len(refusals) == len(found):
        raise refusals[0]
    return Space(ranges, lists)
