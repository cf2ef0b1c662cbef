"""The final figures of a run, for the terminal."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from kernelswarm.simulations.command.progress_text import duration
from kernelswarm.simulations.core.data_description import DOUBTS
from kernelswarm.simulations.core.messages import called, number_of
from kernelswarm.simulations.records.target_units import measured_in, own_error

if TYPE_CHECKING:
    from kernelswarm.simulations.records.result import Result


def as_text(result: Result, width: int = 100) -> str:
    """Return the final figures as aligned lines, and under them, wrapped to ``width``, what is wrong with the run."""
    from kernelswarm.simulations.records.series import TWINS, repeated
    from kernelswarm.simulations.round.bands import BANDS

    summary, final = result.summary, result.final
    nodes = number_of(summary["nodes"], "node")
    lines = [("protocol", f"{summary['protocol']} on {called(result.config['topology'])}, {nodes}")]
    compiled = summary.get("compile_seconds") or 0.0
    after = f", after {compiled:.0f} s of compiling, once" if compiled >= 1.0 else ""
    seconds = summary["wall_seconds"] - compiled
    span = f"{seconds:.3g} s" if seconds < 100 else duration(seconds)
    lines.append(("rounds", f"{summary['rounds']:,} in {span}{after}"))
    named = {
        "risk": "risk",
        "constant_risk": "constant risk",
        "error": "error",
        "global_risk": "pooled risk",
        "global_error": "pooled error",
        "bayes_error": "Bayes error",
        "model_order": "model order",
        "disagreement": "disagreement",
        "violation": "violation",
        "coverage": "coverage",
        "global_coverage": "pooled coverage",
        "width": "band width",
        "global_width": "pooled band width",
    }
    facts = summary["facts"]
    for name in repeated([final]):
        named[TWINS[name]] += f", {named.pop(name).removeprefix('pooled ')}"
    bands = {name: float(result.network[name][-1]) for name in BANDS if len(result.network.get(name, ()))}
    known = {**facts, **final, **bands}
    lines += [
        (name, f"{known[key]:.4g}")
        for key, name in named.items()
        if known.get(key) is not None and known[key] == known[key]
    ]
    error = own_error(final, facts, ", ".join(result.data.targets.names))
    lines += [("rmse", error)] if error else []
    units = measured_in(facts, result.config, known=bool(error))
    lines += [("unit", units)] if units else []
    if "task_chosen" in facts:
        lines.append(("task", str(facts["task_chosen"])))
    if "gaps" in facts:
        lines.append(("gaps", str(facts["gaps"])))
    lines += [("warning", str(facts[name])) for name in DOUBTS if name in facts]
    ends = summary.get("used_up")
    if ends is not None and ends["first"] < ends["last"]:
        lines.append(
            ("own data", f"used up after {ends['first']:,} (first node) to {number_of(ends['last'], 'round')} (last)")
        )
    fitted = summary["backend"]
    if "landmarks" in fitted:
        lines.append(("fitted to", f"{fitted['rows']:,} of {number_of(fitted['samples'], 'sample')}"))
        lines.append(("regularization", f"{fitted['regularization']:.3g}, chosen by {fitted['chosen_by']}"))
    private = summary.get("privacy")
    if private is not None:
        lines.append(("privacy", private["words"]))
    rate = summary.get("node_rounds_per_second")
    if rate is not None:
        lines.append(("node-rounds/s", f"{rate:,.0f}"))
    wide = max(len(name) for name, _ in lines)
    table = "\n".join(f"{name:<{wide}}  {value}" for name, value in lines)
    return "\n\n".join([table, *(textwrap.fill(sentence, width) for sentence in result.verdict.values())])
