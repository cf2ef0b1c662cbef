"""When does proximity win? Protocols on a correlated sensor field, over its length, its noise and several draws.

Twenty sensors at random places measure different functions of their own input; near sensors measure similar ones. The
script compares isolated learning, consensus over a grid of penalties, and proximity with one tolerance for all edges,
with tolerances from the correlation of the places, learned (adaptive) and true ones. It prints the mean-square error
against the noise-free targets, mean and standard deviation over draws, and writes the table and the figure.

    python examples/sensor_field.py                        everything: about ten minutes on two cores
    python examples/sensor_field.py --draws 2 --quick      a first look
"""

import argparse
from pathlib import Path

from kernelswarm import Experiment, compare
from kernelswarm.simulations.figures import style

CONDITIONS = [(0.5, 1000), (1.5, 300), (3.0, 1500)]  # noise, samples of each node
LENGTHS = [0.5, 2.0, 10.0]  # correlation length of the field; the nodes live in the unit square
TARGET_VARIANCE = 1.5  # three sine terms of unit variance each, halved by the mean of sin^2


def experiment(noise: float, samples: int, length: float) -> Experiment:
    """Twenty sensors, one sample a round."""
    return Experiment.from_dict(
        {
            "rounds": samples,
            "evaluate_every": samples,
            "topology": {"name": "random_geometric", "nodes": 20, "radius": 0.38},
            "stream": {"name": "sensor_field", "length": length, "noise": noise, "terms": 3},
            "learner": {
                "name": "polk",
                "loss": "squared",
                "step_size": 0.05,
                "kernel": {"name": "gaussian", "bandwidth": 0.1},
                "budget": {"epsilon": 0.02},
            },
            "protocol": {"name": "isolated", "step": "implicit"},
            "evaluation": {"local_samples": 200, "global_samples": 200, "rkhs_distance": False},
        }
    )


