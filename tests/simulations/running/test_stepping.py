"""A simulation that is stepped, looked at, stopped or extended by callbacks computes what one in one go does."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import networkx as nx
import numba
import numpy as np
import pytest
from threadpoolctl import threadpool_info

from kernelswarm import InputError, Simulation, SimulationError, State, read_run, resume, run, simulate
from kernelswarm.simulations.engine.model_arrays import digest
from kernelswarm.simulations.running import driver

GRAPH = nx.Graph([(0, 1), (1, 2), (2, 0), (2, 7)])
KEYS: dict[str, Any] = {
    "topology": GRAPH,
    "stream": {"name": "sensor_field", "noise": 0.2},
    "learner": {"name": "polk", "kernel": {"name": "gaussian", "bandwidth": 0.3}, "step_size": 0.2},
    "protocol": "proximity",
    "rounds": 50,
    "evaluate_every": 20,
}
POINTS = np.linspace(0.0, 1.0, 5)[:, None]


def constraint_values(state: State) -> dict[str, Any]:
    """How far neighbours are apart at some points: of the network, the nodes and the directed edges."""
    values = {node: state.model(node).predict(POINTS) for node in state.graph}
    pairs = zip(state.links["source"].tolist(), state.links["target"].tolist(), strict=True)
    apart = np.array([np.abs(values[i] - values[j]).max() for i, j in pairs])
    return {"apart": apart.mean(), "height": [values[node].max() for node in sorted(values)], "gap": apart}


def tables(result: Any) -> dict[str, dict[str, np.ndarray[Any, Any]]]:
    found = {"nodes": dict(result.nodes), "network": dict(result.network), "edges": dict(result.edges)}
    del found["network"]["seconds"]
    return found


@pytest.mark.parametrize("protocol", ["proximity", "consensus", "isolated", "centralized", "batch", "diffusion"])
def test_steps_compute_what_one_go_does(protocol: str) -> None:
    keys = {**KEYS, "protocol": protocol}
    if protocol == "diffusion":  # of weights, which features have
        keys["learner"] = {**KEYS["learner"], "name": "random_features", "features": 20}
    whole = simulate(**keys)
    with Simulation(**keys) as simulation:
        states = [(state.round, digest(state.models), state) for state in simulation]
    result = simulation.result()
    assert result.summary["digest"] == whole.summary["digest"] == states[-1][1]
    np.testing.assert_equal(tables(result), tables(whole))
    assert [round for round, _, _ in states] == whole.network["round"].tolist()
    for place, (round, _, state) in enumerate(states):
        assert {name: column[place] for name, column in result.network.items()} == pytest.approx(state.row, nan_ok=True)
        for table, rows in ((result.nodes, state.nodes), (result.edges, state.links)):
            assert set(table) == set(rows)
            np.testing.assert_equal({name: table[name][table["round"] == round] for name in table}, dict(rows))


def test_models_that_were_not_read_in_time_are_gone() -> None:
    simulation = Simulation(**KEYS)
    unread = next(simulation)
    next(simulation)
    with pytest.raises(InputError, match="the models of round 20 are gone, since the simulation is past it"):
        unread.model(7)


def test_every_so_many_rounds_there_is_a_state() -> None:
    with Simulation(**KEYS, every=15) as simulation:
        assert [state.round for state in simulation] == [15, 30, 45, 50]
    assert simulation.result().summary["digest"] == simulate(**KEYS).summary["digest"]
    assert simulation.result().config["evaluate_every"] == 15


def test_who_stops_early_has_the_run_until_then() -> None:
    shorter = simulate(**{**KEYS, "rounds": 40})

    def stop(state: State) -> None:
        if state.round == 40:
            state.stop()

    with Simulation(**KEYS) as broken:
        for state in broken:
            if state.round == 40:
                break
    stopped = Simulation(**KEYS)
    for state in stopped:
        if state.round == 40:
            stopped.stop()
    for result in (broken.result(), stopped.result(), simulate(**KEYS, callbacks=[stop])):
        assert (result.summary["status"], result.summary["rounds"], result.failed) == ("stopped early", 40, False)
        assert result.summary["digest"] == shorter.summary["digest"] and result.config["rounds"] == 50
        np.testing.assert_equal(tables(result), tables(shorter))
    assert list(broken) == []


def test_a_run_that_was_stopped_early_is_gone_on_with(tmp_path: Path) -> None:
    def stop(state: State) -> None:
        if state.round == 20:
            state.stop()

    stopped = run(folder=tmp_path / "run", callbacks=[stop], checkpoint_every=10, **KEYS)
    assert read_run(stopped.folder).summary["status"] == "stopped early"
    longer = resume(stopped.folder).result
    assert longer.summary["status"] == "done"
    assert longer.summary["digest"] == simulate(**KEYS).summary["digest"]
    np.testing.assert_equal(tables(longer), tables(simulate(**KEYS)))


def test_a_step_may_be_asked_for_by_any_thread() -> None:
    simulation, found = Simulation(**KEYS), []
    for _ in range(4):
        thread = threading.Thread(target=lambda: found.append(next(simulation, None)))
        thread.start()
        thread.join()
    assert [state and state.round for state in found] == [20, 40, 50, None]
    assert simulation.result().summary["digest"] == simulate(**KEYS).summary["digest"]


def test_who_looks_on_changes_nothing() -> None:
    """Neither by what is written to a state, nor by what is written later to what was returned."""
    kept = np.zeros(4)

    def meddle(state: State) -> dict[str, Any]:
        for table in (state.nodes, state.links):
            with pytest.raises(ValueError, match="read-only"):
                table["round"][:] = 7
        for array in state.models.values():
            array.fill(7.0)
        kept[:] = state.round
        return {"mine": kept}

    result, plain = simulate(**KEYS, callbacks=[meddle]), simulate(**KEYS)
    assert result.summary["digest"] == plain.summary["digest"]
    np.testing.assert_array_equal(result.nodes["mine"], result.nodes["round"])
    np.testing.assert_equal({name: result.nodes[name] for name in plain.nodes}, dict(plain.nodes))


@pytest.mark.parametrize("learner", ["polk", "linear", "okfeb"])  # a dictionary, weights alone, both
def test_models_of_a_state_stay_as_they_were(learner: str) -> None:
    table = {"name": learner, "step_size": 0.1} | ({} if learner == "linear" else {"kernel": KEYS["learner"]["kernel"]})
    simulation = Simulation(**{**KEYS, "learner": table})
    state = next(simulation)
    predicted = state.model(7).predict(POINTS)
    next(simulation)
    shorter = simulate(**{**KEYS, "learner": table, "rounds": 20})
    assert digest(state.models) == shorter.summary["digest"]
    np.testing.assert_array_equal(shorter.model(7).predict(POINTS), predicted)


def test_nothing_run_is_no_result() -> None:
    with pytest.raises(InputError, match="nothing has been run yet"):
        Simulation(**KEYS).result()


def test_a_simulation_that_fails_fails_where_it_is_stepped() -> None:
    loud = {"name": "proximity", "form": "one_sided", "step": "explicit", "dual_step": 50.0, "gamma": 0.0}
    with pytest.raises(SimulationError) as first:
        simulate(**{**KEYS, "rounds": 5000, "protocol": loud})
    simulation = Simulation(**{**KEYS, "rounds": 5000, "protocol": loud})
    with pytest.raises(SimulationError) as stepped:
        list(simulation)
    assert str(stepped.value) == str(first.value) and stepped.value.partial.summary["failure"] == "diverged"
    with pytest.raises(SimulationError) as again:
        simulation.result()
    assert again.value is stepped.value


def test_between_steps_no_clock_runs_and_no_thread_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    ahead = [0.0]

    class Clock:
        @staticmethod
        def perf_counter() -> float:
            return time.perf_counter() + ahead[0]

    def slow(state: State) -> None:
        ahead[0] += 1e6

    monkeypatch.setattr(driver, "time", Clock)
    before = [(pool["filepath"], pool["num_threads"]) for pool in threadpool_info()]
    with Simulation(**KEYS, callbacks=[slow]) as simulation:
        for _ in simulation:
            ahead[0] += 1e6
            assert [(pool["filepath"], pool["num_threads"]) for pool in threadpool_info()] == before
    result = simulation.result()
    assert result.network["seconds"][-1] < 1e5 and result.summary["wall_seconds"] < 1e5


def test_what_callbacks_compile_is_subtracted_once() -> None:
    def compiles(state: State) -> None:
        numba.njit(lambda x: x + 1.0)(1.0)  # a function of its own each time

    seconds = simulate(**KEYS, callbacks=[compiles]).network["seconds"]
    assert seconds[0] > 0.0 and (np.diff(seconds) > 0.0).all()


def test_columns_of_callbacks_land_in_the_tables(tmp_path: Path) -> None:
    seen: list[dict[str, Any]] = []

    def keep(state: State) -> dict[str, Any]:
        seen.append(constraint_values(state))
        return seen[-1]

    result = simulate(**KEYS, callbacks=[keep, lambda state: None])
    assert result.network["apart"].tolist() == [found["apart"] for found in seen] and result.final["apart"] is not None
    for table, name in ((result.nodes, "height"), (result.edges, "gap")):
        np.testing.assert_array_equal(table[name], np.concatenate([found[name] for found in seen]))
    assert not {"apart", "gap"} & {*result.nodes} and not {"height", "gap"} & {*result.network}
    folder = run(folder=tmp_path / "run", callbacks=[constraint_values], **KEYS).folder
    np.testing.assert_equal(tables(read_run(folder)), tables(result))
    with Simulation(**KEYS, callbacks=[constraint_values]) as simulation:
        states = list(simulation)
    assert [state.row["apart"] for state in states] == [found["apart"] for found in seen]
    np.testing.assert_array_equal(states[0].links["gap"], seen[0]["gap"])


def test_a_run_with_callbacks_is_gone_on_with_by_the_same(tmp_path: Path) -> None:
    whole = simulate(**{**KEYS, "rounds": 70}, callbacks=[constraint_values])
    folder = run(folder=tmp_path / "run", callbacks=[constraint_values], checkpoint_every=10, **KEYS).folder
    with pytest.raises(InputError, match=r"columns of callbacks \(apart, height, gap\): give the same callbacks again"):
        resume(folder, ["rounds=70"])
    longer = resume(folder, ["rounds=70"], callbacks=[constraint_values]).result
    assert longer.summary["digest"] == whole.summary["digest"]
    np.testing.assert_equal(tables(longer), tables(whole))


def test_a_callback_that_raises_keeps_what_was_measured(tmp_path: Path) -> None:
    def brittle(state: State) -> dict[str, float]:
        if state.round == 40:
            raise ZeroDivisionError("by my own fault")
        return {"mine": 1.0}

    message = (
        r"the callback brittle in round 40 raised ZeroDivisionError: by my own fault \(test_stepping.py, line \d+\)"
    )
    with pytest.raises(SimulationError, match=message) as caught:
        simulate(**KEYS, callbacks=[brittle])
    partial = caught.value.partial
    assert partial.failed and partial.summary["failure"] == "callback" and caught.value.round == 40
    np.testing.assert_array_equal(partial.network["round"], [20, 40])
    np.testing.assert_array_equal(partial.network["mine"], [1.0, np.nan])
    with pytest.raises(SimulationError, match=rf"{message}.*measurements until then are in"):
        run(folder=tmp_path / "run", callbacks=[brittle], **KEYS)
    np.testing.assert_array_equal(read_run(tmp_path / "run").network["mine"], [1.0, np.nan])


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (3.0, "returned a float and must return None or a dict of columns"),
        ({"risk": 1.0}, 'returned "risk", which is measured already: give the column another name'),
        ({"nodes.order": 1.0}, r"returned nodes.order of shape \(\), and it must be \(4,\)"),
        ({"mine": [1.0, 2.0]}, r"returned mine of shape \(2,\): it must be a number, .* 4 nodes or 8 directed edges"),
        ({"mine": "many"}, "returned mine, which holds no numbers"),
        ({7: 1.0}, "returned the key 7: name columns by text"),
    ],
)
def test_what_is_no_column_is_refused(returned: Any, message: str) -> None:
    with pytest.raises(SimulationError, match=rf"the callback <lambda> in round 20 {message}"):
        simulate(**KEYS, callbacks=[lambda state: returned])


def test_columns_stay_the_same_and_have_one_source() -> None:
    with pytest.raises(SimulationError, match=r"columns network.b in round 40 and network.a before: return the same"):
        simulate(**KEYS, callbacks=[lambda state: {"a" if state.round == 20 else "b": 1.0}])
    with pytest.raises(SimulationError, match='returned "a", which comes from two callbacks'):
        simulate(**KEYS, callbacks=[lambda state: {"a": 1.0}] * 2)
    with pytest.raises(
        InputError, match=r"callbacks is a function and must be a list of functions: give callbacks=\[f\]"
    ):
        simulate(**KEYS, callbacks=constraint_values)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"every = 2\.5 must be a whole number of rounds"):
        Simulation(**KEYS, every=2.5)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="callbacks holds a int, and each must be a function of a state"):
        simulate(**KEYS, callbacks=[3])  # type: ignore[list-item]


def test_where_nodes_are_as_many_as_directed_edges_the_name_says_the_table() -> None:
    pair = {**KEYS, "topology": nx.path_graph(2)}
    with pytest.raises(
        SimulationError, match=r'as many nodes as directed edges: call it "nodes\.mine" or "edges\.mine"'
    ):
        simulate(**pair, callbacks=[lambda state: {"mine": [1.0, 2.0]}])
    result = simulate(**pair, callbacks=[lambda state: {"nodes.mine": [1.0, 2.0], "edges.mine": [3.0, 4.0]}])
    assert result.nodes["mine"].tolist() == [1.0, 2.0] * 3 and result.edges["mine"].tolist() == [3.0, 4.0] * 3
