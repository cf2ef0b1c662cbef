"""POLK with several bandwidths, mixed by their past losses, so that the bandwidth is learned online."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np

from kernelswarm.agents.functions.derived import Mixed, combined, ending
from kernelswarm.agents.learners.contract import Evaluated, Info
from kernelswarm.agents.learners.descent import STEP_RANGES, Descent, check_step, share
from kernelswarm.agents.learners.polk import Polk, PolkState
from kernelswarm.agents.parts.budgets import Budget, PerSample
from kernelswarm.agents.parts.kernels import Gaussian, Kernel
from kernelswarm.agents.parts.losses import Loss, Squared
from kernelswarm.agents.parts.schedules import Auto, Schedule
from kernelswarm.arrays import Array
from kernelswarm.protocols.parameters.hedge import LIKELIHOOD, log_weights, shares_of
from kernelswarm.ranges import Range, resolved_value
from kernelswarm.refused_key import RefusedKey

# The common parts of learners that mix kernels of several bandwidths by their losses (Hedge).

Rate = float | Literal["auto"]


MIXTURE_RANGES = {"rate": Range("(0, inf)", "", "auto"), "forgetting": Range("(0, 1]", "1 forgets nothing")}
"""The ranges of the keys of mixtures."""


def check_mixture(kernel: Kernel, factors: Sequence[float]) -> None:
    """Refuse a kernel without a bandwidth, and factors that are not positive."""
    if not hasattr(kernel, "bandwidth"):
        raise RefusedKey("kernel", "has no bandwidth to vary: take gaussian, laplacian, matern or student_t", kernel)
    if not factors or not all(0.0 < factor < math.inf for factor in factors):
        raise RefusedKey("factors", f"= {factors!r} must be positive numbers, such as [0.5, 1, 2]")


def scaled_kernels(kernel: Kernel, factors: Sequence[float]) -> list[Kernel]:
    """Return the kernel with its bandwidth times each factor."""
    whole: Any = kernel
    lengths = resolved_value("bandwidth", whole.bandwidth, "kernel")
    scaled = [np.multiply(lengths, factor).tolist() for factor in factors]
    widths = [tuple(width) if isinstance(width, list) else width for width in scaled]
    return [replace(whole, bandwidth=width) for width in widths]


def rate_for(rate: Rate, loss: Loss) -> float:
    """Return the rate as a number: "auto" is LIKELIHOOD, to be computed from losses, for numbers, and 1 for classes."""
    if rate != "auto":
        return float(rate)
    return LIKELIHOOD if loss.task == "regression" else 1.0


class MultiKernelState:
    """State of the learner: the members' states and losses, and the number of steps."""

    __slots__ = ("count", "losses", "members", "steps")

    def __init__(self, members: list[PolkState]) -> None:
        self.members = members
        self.losses = np.zeros(len(members))
        self.count = 0.0
        self.steps = 0


