"""The errors of a simulation (invalid input, failures, signals), and the text of their messages."""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from kernelswarm.refused_key import RefusedKey


class InputError(ValueError):
    """Raised for invalid input before anything starts; the command line ends with exit code 2.

    The message is one paragraph: the place, the value, the broken rule, and the remedy or the most similar valid name.
    """


class RefusedEntry(RefusedKey, InputError):
    """Raised for an invalid value of a key of the experiment itself, or of its table ``[evaluation]``."""


class SimulationError(RuntimeError):
    """Raised for a simulation that failed during its run; the command line ends with exit code 1.

    Parameters
    ----------
    message : str
        One paragraph naming the node, the round, the cause and the remedy.
    node : int, optional
        Label of the failed node, if any.
    round : int, optional
        Rounds completed before the failure.
    partial : Result, optional
        The measurements before the failure; the run folder has the status "failed".
    """

    def __init__(self, message: str, *, node: int | None = None, round: int | None = None, partial: Any = None) -> None:
        super().__init__(message)
        self.node = node
        self.round = round
        self.partial = partial


class Interrupted(SimulationError):
    """Raised for a simulation that a signal has ended between two rounds, with a checkpoint.

    Parameters
    ----------
    message : str
        One paragraph naming the cause, the round and how to resume.
    number : int
        The signal.
    """

    def __init__(self, message: str, number: int, round: int) -> None:
        super().__init__(message, round=round)
        self.number = number


# The text of messages: place, value, rule, and the most similar valid name.

# Terms of the field that apply to several parts.

TERMS: dict[str, tuple[str, ...]] = {
    "admm": ("dkla", "odkla", "domkl"),
    "alternating_direction_method_of_multipliers": ("dkla", "odkla", "domkl"),
    "online_admm": ("odkla", "domkl"),
    "d_sgd": ("diffusion", "gradient_tracking"),
    "dgd": ("diffusion", "gradient_tracking"),
    "decentralized_sgd": ("diffusion", "gradient_tracking"),
    "decentralised_sgd": ("diffusion", "gradient_tracking"),
    "decentralized_gradient_descent": ("diffusion", "gradient_tracking"),
    "distributed_gradient_descent": ("diffusion", "gradient_tracking"),
    "sgd": ("polk", "ogd", "random_features", "linear"),
    "stochastic_gradient_descent": ("polk", "ogd", "random_features", "linear"),
    "gradient_descent": ("polk", "ogd", "random_features", "linear"),
    "gaussian_process": ("drfgp", "krls", "newton"),
    "gaussian_process_regression": ("drfgp", "krls", "newton"),
    "gp": ("drfgp", "krls", "newton"),
    "kriging": ("drfgp", "krls", "newton"),
    "ridge": ("batch", "newton", "rls"),
    "kernel_ridge": ("batch", "newton", "krls"),
    "kernel_ridge_regression": ("batch", "newton", "krls"),
    "krr": ("batch", "newton", "krls"),
    "lms": ("linear", "qklms", "diffusion"),
    "least_mean_squares": ("linear", "qklms", "diffusion"),
    "kernel_adaptive_filter": ("qklms", "krls", "rls"),
    "adaptive_filter": ("qklms", "krls", "rls"),
    "multiple_kernel_learning": ("multi_kernel", "raker", "adaraker", "domkl"),
    "multi_kernel_learning": ("multi_kernel", "raker", "adaraker", "domkl"),
    "mkl": ("multi_kernel", "raker", "adaraker", "domkl"),
    "multi_task": ("multitask", "mocha", "ditto", "proximity"),
    "multi_task_learning": ("multitask", "mocha", "ditto", "proximity"),
    "personalized": ("ditto", "multitask", "mocha", "proximity"),
    "personalized_learning": ("ditto", "multitask", "mocha", "proximity"),
    "kernel_pca": ("okfe", "okfeb"),
    "kpca": ("okfe", "okfeb"),
    "risk_averse": ("colk", "cvar", "semivariance"),
    "reinforcement_learning": ("policy_evaluation", "markov_reward"),
    "temporal_difference": ("policy_evaluation", "markov_reward"),
    "td": ("policy_evaluation", "markov_reward"),
    "density_estimation": ("spppot", "poisson_process", "gaussian_density"),
    "point_process": ("spppot", "poisson_process"),
    "komp": ("polk", "epsilon"),
    "asynchronous": ("bernoulli", "poisson", "stragglers"),
    "packet_loss": ("uniform", "bursts"),
    "time_varying": ("activation", "failures", "gossip", "one_peer"),
}
"""Terms are in lower case with underscores; terms for a single part are among the synonyms."""


