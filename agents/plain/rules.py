"""A protocol of evaluations for compiled rounds, whether it is compiled or not."""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.plain.filling import fill
from kernelswarm.protocols.compiled import CompiledRule, NotCompiledError, handed_over
from kernelswarm.protocols.contract import Constrained, Exchange, Judging, Rule
from kernelswarm.protocols.core.fulfilling import fulfils

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

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
        None where it is not called, since its nodes communicate with nobody.
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
    """Return what a method returned in words: None, a sequence by its length, anything else by its type."""
    if found is None:
        return "None"
    return f"{len(found)} entries" if isinstance(found, tuple | list) else f"a {type(found).__name__}"
