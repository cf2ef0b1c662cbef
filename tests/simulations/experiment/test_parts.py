"""The table of names, and the way from a table of the experiment file to a part and back."""

from __future__ import annotations

import dataclasses
import datetime
import math
import pickle
from dataclasses import dataclass, field
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_type_hints

import networkx as nx
import numpy as np
import pytest

from kernelswarm import RefusedKey
from kernelswarm.agents.learners.polk import Polk
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.simulations.core.errors import InputError, rule, shown
from kernelswarm.simulations.experiment.parts import PARTS, build, default_of, describe, fill
from kernelswarm.simulations.experiment.registry import find, part_name

# Values for the keys that have no default.
REQUIRED: dict[str, Any] = {
    "paths": ["0.edges"],
    "epsilon": 0.1,
    "parsimony": 0.1,
    "quadratic": 0.1,
    "proportional": 0.1,
    "target_order": 10,
    "value": 0.1,
    "initial": 0.1,
    "scale": 0.1,
    "horizon": 100,
    "path": "graph.edgelist",
    "dataset": "iris",
    "images": "images.gz",
    "labels": "labels.gz",
    "shape": [4, 5],
}
EVERY = [(kind, name) for kind, table in PARTS.items() for name in table]


def required(kind: str, name: str) -> dict[str, Any]:
    fields = dataclasses.fields(find(kind, name, kind))
    return {entry.name: REQUIRED.get(entry.name, 1) for entry in fields if default_of(entry) is dataclasses.MISSING}


def refusal(*arguments: Any, **more: Any) -> str:
    with pytest.raises(InputError) as refused:
        build(*arguments, **more)
    return str(refused.value)


@pytest.mark.parametrize(("kind", "name"), EVERY)
def test_description_of_every_part_builds_an_equal_part(kind: str, name: str) -> None:
    part = build(kind, {"name": name, **required(kind, name)})
    assert part_name(part) == name
    assert build(kind, describe(part)) == part


def keys_of(cls: type[Any]) -> list[dataclasses.Field[Any]]:
    return [entry for entry in dataclasses.fields(cls) if entry.init]


@pytest.mark.parametrize(("kind", "name"), EVERY)
def test_every_key_can_be_checked_and_written(kind: str, name: str) -> None:
    cls = find(kind, name, kind)
    hints = get_type_hints(cls)
    for entry in keys_of(cls):
        assert entry.name != "name"
        assert "part" in entry.metadata or rule(hints[entry.name]) != "a value of another type"
        if NoneType in get_args(hints[entry.name]):  # a file has no null: leaving the key out must mean it
            assert default_of(entry) in (None, dataclasses.MISSING)
        if "part" in entry.metadata:
            assert entry.metadata["part"] in PARTS


@pytest.mark.parametrize(
    ("key", "value", "kind"),
    [
        ("kernel", "gaussian", "kernel"),
        ("loss", {"name": "huber"}, "loss"),
        ("budget", 0.1, "budget"),
        ("step_size", 0.2, "schedule"),
        ("step_size", "auto", "schedule"),
    ],
)
def test_words_in_a_finished_part_are_refused(key: str, value: Any, kind: str) -> None:
    with pytest.raises(ValueError, match=rf"{key} = .* must be a {kind}"):
        build("learner", Polk(**{key: value}), "learner")


def test_user_class_is_imported_from_the_folder_of_the_experiment(tmp_path: Path) -> None:
    (tmp_path / "folder_kernels.py").write_text(
        "from dataclasses import dataclass\n"
        "class Outer:\n"
        "    @dataclass(frozen=True)\n"
        "    class Cosine:\n"
        '        """A cosine."""\n'
        "        period: float = 2.0\n"
        "        def cross(self, points, centers): ...\n"
        "        def diagonal(self, points): ...\n"
    )
    part = build("kernel", {"name": "folder_kernels:Outer.Cosine", "period": 3}, folder=tmp_path)
    assert describe(part) == {"name": "folder_kernels:Outer.Cosine", "period": 3.0}
    assert build("kernel", describe(part)) == part


@dataclass(frozen=True)
class Inner:
    """A table of its own."""

    depth: int = 1


