"""The table of all parts by name, and the import of the classes behind the names."""

from __future__ import annotations

import dataclasses
import importlib
import importlib.metadata
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from kernelswarm.simulations.core.compiling import keep_by_contents
from kernelswarm.simulations.core.errors import InputError, nearest, shown
from kernelswarm.simulations.core.own_code import CONTRACTS, OwnCode, is_own, refuse_declared, refuse_signatures

# Imports of named objects: from kernelswarm, a user's module, or another package.


def load(target: str) -> Any:
    """Return the object of kernelswarm named "module:attribute"."""
    module, _, attribute = target.partition(":")
    found: Any = importlib.import_module(module)
    for step in attribute.split("."):
        found = getattr(found, step)
    return found


def _places(folder: Path | None) -> list[str]:
    return list(dict.fromkeys(str(place.resolve()) for place in (folder, Path.cwd()) if place is not None))


def refuse_elsewhere(name: str, path: str, folder: Path | None) -> None:
    """Raise an InputError if a module is neither beside the experiment file nor in the current folder."""
    module = name.partition(":")[0]
    first = module.split(".")[0]
    if not any(
        os.path.exists(os.path.join(place, stem)) for place in _places(folder) for stem in (first, f"{first}.py")
    ):
        raise InputError(
            f"{path} = {shown(name)} names code that does not lie beside the experiment file or in the current folder, "
            f"and check is not to run it: give --trust if {module} may be imported and called"
        )


def import_part(name: str, path: str, folder: Path | None) -> Any:
    """Import a module from outside kernelswarm and return its object ``name``; raises InputError if that fails."""
    # A user's module is beside the experiment or in the current folder. Both folders are appended to the path, so that
    # they shadow nothing, and remain there for the processes of a backend.
    places = _places(folder)
    sys.path.extend(place for place in places if place not in sys.path)
    module, _, attribute = name.partition(":")
    importlib.invalidate_caches()  # the module may have been written just now
    try:
        with OwnCode(f"{path} = {shown(name)}: importing {module}"):
            importlib.import_module(module)
        keep_by_contents(module)
        return load(name)
    except InputError as refusal:
        error = refusal.__cause__
        if not isinstance(error, ModuleNotFoundError):
            raise
        if error.name is not None and f"{module}.".startswith(f"{error.name}."):
            raise InputError(
                f"{path} = {shown(name)}: there is no module {error.name!r} among the installed packages or in "
                + " or ".join(places)
            ) from error
        raise
    except AttributeError as error:
        known = [entry for entry in vars(sys.modules[module]) if not entry.startswith("_")]
        raise InputError(f"{path} = {shown(name)}: {module} has no {attribute}{nearest(attribute, known)}") from error


# Parts of other installed packages, declared as entry points.

GROUP = "kernelswarm."
"""Prefix of entry point groups, before the plural of a kind: ``kernelswarm.learners``."""


@dataclass(frozen=True)
class EntryPoint:
    """A part of another package.

    Parameters
    ----------
    target : str
        The class, "package.module:Class".
    packages : tuple of str
        The packages with this name; if there are several, using the name raises an error.
    """

    target: str
    packages: tuple[str, ...]


def plural(kind: str) -> str:
    """Return the plural of a kind of part, for lists and entry point groups.

    Examples
    --------
    >>> plural("learner"), plural("loss"), plural("topology"), plural("link_delay")
    ('learners', 'losses', 'topologies', 'link_delays')
    """
    return re.sub(r"(?<![aeiou])ys$", "ies", f"{kind}es" if kind.endswith("s") else f"{kind}s")


def entry_points(kind: str) -> Mapping[str, EntryPoint]:
    """Return the parts of a kind in installed packages, by name, without importing them.

    The entry points are read once, so packages installed later are not found by the running process.
    """
    return _groups().get(GROUP + plural(kind), {})


