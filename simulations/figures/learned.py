"""The learned functions of a network, rebuilt from a result, and the true functions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelswarm.agents.functions.contract import Function, dictionary
from kernelswarm.agents.learners.certainty import Posterior, target_variance
from kernelswarm.agents.nodes.conformal_band import ConstantBand
from kernelswarm.arrays import Array
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.data.contract import HeldOut
from kernelswarm.simulations.engine.model_arrays import band_arrays, function_arrays, posterior_arrays
from kernelswarm.simulations.records.model import LEVEL

if TYPE_CHECKING:
    from kernelswarm.simulations.data.contract import Source
    from kernelswarm.simulations.experiment.experiment import Experiment
    from kernelswarm.simulations.records.result import Result


@dataclass(frozen=True)
class Learned:
    """The final functions of the nodes, with inputs and values in the data's units.

    Parameters
    ----------
    result : Result
        The run; its ``models`` hold the functions' arrays.
    experiment : Experiment
        The run's experiment, with each node's learner.
    """

    result: Result
    experiment: Experiment

    @cached_property
    def functions(self) -> dict[int, Function]:
        """The functions of nodes with their own function, in sorted order of the labels."""
        found = function_arrays(self.result.models)
        return {node: self.experiment.learner_for(node).function_from(found[node]) for node in found}

    @cached_property
    def posteriors(self) -> dict[int, Posterior]:
        """The posteriors of the functions, for nodes that have them."""
        found = posterior_arrays(self.result.models)
        return {node: Posterior.from_arrays(self.functions[node], found[node]) for node in found}

    @cached_property
    def radii(self) -> dict[int, Array]:
        """Half the width of the conformal bands, (C,) in the learner's units, for nodes with such a band."""
        found = band_arrays(self.result.models)
        return {node: ConstantBand.from_arrays(self.functions[node].outputs, found[node]).radii for node in found}

    @property
    def has_bands(self) -> bool:
        """Whether any node has a band."""
        return bool(self.radii) or any(each.knows_noise for each in self.posteriors.values())

    @property
    def level(self) -> float:
        """The level of bands: the run's level, or 0.9 if the run has none."""
        return float(self.experiment.evaluation.level or LEVEL)

    @property
    def nodes(self) -> list[int]:
        """The sorted labels of the nodes with models in the result."""
        return list(self.functions)

    @property
    def inputs(self) -> int:
        """p, the dimension of a point; 0 without a model."""
        return next((function.inputs for function in self.functions.values()), 0)

    @property
    def outputs(self) -> int:
        """C, the number of outputs; 0 without a model."""
        return next((function.outputs for function in self.functions.values()), 0)

    @property
    def written_in_points(self) -> bool:
        """Whether any function has a dictionary of points."""
        return any(hasattr(function, "points") for function in self.functions.values())

    def function(self, node: int) -> Function:
        """Return the function of a node: its own, or the common function of all nodes."""
        return self.functions[self.owner(node)]

    def points(self, node: int) -> Array:
        """Return the dictionary of a node, (M, p); empty for functions of features."""
        return self.result.data.inputs.raw(dictionary(self.function(node)))

    def size(self, node: int) -> str:
        """Return the terms of a node's function as text: "12 points", or "50 features"."""
        function = self.function(node)
        kind = "point" if hasattr(function, "points") else "feature"
        return f"{function.order} {kind}{'' if function.order == 1 else 's'}"

    def weights(self, node: int) -> Array:
        """Return the weights of a node, one row for each point or feature, (M, C)."""
        return self.function(node).weights

    def owner(self, node: int) -> int:
        """Return the node with the function of ``node``: itself, or the one learner of all nodes."""
        return node if node in self.functions else self.nodes[0]

    def evaluate(self, node: int, points: Array) -> Array:
        """Evaluate the node's function at ``points`` (n, p); returns (n, C)."""
        return self.result.data.targets.raw(self._values(node, points))

    def decide(self, node: int, points: Array) -> Array:
        """Return the node's predictions at ``points`` (n, p), (n, q): values in the targets' unit, or class indices."""
        loss: Any = self.experiment.learner_for(self.owner(node)).loss
        decision: Array = loss.decide(self._values(node, points))
        return self.result.data.targets.raw(decision)

    def half_width(self, node: int, points: Array) -> Array | None:
        """Return half the width of the node's band for targets at ``points`` (n, p), (n, C), or None without a band.

        Points and widths are in the units of the data.
        """
        radii = self.radii.get(self.owner(node))
        if radii is not None:
            return np.repeat((radii * self.result.data.targets.scale)[np.newaxis], len(points), axis=0)
        posterior = self.posteriors.get(self.owner(node))
        if posterior is None or not posterior.knows_noise:
            return None
        own = np.ascontiguousarray(self.result.data.inputs.scaled(points))
        spread = np.sqrt(target_variance(posterior, own)) * self.result.data.targets.scale
        return NormalDist().inv_cdf(0.5 + 0.5 * self.level) * spread

    def ignorance(self, node: int, points: Array) -> Array | None:
        """Return the posterior over the prior deviation at ``points`` (n, p), (n,), or None if unknown."""
        posterior = self.posteriors.get(self.owner(node))
        if posterior is None:
            return None
        return posterior.ignorance(np.ascontiguousarray(self.result.data.inputs.scaled(points)))

    def _values(self, node: int, points: Array) -> Array:
        return self.function(node).values(np.ascontiguousarray(self.result.data.inputs.scaled(points)))


@dataclass(frozen=True)
class Reopened:
    """The run's stream, opened again in its final state for its truth and its held-out samples.

    Both are in the data's units.
    """

    source: Source | None
    missing: str  # why there is no source; empty if there is one
    samples: int  # samples drawn by a node

    def held_out(self, position: int) -> HeldOut | None:
        """Return the held-out samples of the node at ``position``."""
        if self.source is None:
            return None
        found, data = self.source.nodes[position].held_out(self.samples), self.source.description
        return HeldOut(data.inputs.raw(found.points), data.targets.raw(found.targets))

    def truth(self, position: int, points: Array) -> Array | None:
        """Return the noise-free targets (n, q) of the node at ``position``, or None if unknown."""
        if self.source is None or self.source.truth is None:
            return None
        data = self.source.description
        return data.targets.raw(self.source.truth(position, data.inputs.scaled(points), self.samples))


def rebuild(result: Result) -> Learned:
    """Rebuild the learned functions of a run.

    Raises
    ------
    InputError
        The run's experiment cannot be built here, for example because a user's part cannot be imported.
    """
    from kernelswarm.simulations.engine.nodes import with_labels
    from kernelswarm.simulations.experiment.experiment import Experiment

    return Learned(result, with_labels(Experiment.from_dict(result.config), result.node_names))


def reopen(learned: Learned) -> Reopened:
    """Open the run's stream again; without its data return a sentence on the missing file instead."""
    from kernelswarm.simulations.running.network import open_stream

    result, experiment = learned.result, learned.experiment
    samples = result.network.get("samples")
    drawn = int(samples[-1]) if samples is not None and len(samples) else 0
    try:
        source = open_stream(experiment, result.adjacency)
    except (InputError, OSError) as error:
        return Reopened(None, str(error), drawn)
    return Reopened(source, "", drawn)