@dataclass(frozen=True)
class Sample:
    """A part with a field of every type."""

    ratio: float = 0.5
    count: int = 1
    flag: bool = False
    word: str = "a"
    mode: Literal["slow", "fast"] = "slow"
    file: Path | None = None
    either: str | Path = "x"
    pair: tuple[float, float] = (0.0, 1.0)
    several: tuple[int, ...] = ()
    table: dict[str, float] = field(default_factory=dict)
    limit: float = math.inf
    inner: Inner = Inner()
    kernel: Any = field(default=Gaussian(), metadata={"part": "kernel"})

    def __post_init__(self) -> None:
        if self.ratio < 0:
            raise RefusedKey("ratio", f"= {self.ratio!r} must not be negative")
        if self.count > 9 and self.flag:
            raise ValueError("many of them cannot be flagged")
        if self.count == 8:
            raise ValueError("count = 8 words begin like a key, and nobody reads a key out of them")


def sample(**table: Any) -> Sample:
    filled: Sample = fill(Sample, table, "here", Path("/data"), title="a sample")
    return filled


def test_numpy_values_are_numbers() -> None:
    filled = sample(count=np.int64(3), several=np.array([1, 2]), ratio=np.float64(0.25))
    assert (filled.count, filled.several, filled.ratio) == (3, (1, 2), 0.25)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"ratio": "1"}, 'here.ratio = "1" must be a number'),
        ({"count": 8}, "here: count = 8 words begin like a key, and nobody reads a key out of them"),
        ({"ratio": True}, "here.ratio = true must be a number"),
        ({"ratio": datetime.date(2026, 1, 2)}, "here.ratio = 2026-01-02 must be a number"),
        ({"ratio": math.nan}, "here.ratio = nan must be a number, and finite"),
        ({"ratio": math.inf}, "here.ratio = inf must be a number, and finite"),
        ({"limit": -math.inf}, "here.limit = -inf must be a number, and finite"),
        ({"pair": [0.0, math.nan]}, "here.pair = [0.0, nan] must be a list of 2 values, and finite"),
        ({"count": 1.0}, "here.count = 1.0 must be a whole number"),
        ({"count": False}, "here.count = false must be a whole number"),
        ({"count": 2**63}, "here.count = 9223372036854775808 must be a whole number of at most 64 bits"),
        ({"flag": 1}, "here.flag = 1 must be true or false"),
        ({"word": 3}, "here.word = 3 must be a string"),
        ({"mode": "fats"}, 'here.mode = "fats" must be "slow" or "fast"; did you mean "fast"?'),
        ({"mode": 1}, 'here.mode = 1 must be "slow" or "fast"'),
        ({"file": 3}, "here.file = 3 must be the path of a file"),
        ({"either": 3}, "here.either = 3 must be the path of a file"),
        ({"pair": [1.0]}, "here.pair = [1.0] must be a list of 2 values"),
        ({"several": 1}, "here.several = 1 must be a list, each entry a whole number"),
        ({"several": [1, "2"]}, 'here.several = [1, "2"] must be a list, each entry a whole number'),
        ({"table": {"0-1": "x"}}, 'here.table = { 0-1 = "x" } must be a table, each entry a number'),
        ({"inner": 3}, "here.inner = 3 must be a table"),
        ({"inner": {"dept": 3}}, 'here.inner.dept = 3 is not a key of here.inner; did you mean "depth"?'),
        ({"kernel": {"name": "gausian"}}, 'here.kernel.name = "gausian" is not the name of a kernel'),
        ({"ration": 3}, 'here.ration = 3 is not a key of a sample; did you mean "ratio"? (its keys: ratio, count,'),
        ({"ratio": -1}, "here.ratio = -1.0 must not be negative"),
        ({"count": 10, "flag": True}, "here: many of them cannot be flagged"),
    ],
)
def test_refusal_names_key_value_and_rule(table: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as refused:
        sample(**table)
    assert message in str(refused.value)


@pytest.mark.parametrize("kind", PARTS)
def test_unknown_name_lists_the_known_ones(kind: str) -> None:
    message = refusal(kind, "zzz")
    assert message.startswith(f'{kind} = "zzz" is not the name of a {kind} (known: ')
    assert all(name in message for name in PARTS[kind])


def begins_with_another(kind: str, name: str) -> bool:
    return any(name != other and name.startswith(other) for other in PARTS[kind])


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind, name in EVERY if len(name) > 4 and not begins_with_another(kind, name)]
)
def test_mistyped_name_gets_a_suggestion(kind: str, name: str) -> None:
    wrong = name[:-2] + name[-1] + name[-2] + "x"
    assert f'did you mean "{name}"?' in refusal(kind, {"name": wrong})