@cache
def _groups() -> dict[str, dict[str, EntryPoint]]:
    groups: dict[str, dict[str, EntryPoint]] = {}
    for package in importlib.metadata.distributions():
        for point in package.entry_points:
            if not point.group.startswith(GROUP):
                continue
            group = groups.setdefault(point.group, {})
            before = group.get(point.name)
            if before is None:
                group[point.name] = EntryPoint(point.value, (package.name,))
            elif package.name not in before.packages:  # a second distribution of the same name is hidden by the first
                group[point.name] = EntryPoint(before.target, (*before.packages, package.name))
    return groups


# kind -> name -> "module:Class". A new part is one file and one line here; nothing is imported until it is named.
PARTS: dict[str, dict[str, str]] = {
    "learner": {
        "polk": "kernelswarm.agents.learners.polk:Polk",
        "multi_kernel": "kernelswarm.agents.learners.multi_kernel:MultiKernel",
        "raker": "kernelswarm.agents.learners.raker:Raker",
        "adaraker": "kernelswarm.agents.learners.adaraker:AdaRaker",
        "newton": "kernelswarm.agents.learners.newton:Newton",
        "krls": "kernelswarm.agents.learners.krls:Krls",
        "rls": "kernelswarm.agents.learners.rls:Rls",
        "qklms": "kernelswarm.agents.learners.qklms:Qklms",
        "spppot": "kernelswarm.agents.learners.spppot:Spppot",
        "colk": "kernelswarm.agents.learners.colk:Colk",
        "policy_evaluation": "kernelswarm.agents.learners.policy_evaluation:PolicyEvaluation",
        "nystroem": "kernelswarm.agents.learners.nystroem:Nystroem",
        "shared_nystroem": "kernelswarm.agents.learners.shared_nystroem:SharedNystroem",
        "random_features": "kernelswarm.agents.learners.random_features:RandomFeatures",
        "linear": "kernelswarm.agents.learners.linear:Linear",
        "okfe": "kernelswarm.agents.learners.okfe:Okfe",
        "okfeb": "kernelswarm.agents.learners.okfe:Okfeb",
        "ogd": "kernelswarm.agents.learners.ogd:Ogd",
        "norma": "kernelswarm.agents.learners.ogd:Norma",
        "bsgd": "kernelswarm.agents.learners.bsgd:Bsgd",
        "npbsgd": "kernelswarm.agents.learners.bsgd:Npbsgd",
        "dual_sgd": "kernelswarm.agents.learners.dual_sgd:DualSgd",
        "bogd": "kernelswarm.agents.learners.bogd:Bogd",
        "perceptron": "kernelswarm.agents.learners.perceptron:Perceptron",
        "forgetron": "kernelswarm.agents.learners.perceptron:Forgetron",
        "projectron": "kernelswarm.agents.learners.projectron:Projectron",
        "projectron_plus": "kernelswarm.agents.learners.projectron:ProjectronPlus",
        "bpa": "kernelswarm.agents.learners.bpa:Bpa",
        "rbf_network": "kernelswarm.agents.learners.rbf_network:RbfNetwork",
    },
    "kernel": {
        "gaussian": "kernelswarm.agents.parts.kernels:Gaussian",
        "laplacian": "kernelswarm.agents.parts.kernels:Laplacian",
        "matern": "kernelswarm.agents.parts.kernels:Matern",
        "student_t": "kernelswarm.agents.parts.kernels:StudentT",
        "trended": "kernelswarm.agents.parts.kernels:Trended",
        "polynomial": "kernelswarm.agents.parts.kernels:Polynomial",
        "linear": "kernelswarm.agents.parts.kernels:Linear",
        "images": "kernelswarm.agents.parts.image_kernel:Images",
    },
    "loss": {
        "squared": "kernelswarm.agents.parts.losses:Squared",
        "absolute": "kernelswarm.agents.parts.losses:Absolute",
        "huber": "kernelswarm.agents.parts.losses:Huber",
        "logistic": "kernelswarm.agents.parts.losses:Logistic",
        "hinge": "kernelswarm.agents.parts.losses:Hinge",
        "multiclass_logistic": "kernelswarm.agents.parts.losses:MulticlassLogistic",
        "multiclass_hinge": "kernelswarm.agents.parts.losses:MulticlassHinge",
        "squared_hinge": "kernelswarm.agents.parts.losses:SquaredHinge",
        "multiclass_squared_hinge": "kernelswarm.agents.parts.losses:MulticlassSquaredHinge",
        "poisson_process": "kernelswarm.agents.parts.poisson_process:PoissonProcess",
    },
    "mirror_map": {
        "kl": "kernelswarm.agents.parts.mirror_maps:KullbackLeibler",
        "squared_norm": "kernelswarm.agents.parts.mirror_maps:SquaredNorm",
    },
    "dispersion": {
        "variance": "kernelswarm.agents.parts.dispersions:Variance",
        "central_moments": "kernelswarm.agents.parts.dispersions:CentralMoments",
        "semivariance": "kernelswarm.agents.parts.dispersions:Semivariance",
        "cvar": "kernelswarm.agents.parts.dispersions:ConditionalValueAtRisk",
    },
    "schedule": {
        "auto": "kernelswarm.agents.parts.schedules:Auto",
        "constant": "kernelswarm.agents.parts.schedules:Constant",
        "diminishing": "kernelswarm.agents.parts.schedules:Diminishing",
        "horizon": "kernelswarm.agents.parts.schedules:Horizon",
        "relative": "kernelswarm.agents.parts.schedules:Relative",
        "settling": "kernelswarm.agents.parts.schedules:Settling",
    },
    "budget": {
        "epsilon": "kernelswarm.agents.parts.budgets:Epsilon",
        "per_sample": "kernelswarm.agents.parts.budgets:PerSample",
        "parsimony": "kernelswarm.agents.parts.budgets:Parsimony",
        "quadratic": "kernelswarm.agents.parts.budgets:Quadratic",
        "proportional": "kernelswarm.agents.parts.budgets:Proportional",
        "target_order": "kernelswarm.agents.parts.budgets:TargetOrder",
    },
    "subspace_step": {
        "normalized": "kernelswarm.agents.parts.subspace_rules:Normalized",
        "power": "kernelswarm.agents.parts.subspace_rules:Power",
    },
    "censoring": {
        "threshold": "kernelswarm.agents.parts.subspace_rules:Threshold",
        "moving_average": "kernelswarm.agents.parts.subspace_rules:MovingAverage",
    },
    "protocol": {
        "isolated": "kernelswarm.protocols.controls:Isolated",
        "consensus": "kernelswarm.protocols.consensus:Consensus",
        "proximity": "kernelswarm.protocols.proximity:Proximity",
        "stacking": "kernelswarm.protocols.ensemble.stacking:Stacking",
        "summaries": "kernelswarm.protocols.summaries:Summaries",
        "centralized": "kernelswarm.protocols.controls:Centralized",
        "flooding": "kernelswarm.protocols.controls:Flooding",
        "batch": "kernelswarm.protocols.controls:Batch",
        "diffusion": "kernelswarm.protocols.parameters.diffusion:Diffusion",
        "gradient_tracking": "kernelswarm.protocols.parameters.gradient_tracking:GradientTracking",
        "diffusion_rls": "kernelswarm.protocols.parameters.diffusion_rls:DiffusionRls",
        "statistics": "kernelswarm.protocols.parameters.statistics:Statistics",
        "drfgp": "kernelswarm.protocols.parameters.drfgp:Drfgp",
        "dkla": "kernelswarm.protocols.parameters.dkla:Dkla",
        "domkl": "kernelswarm.protocols.parameters.domkl:Domkl",
        "odkla": "kernelswarm.protocols.parameters.odkla:Odkla",
        "multitask": "kernelswarm.protocols.parameters.multitask:Multitask",
        "mocha": "kernelswarm.protocols.parameters.mocha:Mocha",
        "ditto": "kernelswarm.protocols.parameters.ditto:Ditto",
    },
    "distance": {
        "squared": "kernelswarm.protocols.distances:Squared",
        "absolute": "kernelswarm.protocols.distances:Absolute",
        "kl": "kernelswarm.protocols.distances:KullbackLeibler",
    },
    "tolerance": {
        "constant": "kernelswarm.protocols.tolerances:Constant",
        "edges": "kernelswarm.protocols.tolerances:Edges",
        "location": "kernelswarm.protocols.tolerances:Location",
        "true": "kernelswarm.protocols.tolerances:TrueDifference",
        "adaptive": "kernelswarm.protocols.tolerances:Adaptive",
    },
    "link_loss": {
        "uniform": "kernelswarm.protocols.links.arrivals:Uniform",
        "bursts": "kernelswarm.protocols.links.arrivals:Bursts",
        "edge": "kernelswarm.protocols.links.arrivals:EdgeLoss",
        "distance": "kernelswarm.protocols.links.arrivals:DistanceLoss",
    },
    "link_delay": {
        "constant": "kernelswarm.protocols.links.arrivals:Constant",
        "between": "kernelswarm.protocols.links.arrivals:Between",
        "geometric": "kernelswarm.protocols.links.arrivals:Geometric",
        "distance": "kernelswarm.protocols.links.arrivals:DistanceDelay",
    },
    "link_noise": {
        "gaussian": "kernelswarm.protocols.links.distortion:Gaussian",
        "laplace": "kernelswarm.protocols.links.distortion:Laplace",
    },
    "clock": {
        "synchronous": "kernelswarm.protocols.links.clocks:Synchronous",
        "bernoulli": "kernelswarm.protocols.links.clocks:Bernoulli",
        "poisson": "kernelswarm.protocols.links.clocks:Poisson",
        "cyclic": "kernelswarm.protocols.links.clocks:Cyclic",
        "stragglers": "kernelswarm.protocols.links.clocks:Stragglers",
        "churn": "kernelswarm.protocols.links.clocks:Churn",
        "joining": "kernelswarm.protocols.links.clocks:Joining",
    },
    "topology": {
        "ring": "kernelswarm.graphs.elementary:Ring",
        "path": "kernelswarm.graphs.elementary:Path",
        "directed_ring": "kernelswarm.graphs.directed:DirectedRing",
        "random_asking": "kernelswarm.graphs.directed:RandomAsking",
        "exponential": "kernelswarm.graphs.elementary:Exponential",
        "star": "kernelswarm.graphs.elementary:Star",
        "complete": "kernelswarm.graphs.elementary:Complete",
        "balanced_tree": "kernelswarm.graphs.elementary:BalancedTree",
        "grid": "kernelswarm.graphs.elementary:Grid",
        "torus": "kernelswarm.graphs.elementary:Torus",
        "erdos_renyi": "kernelswarm.graphs.random_families:ErdosRenyi",
        "random_geometric": "kernelswarm.graphs.random_families:RandomGeometric",
        "small_world": "kernelswarm.graphs.random_families:SmallWorld",
        "scale_free": "kernelswarm.graphs.random_families:ScaleFree",
        "regular": "kernelswarm.graphs.random_families:Regular",
        "nearest_neighbors": "kernelswarm.graphs.nearest:NearestNeighbors",
        "caveman": "kernelswarm.graphs.elementary:Caveman",
        "barbell": "kernelswarm.graphs.elementary:Barbell",
        "file": "kernelswarm.graphs.files:File",
    },
    "graph_schedule": {
        "always": "kernelswarm.graphs.schedules:Always",
        "activation": "kernelswarm.graphs.schedules:Activation",
        "failures": "kernelswarm.graphs.schedules:Failures",
        "gossip": "kernelswarm.graphs.schedules:Gossip",
        "mobile": "kernelswarm.graphs.schedules:Mobile",
        "one_peer": "kernelswarm.graphs.schedules:OnePeer",
        "sequence": "kernelswarm.graphs.schedules:Sequence",
    },
    "stream": {
        "gaussian_mixture": "kernelswarm.simulations.data.gaussian_mixture:GaussianMixture",
        "sine_regression": "kernelswarm.simulations.data.curves:SineRegression",
        "sensor_field": "kernelswarm.simulations.data.sensor_field:SensorField",
        "gaussian_density": "kernelswarm.simulations.data.gaussian_mixture:GaussianDensity",
        "drifting": "kernelswarm.simulations.data.curves:Drifting",
        "markov_reward": "kernelswarm.simulations.data.curves:MarkovReward",
        "file": "kernelswarm.simulations.data.file:File",
        "idx": "kernelswarm.simulations.data.array_files:Idx",
        "openml": "kernelswarm.simulations.data.array_files:OpenML",
    },
    "backend": {
        "serial": "kernelswarm.simulations.engine.serial:Serial",
        "ray": "kernelswarm.simulations.engine.ray_backend:Ray",
    },
}