KIND = re.compile(r"_(kernel|loss|protocol|learner|topology|network|graph|algorithm|method|regression|learning)$")
"""The usual words after a name."""

_PLAIN_RULES: dict[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a string",
    Path: "the path of a file",
}


OF_OTHERS: dict[str, str] = {
    "robust": ": the protocols consensus, proximity and stacking have it",
}
"""The advice on keys that only some parts have, in place of the nearest key."""

SYNONYMS: dict[str, str] = {
    "mse": "squared",
    "l2": "squared",
    "least_squares": "squared",
    "mean_squared_error": "squared",
    "quadratic": "squared",
    "mae": "absolute",
    "l1": "absolute",
    "mean_absolute_error": "absolute",
    "log_loss": "logistic",
    "binary_cross_entropy": "logistic",
    "bce": "logistic",
    "cross_entropy": "multiclass_logistic",
    "categorical_cross_entropy": "multiclass_logistic",
    "softmax": "multiclass_logistic",
    "svm": "hinge",
    "crammer_singer": "multiclass_hinge",
    "poisson": "poisson_process",
    "rbf": "gaussian",
    "squared_exponential": "gaussian",
    "se": "gaussian",
    "radial_basis_function": "gaussian",
    "exponential": "laplacian",
    "cauchy": "student_t",
    "rational_quadratic": "student_t",
    "poly": "polynomial",
    "dot": "linear",
    "rff": "random_features",
    "random_fourier_features": "random_features",
    "fogd": "random_features",
    "fourier_online_gradient_descent": "random_features",
    "multi_kernel_random_features": "raker",
    "nystrom": "nystroem",
    "nogd": "nystroem",
    "dualsgd": "dual_sgd",
    "dsgd": "dual_sgd",
    "dual_space": "dual_sgd",
    "nystroem_online_gradient_descent": "nystroem",
    "ald_krls": "krls",
    "krls_ald": "krls",
    "approximate_linear_dependency": "krls",
    "coke": "dkla",
    "qc_odkla": "odkla",
    "dlm": "odkla",
    "next": "gradient_tracking",
    "diging": "gradient_tracking",
    "pegasos": "bsgd",
    "aldkrls": "krls",
    "kernel_rls": "krls",
    "kernel_recursive_least_squares": "krls",
    "klms": "qklms",
    "kernel_lms": "qklms",
    "recursive_least_squares": "rls",
    "er": "erdos_renyi",
    "gnp": "erdos_renyi",
    "rgg": "random_geometric",
    "geometric": "random_geometric",
    "knn": "nearest_neighbors",
    "k_nearest": "nearest_neighbors",
    "k_nearest_neighbors": "nearest_neighbors",
    "watts_strogatz": "small_world",
    "barabasi_albert": "scale_free",
    "ba": "scale_free",
    "cycle": "ring",
    "line": "path",
    "chain": "path",
    "full": "complete",
    "fully_connected": "complete",
    "lattice": "grid",
    "tree": "balanced_tree",
    "local": "isolated",
    "none": "isolated",
    "independent": "isolated",
    "central": "centralized",
    "csv": "file",
    "mnist": "idx",
}
"""Other usual names of parts, in lower case with underscores, and their names here."""


def join(path: str, key: str) -> str:
    """Return the dotted path of a key in the table at ``path``, which is empty for the file itself."""
    return f"{path}.{key}" if path else key


def last_words(keys: Sequence[str]) -> list[str]:
    """Return the shortest distinct endings of dotted keys.

    Examples
    --------
    >>> last_words(["learner.kernel.bandwidth", "learner.step_size.scale", "protocol.gamma.scale"])
    ['bandwidth', 'step_size.scale', 'gamma.scale']
    """
    last = [key.rpartition(".")[2] for key in keys]
    return [
        name if name != "scale" and last.count(name) == 1 else ".".join(key.split(".")[-2:])
        for key, name in zip(keys, last, strict=True)
    ]


