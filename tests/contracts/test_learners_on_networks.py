"""Every learner learns under every protocol, on every backend with the same bits, and is read back from its run."""

from __future__ import annotations

import functools
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from matplotlib.figure import Figure

from kernelswarm.agents.learners.contract import Learner
from kernelswarm.agents.nodes.node import DivergenceError
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.engine.model_arrays import function_arrays
from kernelswarm.simulations.engine.ray_backend import Ray
from kernelswarm.simulations.engine.serial import SerialEngine
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.experiment.parts import build
from kernelswarm.simulations.figures.plots import draw
from kernelswarm.simulations.figures.result_plots import plot_model
from kernelswarm.simulations.records.model import Model
from kernelswarm.simulations.records.model_files import save
from kernelswarm.simulations.records.run_folder import load, read, write
from kernelswarm.simulations.running.network import open_network
from kernelswarm.simulations.running.simulation import resume, run, simulate
from tests.contracts.specimens import SIZES, TRANSITIONS
from tests.helpers.pairs import in_pairs

GRAPH = nx.Graph([(0, 1), (1, 2), (2, 0), (2, 7)])
BUDGETED = [
    ["ogd", "norma", "bsgd", "npbsgd"],
    ["dual_sgd", "bogd", "forgetron", "bpa"],
    ["projectron", "projectron_plus"],
]
EVERY = pytest.mark.parametrize("name", SIZES)
EVERY_WITH_A_LOSS = pytest.mark.parametrize("name", [name for name in SIZES if name != "policy_evaluation"])


def experiment(name: str, protocol: object, stream: object = "sine_regression", **keys: object) -> Experiment:
    learner = {"name": name, "step_size": 0.1, "batch_size": 2, **SIZES[name], **keys.pop("learner", {})}  # type: ignore[dict-item]
    stream = TRANSITIONS if name == "policy_evaluation" else stream
    tables = {"topology": GRAPH, "stream": stream, "learner": learner, "protocol": protocol}
    return Experiment.from_dict({**tables, "rounds": 100, "evaluate_every": 100, **keys})


@functools.cache
def zero_risk(name: str) -> float:
    """The mean risk of the function 0 where a learner learns the usual stream, whatever the protocol."""
    description = experiment(name, "isolated")
    network = open_network(description)
    loss = description.learner.loss
    held_out = [source.held_out(0) for source in network.source.nodes]
    return float(np.mean([loss.values(np.zeros((len(h.points), network.outputs)), h.targets) for h in held_out]))


@in_pairs(
    name=SIZES,
    rule=["consensus", "proximity"],
    form=["one_sided", "symmetric"],
    step=["explicit", "implicit"],
)
def test_every_learner_learns_under_every_protocol(name: str, rule: str, form: str, step: str) -> None:
    # Without a bound on the dual variables explicit primal-dual steps diverge on noise, with every learner in the end.
    strength = {"penalty": 0.5} if rule == "consensus" else {"dual_max": 0.3}
    description = experiment(name, {"name": rule, "form": form, "step": step, **strength})
    result = simulate(description)
    assert result.final["risk"] < (0.95 if name == "linear" else 0.6) * zero_risk(name)
    assert np.isfinite(result.final["rkhs_distance"])
    assert 0.0 < result.final["disagreement"] < 1.0


@EVERY
def test_penalty_draws_the_functions_together(name: str) -> None:
    stream = {"name": "sensor_field", "noise": 0.2}
    # These draw the points that go by chance, at each node others, which no coupling undoes: here nothing has to go.
    keys = {"learner": {"budget_size": 2000}} if name in ("bogd", "npbsgd") else {}
    apart, together = (
        simulate(experiment(name, {"name": "consensus", "penalty": penalty, "form": "one_sided"}, stream, **keys)).final
        for penalty in (0.0, 20.0)
    )
    assert together["disagreement"] < 0.2 * apart["disagreement"]
    assert together["rkhs_distance"] < apart["rkhs_distance"]


@pytest.mark.usefixtures("kept_ray")
@pytest.mark.parametrize(
    "name",
    ["spppot", "colk", "policy_evaluation", "nystroem", "random_features", "linear", "rbf_network", "okfeb"],
)
def test_ray_has_the_serial_backends_bits(name: str) -> None:
    description = experiment(
        name, {"name": "proximity", "form": "symmetric", "step": "implicit"}, {"name": "sensor_field", "noise": 0.2}
    )
    wanted, found = simulate(description), simulate(description.with_changes({"backend": Ray(nodes_per_actor=2)}))
    assert found.summary["digest"] == wanted.summary["digest"]
    for column in ("risk", "global_risk", "model_order", "compression_error"):
        np.testing.assert_array_equal(found.nodes[column], wanted.nodes[column])


