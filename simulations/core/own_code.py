"""The boundary to users' code that runs before anything starts: imports, construction of parts, and declarations."""

from __future__ import annotations

import dataclasses
import inspect
import math
import sys
from collections.abc import Callable
from numbers import Real
from pathlib import Path
from traceback import walk_tb
from types import TracebackType
from typing import Any, get_args

import numpy as np

from kernelswarm.protocols.contract import AnyForm, BatchLimits, Step
from kernelswarm.simulations.core.errors import InputError, shown


class OwnCode:
    """A context that turns all exceptions, including SystemExit, into InputError; KeyboardInterrupt passes.

    Parameters
    ----------
    what : str
        The purpose of the code, for messages.
    refusals : exception types
        Further exceptions that pass unchanged, since their messages are for the user.

    Examples
    --------
    >>> try:
    ...     with OwnCode("importing rules"):
    ...         raise SystemExit(0)
    ... except InputError as refusal:
    ...     print(str(refusal).partition(" (")[0])
    importing rules failed: it called sys.exit
    """

    def __init__(self, what: str, *refusals: type[Exception]) -> None:
        self._what = what
        self._refusals = refusals

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None or isinstance(error, (KeyboardInterrupt, InputError, *self._refusals)):
            return
        text = "it called sys.exit" if isinstance(error, SystemExit) else " ".join(str(error).split())
        raise InputError(
            f"{self._what} failed: {text or 'it says nothing more'} ({type(error).__name__}, "
            f"{place_of(trace)}): correct it; --debug shows the traceback"
        ) from error


LIBRARIES = {"kernelswarm", "networkx", "numba", "numpy", "scipy"} | sys.stdlib_module_names


def place_of(trace: TracebackType | None) -> str:
    """Return file and line of the innermost frame outside libraries, or else of the innermost frame.

    Wrong arguments for a library are corrected in the user's code.
    """
    frames = list(walk_tb(trace))
    own = [each for each in frames if str(each[0].f_globals.get("__name__")).partition(".")[0] not in LIBRARIES]
    frame, line = (own or frames)[-1]
    return f"{Path(frame.f_code.co_filename).name}, line {line}"


def is_own(cls: type[Any]) -> bool:
    """Tell whether a class is defined outside kernelswarm."""
    return not cls.__module__.startswith("kernelswarm.")


def _is_number(value: object, least: float) -> bool:
    return type(value) is not bool and isinstance(value, Real) and least <= float(value) < math.inf


def _is_truth(value: object) -> bool:
    return isinstance(value, bool | np.bool_)


DECLARED: dict[str, dict[str, tuple[Callable[[object], bool], str]]] = {
    "loss": {
        "task": (
            lambda value: value in ("regression", "binary", "multiclass"),
            'must be "regression", "binary" or "multiclass": what the loss predicts',
        ),
        "curvature": (
            lambda value: _is_number(value, 0.0),
            "must be a number of at least 0: it bounds the second derivative, and is 0 of piecewise linear losses",
        ),
        "quadratic": (
            lambda value: isinstance(value, bool),
            "must be True or False: whether the second derivative is curvature everywhere",
        ),
    },
    "kernel": {
        "supremum": (
            lambda value: value is None or _is_number(value, 5e-324),
            "must be a positive number that bounds kappa(x, x), or None if there is no bound",
        ),
    },
    "schedule": {
        "largest": (
            lambda value: _is_number(value, 5e-324),
            "must be a positive number: the largest step size, at which the stability rules are checked",
        ),
    },
    "protocol": {
        "form": (
            lambda value: isinstance(value, str) and value in get_args(AnyForm),
            'must be "one_sided", "symmetric" or, where vectors are sent, "parameters"',
        ),
        "step": (
            lambda value: isinstance(value, str) and value in get_args(Step),
            'must be "implicit" or "explicit": whether pulls are taken at the new function or at the old one',
        ),
        "offline": (
            lambda value: value is None or isinstance(value, BatchLimits),
            "must be None or, for a solver that fits all samples after the last round, BatchLimits(rows, landmarks)",
        ),
        "communicates": (_is_truth, "must be True or False: whether neighbours exchange anything"),
        "pooled": (_is_truth, "must be True or False: whether one learner sees every node's samples"),
        "averaged": (_is_truth, "must be True or False: whether that learner takes one step a round"),
        "sends_duals": (_is_truth, "must be True or False: whether neighbours need this node's dual variables"),
        "compares_losses": (_is_truth, "must be True or False: whether advance needs the neighbours' excess losses"),
    },
}
"""The attributes that a part of a kind declares besides its methods, each with a check and the rule as text."""


