"""The round is compiled beside the learner's step where neither has been compiled before."""

import importlib
from dataclasses import replace
from typing import Any

import pytest
from numba.core import config

from kernelswarm.agents.nodes.rounds import run_rounds
from kernelswarm.protocols.core.compiling import cached_njit
from kernelswarm.simulations.core import parallel
from kernelswarm.simulations.core.compiling import is_kept
from kernelswarm.simulations.engine import cache_warmup
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.network import open_network
from kernelswarm.simulations.running.simulation import simulate

pytestmark = pytest.mark.skipif(config.DISABLE_JIT, reason="nothing is compiled")

TABLE: dict[str, Any] = {
    "rounds": 20,
    "evaluate_every": 10,
    "topology": {"name": "ring", "nodes": 4},
    "stream": {"name": "gaussian_mixture", "classes": 3},
    "learner": {"name": "polk", "loss": "multiclass_logistic", "batch_size": 2, "step_size": 0.5},
    "protocol": {"name": "consensus"},
    "evaluation": {"local_samples": 20, "global_samples": 40},
    "backend": {"name": "serial"},
}


@pytest.fixture
def calls(monkeypatch):
    """Whether the calls beside this process returned, where no round counts as compiled before."""
    returned: list[bool] = []
    beside = cache_warmup.beside

    def noting(function, argument):
        class Noted:
            def __enter__(self):
                self.manager = beside(function, argument)
                wait = self.manager.__enter__()
                return lambda: returned.append(wait())

            def __exit__(self, *error):
                return self.manager.__exit__(*error)

        return Noted()

    monkeypatch.setattr(cache_warmup, "start_method", parallel.start_method)  # the tests' own: forks come sooner
    monkeypatch.setattr(cache_warmup, "beside", noting)
    monkeypatch.setattr(cache_warmup, "is_kept", lambda function: False)
    monkeypatch.setattr(cache_warmup, "cores", lambda: 2)
    return returned


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {
            "protocol": {"name": "proximity"},
            "learner": {"name": "bsgd", "loss": "multiclass_logistic", "budget_size": 10},
        },
        {"links": {"loss": 0.3, "delay": {"name": "geometric", "mean": 1.0}}},
    ],
    ids=["consensus", "proximity", "unreliable links"],
)
def test_the_other_process_gets_to_the_end_and_the_bits_are_the_same(calls, monkeypatch, changes) -> None:
    experiment = Experiment.from_dict({**TABLE, **changes})
    beside = simulate(experiment)
    assert calls == [True]
    monkeypatch.setattr(cache_warmup, "cores", lambda: 1)
    alone = simulate(experiment)
    assert calls == [True]
    assert beside.summary["digest"] == alone.summary["digest"]


@pytest.mark.parametrize(
    "changes",
    [
        {"learner": {"name": "linear", "loss": "multiclass_logistic"}},
        {"learner": {"name": "random_features", "loss": "multiclass_logistic"}, "protocol": {"name": "diffusion"}},
    ],
    ids=["linear", "vectors"],
)
def test_where_the_step_compiles_soon_no_process_is_started(calls, changes) -> None:
    cache_warmup.compile_at_once(open_network(Experiment.from_dict({**TABLE, **changes})).plans)
    assert calls == []


def test_what_another_process_cannot_know_is_not_sent_there(calls) -> None:
    plan = open_network(Experiment.from_dict(TABLE)).plans[0]
    own = replace(plan.neighborhood, edges=({"cable": object()},) * len(plan.neighborhood.neighbors))
    cache_warmup.compile_at_once([replace(plan, neighborhood=own)])
    assert calls == []
    cache_warmup.compile_at_once([plan])
    assert calls == [True]


def test_nothing_is_done_where_the_round_is_compiled(calls, monkeypatch) -> None:
    monkeypatch.setattr(cache_warmup, "is_kept", is_kept)
    simulate(Experiment.from_dict(TABLE))
    assert is_kept(run_rounds)
    cache_warmup.compile_at_once(open_network(Experiment.from_dict(TABLE)).plans)
    assert len(calls) <= 1  # the first may have been the first of all
    kept = len(calls)
    cache_warmup.compile_at_once(open_network(Experiment.from_dict(TABLE)).plans)
    assert len(calls) == kept


def test_a_function_is_kept_once_it_has_been_compiled(tmp_path, monkeypatch) -> None:
    code = "def increased(value: float) -> float:\n    return value + 1.0\n"
    (tmp_path / "compiled_once.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    increased = importlib.import_module("compiled_once").increased
    first = cached_njit(increased)
    assert not is_kept(first)
    assert first(1.0) == 2.0
    assert is_kept(first)
    again = cached_njit(increased)
    assert not again.signatures
    assert is_kept(again)
