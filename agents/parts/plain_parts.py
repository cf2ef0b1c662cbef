"""Kernels, losses and protocols in plain Python for compiled rounds, which call their methods."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any, NoReturn, Protocol, cast

import numpy as np

from kernelswarm.agents.arithmetic.abi import (
    CompiledBudget,
    CompiledCensoring,
    CompiledDispersion,
    CompiledKernel,
    CompiledLoss,
    CompiledMirrorMap,
    CompiledSubspaceStep,
)
from kernelswarm.agents.parts.budgets import Budget, checked_bound
from kernelswarm.agents.parts.dispersions import Dispersion
from kernelswarm.agents.parts.kernels import Kernel
from kernelswarm.agents.parts.losses import CurvedLoss, Loss, OfferingLoss
from kernelswarm.agents.parts.mirror_maps import MirrorMap
from kernelswarm.agents.parts.subspace_rules import Censoring, SubspaceStep
from kernelswarm.arrays import Array, Integers
from kernelswarm.protocols.compiled import CompiledRule, NotCompiledError, handed_over, hands_over
from kernelswarm.protocols.contract import Constrained, Exchange, Judging, Rule, fulfils
from kernelswarm.protocols.core.addresses import Compiled

# Arguments of methods are copied for the method to keep; answers are put where compiled code reads them.


def kept(array: Array) -> Array:
    """Return an array that a method may keep: the given copy, or a new one where the array is a view of other memory,
    as without compilation."""
    return array if array.base is None else array.copy()


def fill(found: Array, answer: Any, method: str) -> None:
    """Copy a method's answer into an array.

    Raises
    ------
    ValueError
        When it has another shape, dimensions of length 1 may be missing, or holds no real numbers.
    """
    if type(answer) is not np.ndarray or answer.dtype != np.float64:
        answer = _numbers(answer, found.shape, method)
    if answer.shape != found.shape:
        if [count for count in answer.shape if count != 1] != [count for count in found.shape if count != 1]:
            raise ValueError(f"{method} returned an array of shape {answer.shape}, and {found.shape} is asked for")
        answer = answer.reshape(found.shape)
    found[...] = answer


def _numbers(answer: Any, shape: tuple[int, ...], method: str) -> Array:
    """Return a method's answer as an array of float64; raises ValueError if it holds no real numbers."""
    must = f"return an array of real numbers of shape {shape}"
    if answer is None:
        raise ValueError(f"{method} returned None: {must}")
    try:
        found = np.asarray(answer)
        numbers = found.astype(np.float64) if found.dtype.kind in "biufO" else None
    except (TypeError, ValueError) as error:
        raise ValueError(f"{method} returned what holds no numbers ({error}): {must}") from error
    if numbers is None:
        raise ValueError(f"{method} returned entries of type {found.dtype}: {must}")
    return numbers


# A protocol of evaluations for compiled rounds, whether it is compiled or not.


KEPT, DUALS, TOLERANCES = range(3)
"""The rows of an edge under a protocol in plain Python: the place of the node's link state and, where there are dual
variables, these and the tolerances."""


def rule_form(rule: Exchange, links: Sequence[Any] = ()) -> CompiledRule | None:
    """Return a protocol's compiled functions, or functions that call its methods.

    Parameters
    ----------
    rule : Exchange
        The protocol.
    links : sequence of object
        The link states of nodes with neighbours.

    Returns
    -------
    CompiledRule or None
        None if it is not called, since its nodes communicate with nobody.
    """
    if not rule.communicates:
        return None
    try:
        form: CompiledRule = handed_over(rule, "protocol")
    except NotCompiledError:
        asked = cast(Rule, rule)
        return _Plain(asked, any(asked.duals(each) is not None for each in links)).form()
    if rule.form == "symmetric" and form.coupling_gradient_at_neighbor is None:
        raise ValueError(
            f"{type(rule).__name__}.compiled needs coupling_gradient_at_neighbor: the symmetric form takes it"
        )
    return form


