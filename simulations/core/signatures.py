"""How the methods of a user's part are called, as the contract of its kind says."""

import inspect
from pathlib import Path
from typing import Any

from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.core.own_code import is_own

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
    "stream": ("kernelswarm.simulations.streams.contract:Stream",),
}
"""The contracts of a kind; those of a protocol are in the order of the families of methods."""


def refuse_signatures(contract: type[Any], methods: tuple[str, ...], part: Any, path: str) -> None:
    """Refuse a part of the user's own, or the class of one, with a method that cannot be called as its contract says.

    Parameters
    ----------
    contract : type
        A class with the methods of the contract.
    methods : tuple of str
        Those that the runs call.
    part : object or type
        The part.
    path : str
        Where it stands in the experiment file.

    Raises
    ------
    InputError
        With the method, its parameters and those of the contract.
    """
    cls = part if isinstance(part, type) else type(part)
    for name in methods if is_own(cls) else ():
        found = inspect.getattr_static(cls, name, None)
        asked = inspect.getattr_static(contract, name, None)
        if inspect.isfunction(found) and inspect.isfunction(asked):
            _compare(found, asked, f"{cls.__name__}.{name}", path)


def _compare(found: Any, asked: Any, method: str, path: str) -> None:
    """Refuse a function that does not take the parameters of another one that have no default."""
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