def test_budget_that_is_none_suggests_the_nearest() -> None:
    message = refusal("learner", {"name": "polk", "budget": {"epsilom": 1}})
    assert message.startswith('learner.budget = { epsilom = 1 } names no budget; did you mean "epsilon"?')


def test_nameless_table_is_refused_where_there_is_no_default() -> None:
    assert refusal("topology", {"nodes": 3}).startswith("topology = { nodes = 3 } has no name: add name = one of ring")


def test_missing_key_says_what_it_needs() -> None:
    message = refusal("learner", {"name": "polk", "step_size": {"name": "diminishing"}})
    assert message == "learner.step_size.initial is missing: diminishing needs a number"
    message = refusal("learner", {"name": "polk", "kernel": "images"})
    assert message == "learner.kernel.shape is missing: images needs a list of 2 values, such as [28, 28]"


def test_range_of_a_scalar_is_named_without_its_inner_key() -> None:
    assert refusal("learner", {"name": "polk", "step_size": -1}).startswith("learner.step_size = -1.0 must be positive")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no_such_module:Kernel", "there is no module 'no_such_module'"),
        ("dataclasses:Nothing", "dataclasses has no Nothing"),
        ("kernelswarm.agents.parts.kernels:Gausian", 'did you mean "Gaussian"?'),
        ("math:pi", "is a float: it must be a frozen dataclass"),
        ("collections:OrderedDict", "is a type: it must be a frozen dataclass"),
        (":Kernel", 'must look like "package.module:Class"'),
        ("module:", 'must look like "package.module:Class"'),
        ("../module:Class", 'must look like "package.module:Class"'),
        ("wrong_syntax:Kernel", "importing wrong_syntax failed: "),
        ("wrong_import:Kernel", "importing wrong_import failed: No module named 'no_such_module'"),
    ],
)
def test_refused_imports_say_why(name: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "wrong_syntax.py").write_text("class Kernel(:\n")
    (tmp_path / "wrong_import.py").write_text("import no_such_module\n")
    text = refusal("kernel", {"name": name}, folder=tmp_path)
    assert text.startswith(f"kernel.name = {shown(name)}")
    assert message in text


def test_function_makes_a_network() -> None:
    topology = build("topology", {"name": "networkx:circulant_graph", "n": 6, "offsets": [1, 2]})
    assert describe(topology) == {"name": "networkx:circulant_graph", "n": 6, "offsets": [1, 2]}
    assert build("topology", describe(topology)) == topology
    graph = topology.build(np.random.default_rng(0))
    assert nx.utils.graphs_equal(graph, nx.circulant_graph(6, [1, 2]))


def test_random_function_follows_the_generator_until_connected() -> None:
    topology = build("topology", {"name": "networkx:gnp_random_graph", "n": 12, "p": 0.2})
    drawn = [topology.build(np.random.default_rng(seed)) for seed in (0, 0, 1, 2, 3)]
    assert set(drawn[0].edges) == set(drawn[1].edges) != set(drawn[2].edges)
    assert all(nx.is_connected(graph) for graph in drawn)
    never = build("topology", {"name": "networkx:gnp_random_graph", "n": 12, "p": 0.0})
    with pytest.raises(ValueError, match="gave no connected network of 12 nodes in 100 draws"):
        never.build(np.random.default_rng(0))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            {"name": "networkx:circulant_graph", "n": 6},
            "topology.offsets is missing: networkx:circulant_graph needs it",
        ),
        (
            {"name": "networkx:petersen_graph", "nodes": 6},
            "topology.nodes = 6 is not an argument of networkx:petersen_graph (it takes create_using)",
        ),
        ({"name": "networkx:no_graph"}, "networkx has no no_graph"),
        ({"name": "math:floor"}, "topology: math:floor takes its arguments by position"),
    ],
)
def test_arguments_of_a_function_are_checked(table: dict[str, Any], message: str) -> None:
    assert message in refusal("topology", table)


def test_a_refused_key_stands_where_its_table_does_and_travels_between_processes() -> None:
    refused = RefusedKey("gamma.scale", "= 0 must be positive")
    assert str(refused) == refused.at("") == "gamma.scale = 0 must be positive"
    assert refused.at("protocol") == "protocol.gamma.scale = 0 must be positive"
    assert RefusedKey("value", "= 0 is too small").at("step_size", alone="value") == "step_size = 0 is too small"
    copied = pickle.loads(pickle.dumps(refused))
    assert (copied.key, copied.message) == ("gamma.scale", "= 0 must be positive")