@pytest.mark.usefixtures("kept_ray")
@pytest.mark.parametrize("names", BUDGETED, ids=" ".join)
def test_ray_and_a_resumed_run_have_the_serial_backends_bits(names: list[str], tmp_path: Path) -> None:
    # Node by node another learner, so that few runs hold all of them to it.
    own = [
        {"nodes": [node], "learner": {"name": name, "step_size": 0.1, **SIZES[name]}}
        for node, name in zip(sorted(GRAPH), names, strict=False)
    ]
    protocol = {"name": "consensus", "form": "symmetric", "step": "implicit"}
    description = experiment("ogd", protocol, {"name": "sensor_field", "noise": 0.2}, node=own, rounds=60)
    wanted, found = simulate(description), simulate(description.with_changes({"backend": Ray(nodes_per_actor=2)}))
    assert found.summary["digest"] == wanted.summary["digest"]
    run(description.with_changes({"rounds": 25, "checkpoint_every": 25}), tmp_path / "run")
    resumed = resume(tmp_path / "run", ["rounds=60"]).result
    assert resumed.summary["digest"] == wanted.summary["digest"]


@pytest.mark.usefixtures("sketched")
@pytest.mark.parametrize("task", ["regression", "classification"])
@EVERY_WITH_A_LOSS
def test_a_run_is_read_back_with_the_same_predictions(name: str, task: str, tmp_path) -> None:
    regression = task == "regression"
    description = experiment(
        name,
        {"name": "consensus", "step": "implicit"},
        "sine_regression" if regression else {"name": "gaussian_mixture", "classes": 3},
        learner={"loss": "squared" if regression else "multiclass_logistic"},
        rounds=40,  # enough for points that have gone, and shares that differ
        evaluate_every=20,
    )
    network = open_network(description)
    engine = SerialEngine([network.plans])
    engine.run(description.rounds)
    functions = {agent.node: agent.function for agent in engine.blocks[0].agents}
    result = simulate(description)
    write(result, tmp_path / "run")
    if name in {"polk", "random_features"}:  # with a dictionary and without, as all the others' functions are
        draw(read(tmp_path / "run"), tmp_path / "figures")
        assert (tmp_path / "figures" / ("functions.png" if regression else "regions.png")).exists()
    for place, node in enumerate(GRAPH):
        points = network.source.nodes[place].held_out(0).points
        model = load(tmp_path / "run", node)
        np.testing.assert_array_equal(model.evaluate(points), functions[node].values(points))
        assert model.model_order == functions[node].order
        if place > 0:  # a file is made of any model alike
            continue
        save(model, tmp_path / "model.npz")
        again = load(tmp_path / "model.npz")
        np.testing.assert_array_equal(again.evaluate(points), model.evaluate(points))
        np.testing.assert_array_equal(again.predict(points), model.predict(points))
        assert repr(again) == repr(model)


@EVERY
def test_the_saved_arrays_are_those_the_page_lists(name: str) -> None:
    result = simulate(experiment(name, "isolated", rounds=5))
    listed = {
        "polk": {"points", "weights"},
        "spppot": {"points", "duals"},
        "colk": {"points", "weights"},
        "policy_evaluation": {"points", "weights"},
        "nystroem": {"points", "weights"},
        "shared_nystroem": {"points", "basis", "mixing", "coefficients"},
        "random_features": {"frequencies", "phases", "weights"},
        "rls": {"frequencies", "phases", "weights"},
        "raker": {"frequencies", "phases", "weights"},
        "adaraker": {"frequencies", "phases", "weights"},
        "linear": {"weights", "intercept"},
        "okfe": {"points", "basis", "mixing", "coefficients"},
        "okfeb": {"points", "basis", "mixing", "coefficients"},
        "rbf_network": {"points", "weights"},
        "dual_sgd": {"points", "weights", "frequencies", "phases", "coefficients"},
        "multi_kernel": {"shares", *(f"{array}_of_{k}" for array in ("points", "weights") for k in range(3))},
    }
    assert {name: set(arrays) for name, arrays in function_arrays(result.models).items()} == dict.fromkeys(
        sorted(GRAPH), listed.get(name, listed["polk"])
    )