class _Plain:
    """A protocol in plain Python, with the nodes' link states."""

    def __init__(self, rule: Rule, constrained: bool) -> None:
        self._rule = rule
        self._constrained = constrained
        self._kept: dict[int, Any] = {}
        self._next = 0
        self._name = type(rule).__name__

    def form(self) -> CompiledRule:
        """Return its functions for compiled rounds."""
        return CompiledRule(
            coupling_gradient=self._coupling_gradient,
            coupling_gradient_at_neighbor=self._coupling_gradient_at_neighbor,
            advance=self._advance,
            numbers=np.zeros(0),
            tools=(),
            pack=self._pack,
            unpack=self._unpack,
            duals=DUALS if self._constrained else None,
            tolerances=TOLERANCES if self._constrained else None,
            constraint_values=self._constraint_values if fulfils(self._rule, Constrained) else None,
            judge=self._judge if fulfils(self._rule, Judging) and self._rule.judges else None,
            forget=self._forget,
        )

    def _pack(self, links: Any) -> Array:
        place, self._next = self._next, self._next + 1
        self._kept[place] = links
        if not self._constrained:
            return np.full((1, 1), float(place))
        duals = np.asarray(self._rule.duals(links))
        if duals.ndim != 1:
            raise ValueError(
                f"{self._name}.duals returned an array of shape {duals.shape}: return one dual variable for each edge, "
                "(deg,), or None"
            )
        matrix = np.full((3, len(duals)), float(place))
        self._show(links, matrix)
        return matrix

    def _unpack(self, links: Any, matrix: Array) -> Any:
        return self._kept[int(matrix[KEPT, 0])]

    def _forget(self, matrix: Array) -> None:
        del self._kept[int(matrix[KEPT, 0])]

    def _show(self, links: Any, matrix: Array) -> None:
        matrix[DUALS] = self._rule.duals(links)
        matrix[TOLERANCES] = self._rule.record(links, matrix.shape[1]).tolerances

    def _coupling_gradient(
        self, _numbers: Array, links: Array, own: Array, answers: Array, gradients: Array, curvatures: Array
    ) -> None:
        pull = self._rule.coupling_gradient(self._kept[int(links[KEPT, 0])], own, answers)
        self._fill(pull, (own, answers), gradients, curvatures, "coupling_gradient")

    def _coupling_gradient_at_neighbor(
        self,
        _numbers: Array,
        links: Array,
        neighbor: int,
        dual: float,
        mine: Array,
        theirs: Array,
        gradients: Array,
        curvatures: Array,
    ) -> None:
        pull = self._rule.coupling_gradient_at_neighbor(self._kept[int(links[KEPT, 0])], neighbor, mine, theirs, dual)
        self._fill(pull, (mine, theirs), gradients, curvatures, "coupling_gradient_at_neighbor")

    def _fill(self, pull: Any, values: tuple[Array, Array], gradients: Array, curvatures: Array, method: str) -> None:
        method = f"{self._name}.{method}"
        if not isinstance(pull, tuple | list) or len(pull) != 2:
            raise ValueError(f"{method} returned {_called(pull)}: return Pull(gradients, curvatures)")
        fill(gradients, pull[0], f"{method} (gradients)")
        fill(curvatures, pull[1], f"{method} (curvatures)")
        if np.isnan(gradients).any() and all(np.isfinite(each).all() for each in values):
            raise ValueError(f"{method} returned gradients of nan for finite values: correct its formula")
        if not (np.isfinite(curvatures) & (curvatures >= 0.0)).all():
            raise ValueError(
                f"{method} returned the curvatures {np.ravel(curvatures)[:3].tolist()}, which must be finite and not "
                "negative: give bounds on the second derivatives"
            )

    def _constraint_values(self, own: Array, answers: Array, values: Array) -> None:
        fill(values, cast(Constrained, self._rule).constraint_values(own, answers), f"{self._name}.constraint_values")

    def _judge(
        self, links: Array, differences: Array, excess: Array, zero_loss: float, curvature: float, round: int
    ) -> None:
        place, compared = int(links[KEPT, 0]), excess if self._rule.compares_losses else None
        judge = cast(Judging, self._rule).judge
        self._kept[place] = judge(self._kept[place], differences, compared, zero_loss, curvature, round)

    def _advance(
        self,
        _tools: Integers,
        _numbers: Array,
        links: Array,
        gaps: Array,
        excess: Array,
        eta: float,
        _curvature: float,
        _batch_size: int,
        round: int,
    ) -> None:
        place = int(links[KEPT, 0])
        compared = excess if self._rule.compares_losses else None
        self._kept[place] = advanced = self._rule.advance(self._kept[place], gaps, compared, eta, round)
        if self._constrained:
            self._show(advanced, links)


