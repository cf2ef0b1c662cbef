"""The samples that nodes learned from, drawn again when a run has ended."""

from __future__ import annotations

import copy
from typing import Any

from kernelswarm.simulations.streams.contract import HeldOut, NodeSource, Source

LATEST = 256
"""Samples that stand for a node's endless data: the latest, of data that may drift."""


class TrainingRows:
    """The samples that the nodes of a network learned from, drawn again from their sources.

    Parameters
    ----------
    source : Source
        The opened stream, from which no node has drawn yet.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        # Most sources count their samples; a million states of these would be kept for nothing.
        self._starts: dict[int, dict[str, Any]] = {}
        self._copies: dict[int, NodeSource] = {}
        for place, node in enumerate(source.nodes):
            if not (hasattr(node, "state") and hasattr(node, "restore")):
                self._copies[place] = copy.deepcopy(node)  # of the user's own, without checkpoints
            elif not _counts(state := node.state()) or state["samples"]:
                self._starts[place] = state

    def of(self, place: int, samples: int) -> HeldOut:
        """Return the different rows among the first ``samples`` of the node at a place, or what stands for them.

        Of finite data these are its rows, those of later epochs left out, and all of them for a node that has learned
        from none; of endless data the last ``LATEST``, or the first of a node that has had fewer. The source stands
        afterwards where it stood before.
        """
        node = self._source.nodes[place]
        count, start = LATEST, self._starts.get(place, {"samples": max(0, samples - LATEST)})
        if self._source.lengths is not None:
            distinct = self._source.lengths[place] // self._source.epochs
            count, start = min(samples, distinct) or distinct, self._starts.get(place, {"samples": 0})
        if place in self._copies:
            points, targets = copy.deepcopy(self._copies[place]).draw(count)
        else:
            present = node.state()
            node.restore(start)
            points, targets = node.draw(count)
            node.restore(present)
        return HeldOut(points, targets)


def _counts(state: dict[str, Any]) -> bool:
    """Whether a state is nothing but the number of samples that were drawn."""
    return list(state) == ["samples"] and type(state["samples"]) is int