def test_nodes_may_have_different_learners() -> None:
    own = [{"nodes": [0], "learner": {"name": "linear"}}, {"nodes": [7], "learner": {"name": "nystroem"}}]
    description = experiment("polk", {"name": "consensus", "form": "symmetric", "step": "implicit"}, node=own)
    result = simulate(description)
    assert result.final["risk"] < 0.7 * zero_risk("polk")
    assert result.summary["final"]["rkhs_distance"] is None  # functions of two spaces
    assert {key for key in result.models if key.endswith("_0")} == {"weights_0", "intercept_0"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"learner.landmarks": 2.5}, r"^learner.landmarks = 2.5 must be a whole number"),
        ({"learner.landmark": 5}, r'^learner.landmark = 5 is not a key of nystroem; did you mean "landmarks"\?'),
        ({"learner.name": "random_features", "learner.kernel": "linear"}, r"^learner.kernel = .* no random Fourier"),
        ({"learner.name": "linear", "learner.intercept": 1}, r"^learner.intercept = 1 must be true or false"),
        ({"learner.name": "linear", "learner.kernel": "linear"}, r"^learner.kernel = .* is not a key of linear"),
        ({"learner.name": "nystrom"}, r'^learner.name = "nystrom" .*did you mean "nystroem"\?'),
        ({"learner.name": "okfeb", "learner.rank": 31}, r"^learner.rank = 31 must not be above budget_size = 30: "),
        ({"learner.name": "okfeb", "learner.recency": 0.0}, r"^learner.recency = 0.0 must be in \(0, 1\]: "),
        ({"learner.name": "okfeb", "learner.censoring": -0.1}, r"^learner.censoring = -0.1 must not be negative: "),
        ({"learner.name": "okfe", "learner.rank": 0}, r"^learner.rank = 0 must be at least 1: "),
        (
            {"learner.name": "okfe", "learner.subspace_update": "parametrc"},
            r'^learner.subspace_update = "parametrc" must be .*did you mean "parametric"',
        ),
        ({"learner.step_size": 1.5}, r"^learner.step_size = 1.5 is unstable at node 0"),
        ({"learner.name": "random_features", "learner.step_size": 2.0}, "^learner.step_size = 2 is unstable"),
    ],
)
def test_refused_input_is_named_by_its_key(change: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        open_network(
            experiment("nystroem", {"name": "consensus", "as_published": True, "penalty": 1.0}).with_changes(change)
        )


def test_an_unbounded_learner_that_diverges_is_stopped() -> None:
    from kernelswarm.simulations.core.errors import SimulationError

    with pytest.raises(SimulationError, match=r"diverged in round \d+: its values reached .*: lower learner.step_size"):
        simulate(experiment("linear", {"name": "isolated", "step": "explicit"}, learner={"step_size": 3.0}))
    assert issubclass(DivergenceError, ArithmeticError)


@pytest.mark.parametrize("inputs", [1, 2])
@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("name", ["random_features", "linear"])
def test_functions_without_a_dictionary_are_drawn_without_one(name: str, loss: str, inputs: int) -> None:
    keys = {"kernel": {"bandwidth": 0.5}} if name == "random_features" else {}
    learner: Learner = build("learner", {"name": name, "loss": loss, "step_size": 0.1, **keys})
    state = learner.init(inputs, 1)
    own = learner.evaluate(state, np.ones((1, inputs)))
    learner.step(state, [own], [np.ones((1, 1))], None, np.ones((1, 1)))
    figure = Figure()
    axes = figure.subplots()
    classes = None if loss == "squared" else np.array(["no", "yes"])
    plot_model(Model(learner.function(state), learner.loss, classes), axes)
    legend = axes.get_legend()
    assert (legend is None) == (loss == "squared")
    if legend is not None:
        assert [text.get_text() for text in legend.get_texts()] == ["no", "yes"]


def test_a_file_of_features_takes_no_kernel(tmp_path) -> None:
    function = build("learner", {"name": "random_features", "kernel": {"bandwidth": 0.5}}).init(2, 1).function
    save(Model(function, build("loss", "squared")), tmp_path / "model.npz")
    with pytest.raises(InputError, match=r"holds no kernel expansion: leave out kernel = Gaussian"):
        load(tmp_path / "model.npz", kernel=Gaussian(1.0))