# kind -> the required methods of its contract: a class without one is of another kind.
METHODS: dict[str, tuple[str, ...]] = {
    "learner": ("init", "eta", "evaluate", "gradient", "step", "function", "function_from"),
    "kernel": ("cross", "diagonal"),
    "loss": ("outputs", "values", "derivatives", "decide"),
    "mirror_map": ("values",),
    "dispersion": ("values", "slopes", "descend"),
    "schedule": ("at",),
    "budget": ("start", "bound", "next"),
    "subspace_step": ("at",),
    "censoring": ("bound",),
    "protocol": ("duals", "record"),
    "distance": ("values", "pull", "pull_back"),
    "tolerance": ("init", "next"),
    "link_loss": ("channels",),
    "link_delay": ("distribution",),
    "link_noise": (),
    "clock": ("gaps",),
    "topology": ("build",),
    "graph_schedule": ("begin",),
    "stream": ("open",),
    "backend": ("kept", "start"),
}

FAMILIES: dict[str, tuple[tuple[str, ...], ...]] = {
    "protocol": (
        ("init", "coupling_gradient", "coupling_gradient_at_neighbor", "advance"),
        ("begin", "adapt", "send", "receive", "weights"),
        ("begin", "learn", "send", "receive", "mixture_weights"),
        ("numbers",),
    ),
}
"""Alternative sets of methods, one of which is required too: a protocol sends values, vectors, stacked protocols or
cells.
"""

