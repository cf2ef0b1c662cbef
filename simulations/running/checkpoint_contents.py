"""Whether a checkpoint is of an experiment's network and agents: asked before any of them goes on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from numba.core.errors import NumbaError

from kernelswarm.agents.node.snapshot import Snapshot, restore, take
from kernelswarm.protocols.replay import replay_of
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.records.checkpoint import Checkpoint
from kernelswarm.simulations.round.block import AgentPlan, pool_bands
from kernelswarm.simulations.running.network import Network

SAMPLES = ("points", "following_points", "received_points", "ahead_points")
"""Arrays (n, p) that compiled code evaluates functions at; it does not ask how wide they are."""

TARGETS = (("points", "targets"), ("following_points", "following_targets"), ("ahead_points", "ahead_targets"))
"""Samples and what belongs to them."""

UNFIT = (ValueError, LookupError, TypeError, ArithmeticError, AttributeError, AssertionError, NumbaError)
"""The exceptions of agents for arrays of other names, types and shapes than their own."""


def require_same(since: Checkpoint, network: Network, edges: npt.NDArray[np.int64], folder: Path) -> None:
    """Refuse to go on from a checkpoint of another network, or of other agents than the experiment's.

    Parameters
    ----------
    since : Checkpoint
        The checkpoint.
    network : Network
        The experiment's.
    edges : array
        Its edges, (E, 2), sorted.
    folder : Path
        The run folder, for messages.

    Raises
    ------
    InputError
        It is of others.
    """
    labels = {plan.neighborhood.node for plan in network.plans}
    if not (np.array_equal(edges, since.edges) and labels == set(since.snapshots)):
        raise InputError("topology: the network is another one than when the run began")
    if network.experiment.protocol.offline is not None:
        return  # what its checkpoints hold is no agent, and its samples are drawn again
    try:
        check(network.plans, since.snapshots, network.source.targets)
    except ValueError as error:
        raise InputError(
            f"{folder}: the checkpoint of round {since.round:,} is not what was written: {error}: remove it to go on "
            f"from an earlier one, or start anew with kernelswarm run {folder / 'config.toml'}"
        ) from error


def check(plans: Sequence[AgentPlan], snapshots: Mapping[int, Snapshot], targets: int) -> None:
    """Refuse snapshots that are not of these agents: each must be what its agent, put there, gives again.

    Parameters
    ----------
    plans : sequence of AgentPlan
        The agents.
    snapshots : mapping of int to Snapshot
        Those of the checkpoint, by the nodes' labels.
    targets : int
        q, the columns of a sample's target.

    Raises
    ------
    ValueError
        One is not; the message names the node.
    """
    for plan in plans:
        node = plan.neighborhood.node
        try:
            _check(plan, snapshots[node], targets)
        except UNFIT as error:
            text = " ".join(str(error).split()) or type(error).__name__
            raise ValueError(f"what it holds of node {node} is no agent of this experiment: {text}") from error


def _check(plan: AgentPlan, snapshot: Snapshot, targets: int) -> None:
    arrays = snapshot.arrays
    for name in SAMPLES:
        _require(arrays, name, plan.inputs)
    for points, belonging in TARGETS:
        _require(arrays, belonging, targets)
        replayed = 0 if points == "ahead_points" else replay_of(plan.rule).most  # behind the samples, without targets
        if points in arrays and not 0 <= len(arrays[points]) - len(arrays[belonging]) <= replayed:
            raise ValueError(f"{points} has {len(arrays[points])} rows and {belonging} {len(arrays[belonging])}")
    counts = arrays["counts"]
    if counts.dtype != np.int64 or np.any(counts < 0):
        raise ValueError("counts are no whole numbers from 0")
    agent = plan.build()
    pool_bands([plan], [agent])
    restore(agent, snapshot)
    again = take(agent)
    for name in sorted(set(arrays) | set(again.arrays)):
        if name not in again.arrays or name not in arrays:
            raise ValueError(f"{name} is {'one too many' if name in arrays else 'missing'}")
        own, kept = again.arrays[name], arrays[name]
        if own.dtype != kept.dtype or not np.array_equal(own, kept, equal_nan=own.dtype.kind == "f"):
            raise ValueError(f"{name} is {kept.dtype} of shape {kept.shape}, which the agent does not take as it is")


def _require(arrays: Mapping[str, npt.NDArray[Any]], name: str, width: int) -> None:
    array = arrays.get(name)
    if array is not None and (array.ndim != 2 or array.shape[1] != width or array.dtype != np.float64):
        raise ValueError(f"{name} is {array.dtype} of shape {array.shape}, must be float64 (n, {width})")