def _called(found: Any) -> str:
    """Describe a method's answer in words: None, a sequence by its length, anything else by its type."""
    if found is None:
        return "None"
    return f"{len(found)} entries" if isinstance(found, tuple | list) else f"a {type(found).__name__}"


# A loss for compiled rounds, whether it is compiled or not.


def loss_form(loss: Loss) -> CompiledLoss:
    """Return a loss's functions for compiled rounds, or functions that call its methods."""
    try:
        found: CompiledLoss = handed_over(loss, "loss")
    except NotCompiledError:
        return CompiledLoss(
            _filling(loss, "values"),
            _filling(loss, "derivatives"),
            np.zeros(0),
            _filling(loss, "curvatures") if fulfils(loss, CurvedLoss) else None,
            _filling(loss, "offers") if fulfils(loss, OfferingLoss) else None,
        )
    return found


def _filling(loss: Any, method: str) -> Compiled:
    """Return a function with the signature of a loss's that calls a method and copies its result."""
    asked, name = getattr(loss, method), f"{type(loss).__name__}.{method}"

    def function(_numbers: Array, predictions: Array, targets: Array, found: Array) -> None:
        fill(found, asked(predictions, targets), name)

    return function


def budget_form(budget: Budget) -> CompiledBudget:
    """Return a budget's functions for compiled steps, or functions that call its methods."""
    try:
        found: CompiledBudget = handed_over(budget, "budget")
    except NotCompiledError:

        def bound(_numbers: Array, step_size: float, state: float, batch_size: int) -> float:
            return checked_bound(budget, step_size, state, batch_size)

        def following(_numbers: Array, state: float, order: int) -> float:
            return budget.next(state, order)

        return CompiledBudget(bound, following, np.zeros(0))
    return found


def dispersion_form(dispersion: Dispersion) -> CompiledDispersion:
    """Return a dispersion's functions for compiled steps, or functions that call its methods."""
    try:
        found: CompiledDispersion = handed_over(dispersion, "dispersion")
    except NotCompiledError:

        def slopes(_numbers: Array, losses: Array, center: float, found: Array) -> None:
            fill(found, dispersion.slopes(losses.copy(), center), f"{type(dispersion).__name__}.slopes")

        def descend(_numbers: Array, losses: Array, center: float, step: float) -> float:
            return dispersion.descend(losses.copy(), center, int(step))

        def steps_from(first: int, steps: int) -> Array:
            return np.arange(first, first + steps, dtype=np.float64)

        return CompiledDispersion(slopes, np.zeros(0), descend, steps_from)
    return found


def mirror_form(mirror_map: MirrorMap) -> CompiledMirrorMap:
    """Return a mirror map's function for compiled steps, or one that calls its method."""
    try:
        found: CompiledMirrorMap = handed_over(mirror_map, "mirror map")
    except NotCompiledError:

        def values(_numbers: Array, duals: Array, found: Array) -> None:
            fill(found, mirror_map.values(duals.copy()), f"{type(mirror_map).__name__}.values")

        return CompiledMirrorMap(values, np.zeros(0))
    return found


def loss_values(loss: Loss, predictions: Array, targets: Array) -> Array:
    """Return l of predictions (n, C) and targets (n, q), (n,), for any layout and type of a Python loss's answer.

    It is given copies.

    Raises
    ------
    ValueError
        It returned another shape.
    """
    found = np.empty(len(predictions))
    fill(found, loss.values(*_handed(loss, predictions, targets)), f"{type(loss).__name__}.values")
    return found


def loss_derivatives(loss: Loss, predictions: Array, targets: Array) -> Array:
    """Return l' by the predictions (n, C), (n, C), in the same way.

    Raises
    ------
    ValueError
        As of :func:`loss_values`.
    """
    found = np.empty(predictions.shape)
    fill(found, loss.derivatives(*_handed(loss, predictions, targets)), f"{type(loss).__name__}.derivatives")
    return found


def _handed(loss: Loss, *arrays: Array) -> list[Array]:
    """Return a loss's arguments: copies for losses in plain Python, which might write to them."""
    return [array if hands_over(loss) else array.copy() for array in arrays]


def step_form(step: SubspaceStep) -> CompiledSubspaceStep:
    """Return the functions of a subspace's step for compiled steps, or one that calls its method."""
    try:
        found: CompiledSubspaceStep = handed_over(step, "subspace step")
    except NotCompiledError:

        def at(_numbers: Array, sample: int, length: float) -> float:
            return step.at(sample, length)

        return CompiledSubspaceStep(at, np.zeros(0))
    return found