def protocols(length: float, step: str) -> dict[str, list[dict[str, object]]]:
    """The rules to compare; of a family with several settings the best is shown, as a tuned one."""

    def proximity(label: str, gamma: object) -> dict[str, object]:
        return {
            "label": label,
            "name": "proximity",
            "gamma": gamma,
            "form": "one_sided",
            "step": step,
            "dual_step": 1.0,
        }

    return {
        "isolated": [{"label": "isolated", "name": "isolated", "step": step}],
        "consensus, best penalty": [
            {"label": f"c = {penalty:g}", "name": "consensus", "penalty": penalty, "form": "one_sided", "step": step}
            for penalty in (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
        ],
        "proximity, best single gamma": [proximity(f"gamma = {gamma:g}", gamma) for gamma in (0.0, 0.1, 0.3, 1.0, 2.0)],
        "proximity, best gamma from correlation": [
            proximity(
                f"scale = {scale:g}", {"name": "location", "scale": 2 * TARGET_VARIANCE * scale, "length": length}
            )
            for scale in (0.25, 0.5, 1.0, 2.0)
        ],
        "proximity, adaptive, scale 1": [proximity("adaptive 1", {"name": "adaptive", "scale": 1.0})],
        "proximity, adaptive, scale 2": [proximity("adaptive 2", {"name": "adaptive", "scale": 2.0})],
        "proximity, adaptive, scale 2, symmetric": [
            {**proximity("adaptive 2, symmetric", {"name": "adaptive", "scale": 2.0}), "form": "symmetric"}
        ],
        "proximity, true differences": [proximity("true", {"name": "true"})],
    }


def measure(noise: float, samples: int, length: float, step: str, draws: int) -> dict[str, tuple[float, float, str]]:
    """Return, for each family, the mean and deviation of its best setting's error, and what that setting is."""
    families = protocols(length, step)
    every = [rule for rules in families.values() for rule in rules]
    rows = compare(experiment(noise, samples, length), {"protocol": every}, seeds=draws).rows()
    found = {}
    for family, rules in families.items():
        labels = {str(rule["label"]) for rule in rules}
        mine = [row for row in rows if row.labels[0] in labels]
        whole = [row for row in mine if not row.failed]
        if not whole:
            found[family] = (float("nan"), float("nan"), "diverged")
            continue
        best = min(whole, key=lambda row: row.mean["error"])
        setting = best.labels[0] if len(rules) > 1 else ""
        diverged = sum(bool(row.failed) for row in mine)
        found[family] = (
            best.mean["error"],
            best.deviation["error"],
            setting + (f" ({diverged} diverged)" if diverged else ""),
        )
    return found


def table(results: dict[tuple[float, int, float], dict[str, tuple[float, float, str]]]) -> str:
    """Write the results as a Markdown table, the best practical rule of each row in bold."""
    families = list(next(iter(results.values())))
    lines = ["| noise | samples | length | " + " | ".join(families) + " |", "|---" * (3 + len(families)) + "|"]
    for (noise, samples, length), found in results.items():
        usable = [found[family][0] for family in families[:-1]]  # the true differences are an oracle
        cells = []
        for family in families:
            mean, deviation, setting = found[family]
            text = "diverged" if mean != mean else f"{mean:.3f} ± {deviation:.3f}"
            text = f"**{text}**" if mean == min(usable) else text
            cells.append(f"{text} {setting}".strip())
        lines.append(f"| {noise:g} | {samples} | {length:g} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def draw(results: dict[tuple[float, int, float], dict[str, tuple[float, float, str]]], path: Path) -> None:
    """Draw the error of each rule relative to isolated learning, one panel for each noise."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    families = [family for family in next(iter(results.values())) if family != "isolated"]
    markers = ["o", "s", "^", "D", "v", "P", "*"]
    conditions = list(dict.fromkeys((noise, samples) for noise, samples, _ in results))
    figure, panels = pyplot.subplots(
        1, len(conditions), figsize=(max(7.5, 4 * len(conditions)), 4.6), sharey=True, squeeze=False
    )
    for panel, (noise, samples) in zip(panels[0], conditions, strict=True):
        lengths = [length for n, s, length in results if (n, s) == (noise, samples)]
        for family, colour, marker in zip(families, style.CLASS_COLORS, markers, strict=False):
            ratios = [
                results[noise, samples, length][family][0] / results[noise, samples, length]["isolated"][0]
                for length in lengths
            ]
            panel.plot(lengths, ratios, color=colour, marker=marker, label=family)
        panel.axhline(1.0, color="0.5", linewidth=1, linestyle="--")
        panel.set(
            xscale="log",
            yscale="log",
            xlabel="correlation length of the field",
            title=f"noise {noise:g}, {samples} samples a node",
        )
        panel.set_xticks(lengths, [f"{length:g}" for length in lengths])
        panel.set_yticks([0.2, 0.5, 1.0, 2.0, 5.0], ["0.2", "0.5", "1", "2", "5"])
        panel.minorticks_off()
    panels[0][0].set_ylabel("mean-square error / isolated learner's")
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=min(3, 1 + len(conditions)), frameon=False)
    figure.tight_layout(rect=(0, 0.14 if len(conditions) > 1 else 0.2, 1, 1))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def main() -> None:
    """Run all conditions; print and write the table and the figure."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--draws", type=int, default=6, help="draws of network, field and data (6)")
    options.add_argument(
        "--step", choices=["implicit", "explicit"], default="implicit", help="the explicit one diverges"
    )
    options.add_argument("--quick", action="store_true", help="the middle condition only")
    options.add_argument("--out", type=Path, default=Path("runs/sensor_field"), help="folder of table and figure")
    given = options.parse_args()
    conditions = CONDITIONS[1:2] if given.quick else CONDITIONS
    results = {}
    for noise, samples in conditions:
        for length in LENGTHS:
            results[noise, samples, length] = measure(noise, samples, length, given.step, given.draws)
            print(table({(noise, samples, length): results[noise, samples, length]}).splitlines()[-1], flush=True)
    given.out.mkdir(parents=True, exist_ok=True)
    text = table(results)
    (given.out / "table.md").write_text(text + "\n", encoding="utf-8")
    draw(results, given.out / "sensor_field.png")
    print(f"\n{text}\n\n{given.out / 'table.md'}\n{given.out / 'sensor_field.png'}")


if __name__ == "__main__":
    main()
