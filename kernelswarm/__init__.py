"""Simulate a network of agents that learn nonlinear functions together, online, from their own data streams.

Names are imported when they are first used, so that ``import kernelswarm`` costs nothing.

Examples
--------
>>> import kernelswarm
>>> experiment = kernelswarm.Experiment.from_dict({
...     "rounds": 20,
...     "topology": {"name": "ring", "nodes": 3},
...     "stream": "sine_regression",
...     "learner": {"name": "polk", "kernel": {"name": "gaussian", "bandwidth": 0.1}},
...     "protocol": {"name": "consensus", "penalty": 0.5},
... })
>>> result = kernelswarm.simulate(experiment)
>>> result.summary["rounds"]
20
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from kernelswarm.refused_key import RefusedKey

if TYPE_CHECKING:
    from kernelswarm.simulations.comparison.compare import compare
    from kernelswarm.simulations.comparison.compare import read as read_comparison
    from kernelswarm.simulations.comparison.suggest import Suggestion, suggest
    from kernelswarm.simulations.core.errors import InputError, SimulationError
    from kernelswarm.simulations.estimators.estimators import PolkClassifier, PolkRegressor
    from kernelswarm.simulations.estimators.incremental import IncrementalClassifier, IncrementalRegressor
    from kernelswarm.simulations.estimators.kernel_features import BudgetedKernelFeatures, OnlineKernelFeatures
    from kernelswarm.simulations.estimators.second_order import KernelClassifier, KernelRegressor
    from kernelswarm.simulations.experiment.experiment import Evaluation, Experiment, Override, build_experiment
    from kernelswarm.simulations.experiment.parts import build as build_part
    from kernelswarm.simulations.experiment.registry import listed_parts_only
    from kernelswarm.simulations.figures.animation import animate
    from kernelswarm.simulations.figures.plots import draw, draw_comparison
    from kernelswarm.simulations.figures.result_plots import plot_model
    from kernelswarm.simulations.records.model import Model
    from kernelswarm.simulations.records.model_files import save as save_model
    from kernelswarm.simulations.records.outcome import Comparison
    from kernelswarm.simulations.records.result import Result
    from kernelswarm.simulations.records.run_folder import load as load_model
    from kernelswarm.simulations.records.run_folder import read as read_run
    from kernelswarm.simulations.records.run_folder import write as write_run
    from kernelswarm.simulations.report.page import write as write_report
    from kernelswarm.simulations.reproductions.report import reproduce
    from kernelswarm.simulations.running.simulation import Simulation, resume, run, simulate
    from kernelswarm.simulations.running.state import Progress, State

_PLACES = {
    "BudgetedKernelFeatures": "estimators.kernel_features:BudgetedKernelFeatures",
    "Comparison": "records.outcome:Comparison",
    "Evaluation": "experiment.experiment:Evaluation",
    "Experiment": "experiment.experiment:Experiment",
    "IncrementalClassifier": "estimators.incremental:IncrementalClassifier",
    "IncrementalRegressor": "estimators.incremental:IncrementalRegressor",
    "InputError": "core.errors:InputError",
    "KernelClassifier": "estimators.second_order:KernelClassifier",
    "KernelRegressor": "estimators.second_order:KernelRegressor",
    "Model": "records.model:Model",
    "OnlineKernelFeatures": "estimators.kernel_features:OnlineKernelFeatures",
    "Override": "experiment.experiment:Override",
    "PolkClassifier": "estimators.estimators:PolkClassifier",
    "PolkRegressor": "estimators.estimators:PolkRegressor",
    "Progress": "running.state:Progress",
    "Result": "records.result:Result",
    "Simulation": "running.simulation:Simulation",
    "SimulationError": "core.errors:SimulationError",
    "State": "running.state:State",
    "Suggestion": "comparison.suggest:Suggestion",
    "animate": "figures.animation:animate",
    "build_experiment": "experiment.experiment:build_experiment",
    "build_part": "experiment.parts:build",
    "compare": "comparison.compare:compare",
    "draw": "figures.plots:draw",
    "draw_comparison": "figures.plots:draw_comparison",
    "listed_parts_only": "experiment.registry:listed_parts_only",
    "load_model": "records.run_folder:load",
    "plot_model": "figures.result_plots:plot_model",
    "read_comparison": "comparison.compare:read",
    "read_run": "records.run_folder:read",
    "reproduce": "reproductions.report:reproduce",
    "resume": "running.simulation:resume",
    "run": "running.simulation:run",
    "save_model": "records.model_files:save",
    "simulate": "running.simulation:simulate",
    "suggest": "comparison.suggest:suggest",
    "write_report": "report.page:write",
    "write_run": "records.run_folder:write",
}

__all__ = [
    "BudgetedKernelFeatures",
    "Comparison",
    "Evaluation",
    "Experiment",
    "IncrementalClassifier",
    "IncrementalRegressor",
    "InputError",
    "KernelClassifier",
    "KernelRegressor",
    "Model",
    "OnlineKernelFeatures",
    "Override",
    "PolkClassifier",
    "PolkRegressor",
    "Progress",
    "RefusedKey",
    "Result",
    "Simulation",
    "SimulationError",
    "State",
    "Suggestion",
    "animate",
    "build_experiment",
    "build_part",
    "compare",
    "draw",
    "draw_comparison",
    "listed_parts_only",
    "load_model",
    "plot_model",
    "read_comparison",
    "read_run",
    "reproduce",
    "resume",
    "run",
    "save_model",
    "simulate",
    "suggest",
    "write_report",
    "write_run",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("kernelswarm")
        except PackageNotFoundError:  # a bare checkout on the path
            return "0+checkout"
    if name not in _PLACES:
        raise AttributeError(f"module 'kernelswarm' has no attribute {name!r}")
    module, _, attribute = _PLACES[name].partition(":")
    return getattr(importlib.import_module(f"kernelswarm.simulations.{module}"), attribute)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