def censoring_form(censoring: Censoring) -> CompiledCensoring:
    """Return the functions of a threshold on fits for compiled steps, or one that calls its method."""
    try:
        found: CompiledCensoring = handed_over(censoring, "censoring")
    except NotCompiledError:

        def bound(_numbers: Array, fits: Array) -> float:
            return censoring.bound(fits.copy())

        return CompiledCensoring(bound, np.zeros(0))
    return found


# A kernel for compiled steps, whether it is compiled or not.


def kernel_form(kernel: Kernel) -> CompiledKernel:
    """Return a kernel's functions for compiled steps; missing ones call its methods."""
    try:
        found: CompiledKernel = handed_over(kernel, "kernel")
    except NotCompiledError:
        return CompiledKernel(_cross(kernel), np.zeros(0), diagonal=_diagonal(kernel))
    return found if found.unit or found.diagonal is not None else found._replace(diagonal=_diagonal(kernel))


def kernel_rows(kernel: Kernel, points: Array, centers: Array) -> Array:
    """Return kappa(points[i], centers[j]) for all pairs, as compiled code takes it: (n, p) and (m, p) give (n, m).

    A kernel in plain Python may return any layout and type of numbers, such as the transpose of another array. It is
    given copies.

    Raises
    ------
    ValueError
        It returned another shape.
    """
    if not hands_over(kernel):  # one in plain Python may write to what it is given, which is the state of a learner
        points, centers = points.copy(), centers.copy()
    answer = kernel.cross(points, centers)
    size = len(points), len(centers)
    if type(answer) is np.ndarray and answer.shape == size and answer.dtype == np.float64 and answer.flags.c_contiguous:
        return answer
    found = np.empty(size)
    fill(found, answer, f"{type(kernel).__name__}.cross")
    return found


def kernel_diagonal(kernel: Kernel, points: Array) -> Array:
    """Return kappa(points[i], points[i]) in the same way: (n, p) gives (n,).

    Raises
    ------
    ValueError
        The kernel returned another shape.
    """
    found = np.empty(len(points))
    fill(found, kernel.diagonal(points if hands_over(kernel) else points.copy()), f"{type(kernel).__name__}.diagonal")
    return found


def compares_alike(learner: Any) -> bool:
    """Return whether entries have the same bits whichever others are computed with them, as compiled kernels' do."""
    return not hasattr(learner, "kernel") or hands_over(learner.kernel)


def _cross(kernel: Kernel) -> Compiled:
    name = f"{type(kernel).__name__}.cross"

    def cross(_numbers: Array, points: Array, centers: Array, values: Array) -> None:
        if len(points) and len(centers):  # methods are not called without points
            fill(values[:, : len(centers)], kernel.cross(points.copy(), centers.copy()), name)

    return cross


def _diagonal(kernel: Kernel) -> Compiled:
    name = f"{type(kernel).__name__}.diagonal"

    def diagonal(_numbers: Array, points: Array, values: Array) -> None:
        fill(values, kernel.diagonal(points.copy()), name)

    return diagonal


# The turn of a node in compiled code, for errors of parts in plain Python.


class Failing(Protocol):
    """A node that raises the errors of its parts in compiled rounds."""

    def fail(self, error: BaseException) -> NoReturn:
        """Raise the error of a part at the node's turn."""


class RunsRounds(Protocol):
    """Nodes that run their rounds together."""

    completed: int

    @property
    def agents(self) -> Sequence[Failing]:
        """The nodes."""


class AtTurn:
    """The boundary of compiled rounds: errors of parts leave it with the node at its turn on the stack.

    Parameters
    ----------
    nodes : RunsRounds
        The nodes that run the rounds; ``completed`` is advanced to the round that failed.
    turn : Array
        (2,) the rounds completed in there, and the place of the node.
    before : int
        The rounds that ``completed`` does not count yet.
    """

    __slots__ = ("_before", "_nodes", "_turn")

    def __init__(self, nodes: RunsRounds, turn: Integers, before: int = 0) -> None:
        self._nodes, self._turn, self._before = nodes, turn, before

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            rounds, node = self._turn.tolist()
            self._nodes.completed += self._before + rounds
            self._nodes.agents[int(node)].fail(error)