def leaves(table: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    """Yield the dotted key and the text of every value in tables of tables.

    Examples
    --------
    >>> dict(leaves({"rounds": 5, "learner": {"name": "polk", "kernel": {"bandwidth": 0.5}}}))
    {'rounds': '5', 'learner.name': 'polk', 'learner.kernel.bandwidth': '0.5'}
    """
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from leaves(value, join(above, key))
        else:
            yield join(above, key), value if isinstance(value, str) else toml(value)


def plain(value: Any) -> Any:
    """Return a value in the types of a TOML file: arrays and tuples as lists, paths as strings, mappings as dicts."""
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    import numpy as np  # commands set the number of its threads before this import

    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    return value


LAYOUT = "\n\t"
"""Invisible characters that lay out text."""

UNSEEN = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")
"""Invisible characters that Python counts as printable: fillers, joiners, variation selectors."""


def visible(text: str) -> str:
    r"""Escape control and invisible characters in text, as ``repr`` does.

    Names of nodes, columns and files may contain such characters, and may differ only in them.

    Examples
    --------
    >>> print(visible("a\x1b[31m\u200b b\xa0c"))
    a\x1b[31m\u200b b\xa0c
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        letter
        if letter in LAYOUT or (letter.isprintable() and not UNSEEN.match(letter))
        else letter.encode("unicode_escape").decode("ascii")
        for letter in text
    )


def shown(value: Any) -> str:
    """Return a value in the notation of the experiment file, with at most 80 characters."""
    text = visible(toml(plain(value)))
    return text if len(text) <= 80 else f"{text[:77]}..."


GIVEN_GRAPH = {"name": "file", "path": "graph.graphml", "format": "auto"}
"""The table of a network given as a graph in Python; its file is in the run folder."""

GIVEN = {"graph.graphml": "graph", "rows.npz": "rows", "rows.parquet": "rows"}
"""The names in titles of networks and data given in Python, by their files in a run folder."""

PART = re.compile(r"[^\W\d][\w.]*:[^\W\d][\w.<>]*")
"""The name of a user's part: "module:Class"."""


def short_name(name: str) -> str:
    """Return the name of a part without its module.

    Examples
    --------
    >>> short_name("__main__:Chirp"), short_name("polk")
    ('Chirp', 'polk')
    """
    return name.rpartition(":")[2].rpartition(".")[2] if PART.fullmatch(name) else name


def called(table: Any) -> str:
    """Return the name of a part from its table or name; for parts from a file, the file's name.

    Examples
    --------
    >>> called("sensor_field"), called({"name": "file", "path": "data/red_wine.csv", "epochs": 3})
    ('sensor_field', 'red_wine.csv')
    >>> called("networkx:petersen_graph"), called(GIVEN_GRAPH)
    ('petersen_graph', 'graph')
    """
    found = table if isinstance(table, Mapping) else {"name": table}
    if found.get("name") == "file" and found.get("path"):
        path = str(found["path"])
        return GIVEN.get(path, Path(path).name)
    return short_name(str(found.get("name", "")))


BARE = re.compile(r"[A-Za-z0-9_-]+")
"""Keys that need no quotes in a file."""


def toml(value: Any) -> str:
    """Return a plain value as TOML on one line.

    Examples
    --------
    >>> toml({"name": "ray", "nodes_per_actor": 4})
    '{ name = "ray", nodes_per_actor = 4 }'
    >>> toml({"CO(GT)": -200})
    '{ "CO(GT)" = -200 }'
    """
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    if isinstance(value, dict):
        named = ((key if BARE.fullmatch(key) else toml(key), entry) for key, entry in value.items())
        entries = ", ".join(f"{key} = {toml(entry)}" for key, entry in named)
        return f"{{ {entries} }}" if entries else "{}"
    return str(value)  # numbers, inf and nan included, and dates, are written as they print


def underscored(name: str) -> str:
    """Return a name in lower case, with underscores for blanks and hyphens.

    Examples
    --------
    >>> underscored("Random Fourier-Features ")
    'random_fourier_features'
    """
    return re.sub(r"[\s-]+", "_", name.strip().lower())


def meant(name: str) -> tuple[str, ...]:
    """Return the parts with another usual name, or the parts of a common term; empty for other words.

    Examples
    --------
    >>> meant("mean squared error"), meant("RBF kernel"), meant("ADMM")
    (('squared',), ('gaussian',), ('dkla', 'odkla', 'domkl'))
    """
    asked = underscored(name)
    for word in (asked, KIND.sub("", asked)):
        if word in SYNONYMS:
            return (SYNONYMS[word],)
        if word in TERMS:
            return TERMS[word]
    return ()


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a half sentence with the known name for a synonym or a mistyped name.

    Empty without a similar name.

    Examples
    --------
    >>> nearest("MSE", ["squared", "absolute"])
    '; did you mean "squared"?'
    >>> nearest("squarred", ["squared", "absolute"])
    '; did you mean "squared"?'
    >>> nearest("temp", ["Humidity (%)", "Temp (degrees)"])
    '; did you mean "Temp (degrees)"?'
    """
    known = list(known)
    lower = name.lower()
    found = [other for other in meant(name) if other in known]
    if not found and lower:
        written = {other.lower(): other for other in reversed(known)}
        begun = [other for other in written if other.startswith(lower)]  # for example, a name without its unit
        close = get_close_matches(lower, written, n=1) or sorted(begun, key=len)[:1]
        found = [written[other] for other in close]
    return f"; did you mean {listed([shown(other) for other in found])}?" if found else ""


def listed(names: Sequence[str], word: str = "or") -> str:
    """Return names as "a, b or c"."""
    return f" {word} ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def some(names: Sequence[str]) -> str:
    """Return all names, or the first and the last of many, since a table's target is often there.

    Examples
    --------
    >>> some(["node", *map(str, range(100)), "y"])[-18:]
    '16, ..., 98, 99, y'
    """
    shown = names if len(names) <= 20 else [*names[:18], "...", *names[-3:]]
    return visible(", ".join(shown))


def number_of(count: float, noun: str) -> str:
    """Return a count with its noun in singular or plural, with commas between thousands.

    Examples
    --------
    >>> number_of(1, "node"), number_of(1200, "node"), number_of(0, "branch")
    ('1 node', '1,200 nodes', '0 branches')
    """
    several = f"{noun}es" if noun.endswith(("s", "ch", "sh", "x")) else f"{noun}s"
    return f"{count:,} {noun if count == 1 else several}"


def choices(name: str, known: Sequence[str]) -> str:
    """Return the end of a message about an unknown name: the known names, and the most similar one."""
    return f": use one of {some(known)}{nearest(name, known)}"


def rule(hint: Any) -> str:
    """Describe the values that an annotation permits.

    Examples
    --------
    >>> rule(float | None)
    'a number'
    >>> rule(tuple[int, ...])
    'a list, each entry a whole number'
    """
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return rule(arguments[0])
    if origin in (Union, UnionType):
        # A path is given as a string, so "a string or the path of a file" would be redundant.
        kept = [entry for entry in arguments if entry is not NoneType and not (entry is str and Path in arguments)]
        return " or ".join(dict.fromkeys(rule(entry) for entry in kept))
    if origin is Literal:
        return listed([shown(entry) for entry in arguments])
    if origin is tuple and arguments[-1:] != (Ellipsis,):
        return f"a list of {len(arguments)} values"
    if isinstance(origin, type) and issubclass(origin, Mapping) and arguments[1] is Any:
        return "a table"
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return f"a table, each entry {rule(arguments[1])}"
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return f"a list, each entry {rule(arguments[0])}"
    return _PLAIN_RULES.get(hint, "a value of another type")


def no_part(value: object, kind: str) -> str:
    """Describe how a user's class becomes a part, for a Python value that is not a part.

    Examples
    --------
    >>> no_part(3, "kernel"), no_part(print, "topology")
    ('', '')
    """
    cls = value if isinstance(value, type) else type(value)
    if cls.__module__ in ("builtins", "types", "numpy"):
        return ""
    if dataclasses.is_dataclass(cls):
        return f"; {cls.__name__} is a class: give one of its objects, {cls.__name__}()"
    return (
        f"; one of your own is an object of a class under @dataclass(frozen=True), which {cls.__name__} is not, with "
        f"the methods that docs/contributing.md says a {kind} has"
    )
