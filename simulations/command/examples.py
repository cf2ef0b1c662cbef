"""Examples under the help of each command."""

from __future__ import annotations

EXAMPLES: dict[str, tuple[str, ...]] = {
    "run": (
        "kernelswarm run experiment.toml",
        "kernelswarm run experiment.toml --set learner.step_size=0.5 --out runs/half",
        "kernelswarm run experiment.toml --backend ray --no-figures",
    ),
    "resume": (
        "kernelswarm resume runs/half",
        "kernelswarm resume runs/half --rounds 5000",
    ),
    "compare": (
        "kernelswarm compare experiment.toml --vary protocol.name=isolated,consensus --seeds 6 --tune",
        "kernelswarm compare experiment.toml --vary topology.name=ring,star --out runs/networks",
        "kernelswarm compare experiment.toml --vary learner.step_size=log:0.01:1:8 --format pdf",
    ),
    "reproduce": (
        "kernelswarm reproduce",
        "kernelswarm reproduce polk-multidist --quick",
        "kernelswarm reproduce --all --quick --data DIR",
    ),
    "plot": (
        "kernelswarm plot runs/half",
        "kernelswarm plot runs/networks --format pdf,svg --style two_column",
        "kernelswarm plot runs/networks --columns risk,error --against bytes",
    ),
    "animate": (
        "kernelswarm animate runs/half",
        "kernelswarm animate runs/half --out film.mp4 --seconds 12",
    ),
    "tables": (
        "kernelswarm tables runs/networks",
        "kernelswarm tables runs/networks --latex --columns error,model_order,bytes_sent",
    ),
    "report": (
        "kernelswarm report runs/half",
        "kernelswarm report runs/networks",
    ),
    "list": (
        "kernelswarm list",
        "kernelswarm list learners",
        "kernelswarm list polk consensus",
    ),
    "init": (
        "kernelswarm init",
        "kernelswarm init mine.toml --data readings.csv --target temperature --nodes station",
        "kernelswarm init field.toml --example sensor_field",
    ),
    "suggest": (
        "kernelswarm suggest mine.toml",
        "kernelswarm suggest mine.toml --dry-run --rounds 500",
    ),
    "search": (
        "kernelswarm search mine.toml --vary learner.step_size=log:0.01:1 --trials 40",
        "kernelswarm search mine.toml --vary protocol.name=isolated,proximity --seeds 3",
    ),
    "check": (
        "kernelswarm check experiment.toml",
        "kernelswarm check experiment.toml --set topology.nodes=1000",
    ),
}


def epilog(command: str) -> str:
    """Return the examples of a command as its help shows them, a line each."""
    return "\n\n".join(["Examples:", *EXAMPLES[command]])