_safe: ContextVar[bool] = ContextVar("safe", default=False)
_beside_only: ContextVar[bool] = ContextVar("beside_only", default=False)

_OWN = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


def names(kind: str) -> list[str]:
    """Return the names of a kind's parts in the order of the table, then those of installed packages."""
    return list(dict.fromkeys([*PARTS[kind], *(entry_points(kind) if may_import() else ())]))


@contextmanager
def listed_parts_only(only: bool = True) -> Iterator[None]:
    """Permit only parts of kernelswarm inside this context: parts named by a module raise an error.

    Parameters
    ----------
    only : bool
        False has no effect: the restriction of an outer context remains.

    Examples
    --------
    >>> with listed_parts_only():
    ...     may_import()
    False
    """
    token = _safe.set(only or _safe.get())
    try:
        yield
    finally:
        _safe.reset(token)


@contextmanager
def modules_beside_only(only: bool = True) -> Iterator[None]:
    """Permit only modules beside the experiment file or in the current folder inside this context."""
    token = _beside_only.set(only or _beside_only.get())
    try:
        yield
    finally:
        _beside_only.reset(token)


def may_import() -> bool:
    """Tell whether parts may be named by a module here."""
    return not _safe.get()


def names_code(value: Any) -> bool:
    """Tell whether any table of an experiment names a part by its module.

    Examples
    --------
    >>> names_code({"protocol": {"name": "consensus"}, "learner": {"loss": "my_parts:Tukey"}})
    True
    """
    if isinstance(value, str):
        return _OWN.fullmatch(value) is not None
    if isinstance(value, dict):
        value = list(value.values())
    return isinstance(value, list) and any(names_code(entry) for entry in value)