def refuse_declared(kind: str, part: Any, path: str) -> None:
    """Raise an error if a part, or its class, lacks a required attribute or has an invalid one.

    Raises
    ------
    InputError
        The attribute is missing or invalid; the message has the name, the value and the rule.
    """
    cls = part if isinstance(part, type) else type(part)
    fields = {field.name for field in dataclasses.fields(cls)} if dataclasses.is_dataclass(cls) else ()
    for name, (holds, rule) in DECLARED.get(kind, {}).items() if is_own(cls) else ():
        if part is cls and (name in fields or isinstance(getattr(cls, name, property()), property)):
            continue  # instances have the attribute
        if not hasattr(part, name):
            if kind == "protocol":
                continue  # the experiment reports all missing attributes together
            raise InputError(f"{path}: {cls.__name__} does not say its {name}, which {rule}")
        if not holds(getattr(part, name)):
            raise InputError(f"{path}: {cls.__name__}.{name} = {shown(getattr(part, name))} {rule}")


# The signatures of the methods of users' parts, checked against the contracts.

CONTRACTS: dict[str, tuple[str, ...]] = {
    "learner": ("kernelswarm.agents.learners.contract:Learner",),
    "kernel": ("kernelswarm.agents.parts.kernels:Kernel",),
    "loss": ("kernelswarm.agents.parts.losses:Loss",),
    "mirror_map": ("kernelswarm.agents.parts.mirror_maps:MirrorMap",),
    "dispersion": ("kernelswarm.agents.parts.dispersions:Dispersion",),
    "schedule": ("kernelswarm.agents.parts.schedules:Schedule",),
    "budget": ("kernelswarm.agents.parts.budgets:Budget",),
    "subspace_step": ("kernelswarm.agents.parts.subspace_rules:SubspaceStep",),
    "censoring": ("kernelswarm.agents.parts.subspace_rules:Censoring",),
    "protocol": (
        "kernelswarm.protocols.contract:Rule",
        "kernelswarm.protocols.parameters.contract:ParameterRule",
        "kernelswarm.protocols.contract:StackedRule",
        "kernelswarm.protocols.summaries:SummaryRule",
    ),
    "distance": ("kernelswarm.protocols.distances:Distance",),
    "tolerance": ("kernelswarm.protocols.tolerances:Tolerance",),
    "topology": ("kernelswarm.graphs.topology:Topology",),
    "stream": ("kernelswarm.simulations.data.contract:Stream",),
}
"""The contracts of each kind; a protocol's contracts are in the order of the families of methods."""


def refuse_signatures(contract: type[Any], methods: tuple[str, ...], part: Any, path: str) -> None:
    """Raise an error if a method of a user's part, or of its class, cannot be called as in its contract.

    Parameters
    ----------
    contract : type
        A class with the methods of the contract.
    methods : tuple of str
        The methods that runs call.
    part : object or type
        The part.
    path : str
        The dotted key of the part in the experiment file.

    Raises
    ------
    InputError
        A signature does not fit; the message has the method, its parameters and the contract's.
    """
    cls = part if isinstance(part, type) else type(part)
    for name in methods if is_own(cls) else ():
        found = inspect.getattr_static(cls, name, None)
        asked = inspect.getattr_static(contract, name, None)
        if inspect.isfunction(found) and inspect.isfunction(asked):
            _compare(found, asked, f"{cls.__name__}.{name}", path)


def _compare(found: Any, asked: Any, method: str, path: str) -> None:
    """Raise an error if a function does not accept the required parameters of another function."""
    has, wanted = inspect.signature(found), inspect.signature(asked)
    required = [each for each in wanted.parameters.values() if each.default is each.empty]
    keywords = {each.name: None for each in required if each.kind is each.KEYWORD_ONLY}
    try:
        has.bind(*[None] * (len(required) - len(keywords)), **keywords)
    except TypeError as error:
        place = f"{Path(found.__code__.co_filename).name}, line {found.__code__.co_firstlineno}"
        raise InputError(
            f"{path}: {method}({', '.join(has.parameters)}) is called with ({', '.join(wanted.parameters)}): give it "
            f"these parameters ({place})"
        ) from error