@dataclass(frozen=True)
class MultiKernel(Descent):
    """POLK for each of several bandwidths, mixed by Hedge on their losses on new samples.

    Member e has ``factors[e]`` times the bandwidth of ``kernel``. It follows the gradient of its own loss on every
    sample, compresses with its own budget, and follows the gradient of the coupling at the mixture
    ``f = sum_e q_e f_e``. The shares are ``q_e ~ exp(-rate L_e)``. L_e is the discounted sum of the member's losses,
    each measured before the step on its sample. Every new sample multiplies the earlier sum by ``forgetting``. `raker`
    mixes random features in the same way; here the members are compressed kernel expansions.

    Parameters
    ----------
    loss, step_size, regularization, batch_size, budget
        As for `polk`, the same for every member.
    kernel : Kernel
        A kernel with a bandwidth.
    factors : sequence of float
        The members' bandwidths, as multiples of the kernel's bandwidth, positive.
    rate : float or "auto"
        The learning rate of Hedge, positive. "auto" treats losses as negative log-likelihoods: it is 1 for classes,
        and for numbers 1 over twice the mean loss of the best member; for the squared loss this is a Gaussian
        likelihood in any unit.
    forgetting : float
        The factor in (0, 1] by which each new sample multiplies the losses of earlier batches; losses within a batch
        count equally.
    """

    loss: Loss = field(default=Squared(), metadata={"part": "loss"})
    kernel: Kernel = field(default=Gaussian(), metadata={"part": "kernel"})
    step_size: Schedule = field(default=Auto(), metadata={"part": "schedule", "scalar": "constant"})
    regularization: float = 1e-6
    batch_size: int = 1
    budget: Budget = field(default=PerSample(), metadata={"part": "budget"})
    factors: tuple[float, ...] = (0.25, 0.5, 1.0, 2.0, 4.0)
    rate: Rate = "auto"
    forgetting: float = 0.999
    weighs_widths: ClassVar[bool] = True  # losses choose the bandwidth; data set the lengths' ratios

    ranges: ClassVar = STEP_RANGES | MIXTURE_RANGES

    def __post_init__(self) -> None:
        check_step(self)
        check_mixture(self.kernel, self.factors)

    @property
    def gain(self) -> float | None:
        """The supremum of kappa(x, x), the same for all bandwidths."""
        return self.kernel.supremum

    @property
    def linear(self) -> bool:
        """False, because a step also changes the members' shares."""
        return False

    @cached_property
    def _members(self) -> tuple[Polk, ...]:
        shared = {key.name: getattr(self, key.name) for key in fields(Polk)}
        return tuple(Polk(**{**shared, "kernel": each}) for each in scaled_kernels(self.kernel, self.factors))

    def init(self, inputs: int, outputs: int) -> MultiKernelState:
        """Return the state of members that are all 0, with equal shares."""
        return MultiKernelState([member.init(inputs, outputs) for member in self._members])

    def shares(self, state: MultiKernelState) -> Array:
        """Return the members' shares q_e, (E,)."""
        weights: Array = shares_of(log_weights(state.losses, state.count, rate_for(self.rate, self.loss)))
        return weights

    def evaluate(self, state: MultiKernelState, points: Array) -> Evaluated:
        """Evaluate all members at ``points`` (n, p); the rows hold the members' values, then the members' rows."""
        found = [member.evaluate(own, points) for member, own in self._pairs(state)]
        values = combined([each.values for each in found], self.shares(state))
        return Evaluated(points, np.hstack([each.values for each in found] + [each.rows for each in found]), values)

    def inner(self, state: MultiKernelState, at: Evaluated) -> Array:
        """Return the mean of the members' inner products, weighted by their shares, (n, n)."""
        parts = self._parted(state, at)
        grams = [member.inner(own, part) for (member, own), part in zip(self._pairs(state), parts, strict=True)]
        return combined(grams, self.shares(state))

    def step(
        self,
        state: MultiKernelState,
        evaluations: Sequence[Evaluated],
        gradients: Sequence[Array],
        curvatures: Sequence[float] | None,
        targets: Array,
        eta: float | None = None,
    ) -> Info:
        """Take a step with every member along the derivatives of its loss and of the coupling; update the losses."""
        eta = self.eta(state) if eta is None else eta
        shares, error = self.shares(state), 0.0
        sets = [self._parted(state, evaluation) for evaluation in evaluations]
        part = share(len(targets), self.batch_size)
        coupling = list(gradients)
        if len(targets):
            coupling[0] = gradients[0] - part * self.gradient(state, evaluations[0], targets)
            state.losses *= self.forgetting ** len(targets)
            state.count = self.forgetting ** len(targets) * state.count + len(targets)
        for place, (member, own) in enumerate(self._pairs(state)):
            there = [parts[place] for parts in sets]
            pulled = list(coupling)
            if len(targets):
                values = np.ascontiguousarray(there[0].values)
                pulled[0] = coupling[0] + part * self.loss.derivatives(values, targets)
                state.losses[place] += float(np.sum(self.loss.values(values, targets)))
            info = member.step(own, there, pulled, curvatures, targets, eta)
            error += float(shares[place]) * info.compression_error
        state.steps += 1
        return Info(error, eta)

    def function(self, state: MultiKernelState) -> Mixed:
        return Mixed([member.function(own) for member, own in self._pairs(state)], self.shares(state))

    def function_from(self, arrays: Mapping[str, Array]) -> Mixed:
        members = []
        for place, member in enumerate(self._members):
            end = ending(place)
            own = {name.removesuffix(end): array for name, array in arrays.items() if name.endswith(end)}
            members.append(member.function_from(own))
        return Mixed(members, arrays["shares"])

    def snapshot(self, state: MultiKernelState) -> dict[str, Array]:
        """Return the members' arrays as ``<index>.<name>``, the ``losses``, and ``progress``: count and steps."""
        found: dict[str, Array] = {
            "losses": state.losses.copy(),
            "progress": np.array([state.count, float(state.steps)]),
        }
        for place, (member, own) in enumerate(self._pairs(state)):
            found |= {f"{place}.{name}": array for name, array in member.snapshot(own).items()}
        return found

    def restore(self, state: MultiKernelState, arrays: Mapping[str, Array]) -> None:
        """Restore a state from the result of :meth:`snapshot`."""
        state.losses = arrays["losses"].copy()
        count, steps = arrays["progress"].tolist()
        state.count, state.steps = count, int(steps)
        for place, (member, own) in enumerate(self._pairs(state)):
            start = f"{place}."
            found = {name.removeprefix(start): array for name, array in arrays.items() if name.startswith(start)}
            member.restore(own, found)

    def _pairs(self, state: MultiKernelState) -> list[tuple[Polk, PolkState]]:
        return list(zip(self._members, state.members, strict=True))

    def _parted(self, state: MultiKernelState, whole: Evaluated) -> list[Evaluated]:
        """Split the mixture's evaluation into the members' evaluations."""
        outputs, pairs = whole.values.shape[1], self._pairs(state)
        widths = [member.evaluate(own, whole.points[:0]).rows.shape[1] for member, own in pairs]
        cuts = np.cumsum([outputs] * len(pairs) + widths)[:-1]
        columns = [np.ascontiguousarray(part) for part in np.split(whole.rows, cuts, axis=1)]
        values, rows = columns[: len(pairs)], columns[len(pairs) :]
        return [Evaluated(whole.points, row, value) for row, value in zip(rows, values, strict=True)]