def part_name(part: Any) -> str:
    """Return the name of a part's class in the table or in installed packages, or "module:Class" for other classes.

    Examples
    --------
    >>> from kernelswarm.agents.parts.kernels import Gaussian
    >>> part_name(Gaussian())
    'gaussian'
    """
    target = f"{type(part).__module__}:{type(part).__qualname__}"
    if not is_own(type(part)):
        return next((name for table in PARTS.values() for name, listed in table.items() if listed == target), target)
    entries = (entry for kind in PARTS for entry in entry_points(kind).items())
    return next((name for name, point in entries if point.target == target and len(point.packages) == 1), target)


def find(kind: str, name: str, path: str, folder: Path | None = None) -> Any:
    """Return the class of a part, or a topology's function, by its name or by "package.module:Class".

    Parameters
    ----------
    kind : str
        A key of PARTS.
    name : str
        The name in the experiment file.
    path : str
        The dotted key in the experiment file, for messages.
    folder : Path, optional
        Folder of the experiment file, which may contain the user's modules.

    Raises
    ------
    InputError
        The name is unknown, or two packages have it; or its module is missing, may not be imported, or has no such
        part.
    """
    if ":" not in name:
        point = entry_points(kind).get(name)
        if point is None or (name in PARTS[kind] and not may_import()):
            if name in PARTS[kind]:
                return load(PARTS[kind][name])
            raise InputError(
                f"{path} = {shown(name)} is not the name of a {kind}{nearest(name, names(kind))}"
                f' (known: {", ".join(names(kind))}; your own as "package.module:Class")'
            )
        if not _OWN.fullmatch(point.target):
            raise InputError(
                f"{path} = {shown(name)}: {point.packages[0]} offers it as {shown(point.target)}, which must look like "
                '"package.module:Class"'
            )
        owners = [*(["kernelswarm"] if name in PARTS[kind] else []), *point.packages]
        if len(owners) > 1:
            raise InputError(
                f"{path} = {shown(name)} is a {kind} of {' and of '.join(owners)}: uninstall the other one, or have it "
                f"offer another name"
            )
        return _own(kind, name, point.target, path, None, "an installed package offers it, ")
    if not _OWN.fullmatch(name):
        raise InputError(f'{path} = {shown(name)} must look like "package.module:Class"')
    if _beside_only.get() and may_import():
        refuse_elsewhere(name, path, folder)
    return _own(kind, name, name, path, folder, "")


def _own(kind: str, name: str, target: str, path: str, folder: Path | None, who: str) -> Any:
    """Import a part from outside kernelswarm."""
    if not may_import():
        raise InputError(
            f"{path} = {shown(name)} names code in a module, {who}which is not imported in safe mode: leave --safe "
            f"(in Python safe = True) out if you trust it, or use one of {', '.join(names(kind))}"
        )
    part = import_part(target, path, folder)
    if kind == "topology" and callable(part) and not isinstance(part, type):
        return part
    if not (isinstance(part, type) and dataclasses.is_dataclass(part)):
        wanted = "a frozen dataclass whose fields are the table's keys"
        wanted += ", or a function that returns a graph" if kind == "topology" else ""
        raise InputError(f"{path} = {shown(name)} is a {type(part).__name__}: it must be {wanted}")
    refuse_other_kind(kind, part, path)
    return part


def refuse_other_kind(kind: str, part: Any, path: str) -> None:
    """Raise an InputError if a part, or its class, lacks a required method of its kind's contract."""
    wanted = [(*way, *METHODS[kind]) for way in FAMILIES.get(kind, ((),))]
    absent = [[one for one in way if not callable(getattr(part, one, None))] for way in wanted]
    # The methods of the most similar family, or of the first family if the part has no method of any.
    lacking = min(zip(absent, wanted, strict=True), key=lambda one: len(one[0]) / max(len(one[1]), 1))[0]
    if lacking:
        name = part_name(part) if not isinstance(part, type) else f"{part.__module__}:{part.__qualname__}"
        hidden = [one for one in lacking if dataclasses.is_dataclass(part) and one in part.__dataclass_fields__]
        if hidden:
            raise InputError(
                f"{path} = {shown(name)} is no {kind}: its key {hidden[0]} has the name of a method that a {kind} has; "
                "give the key another name"
            )
        raise InputError(
            f"{path} = {shown(name)} is no {kind}: it has no method {', '.join(lacking)}; docs/contributing.md "
            f"says what a {kind} has (known: {', '.join(names(kind))})"
        )
    if kind in CONTRACTS:
        refuse_signatures(load(CONTRACTS[kind][absent.index(lacking)]), wanted[absent.index(lacking)], part, path)
    refuse_declared(kind, part, path)
