"""What the commands print, write and return."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.experiment.parts import PARTS
from kernelswarm.simulations.figures import plots
from kernelswarm.simulations.records.checkpoints import Checkpoints
from kernelswarm.simulations.records.result import Result
from kernelswarm.simulations.records.run_folder import FILES, read
from kernelswarm.simulations.running import simulation as running
from kernelswarm.simulations.running.simulation import Progress, simulate
from tests.helpers.command_line import SMALL, Command

DIVERGING = [
    "learner.step_size=0.5",
    'stream={name="sensor_field",noise=3.0}',
    'protocol={name="proximity",as_published=true}',
    "topology={name='complete',nodes=8}",
    "rounds=60",
]


@pytest.fixture
def call(call: Command, monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setenv("COLUMNS", "100")
    Path("small.toml").write_text(SMALL)
    return call


def sets(changes: list[str]) -> list[str]:
    return [word for change in changes for word in ("--set", change)]


def test_run_writes_a_folder_and_prints_the_final_figures(call: Command) -> None:
    answer = call("run", "small.toml", "--no-figures")
    assert (answer.code, answer.err) == (0, "")
    folder = Path("runs/small-consensus-ring-seed0")
    assert sorted(path.name for path in folder.iterdir()) == sorted(FILES)
    final = read(folder).final
    lines = dict(line.split("  ", 1) for line in answer.out.splitlines() if line)
    assert lines["protocol"].strip() == "consensus on ring, 3 nodes"
    assert float(lines["risk"]) == pytest.approx(final["risk"], rel=1e-3)
    assert float(lines["model order"]) == pytest.approx(final["model_order"], rel=1e-3)
    assert {"error", "pooled risk", "pooled error", "disagreement"} <= set(lines)
    rate, seconds = re.findall(r"[\d.]+(?:e-\d+)?", lines["node-rounds/s"].replace(",", ""))
    summary = read(folder).summary
    assert float(rate) * float(seconds) == pytest.approx(summary["nodes"] * summary["rounds"], rel=0.01)
    assert "violation" not in lines  # consensus has no constraints
    assert lines["run folder"] == str(folder)


def test_run_uses_its_options_and_never_overwrites(call: Command) -> None:
    words = ["--no-figures", *sets(["rounds=3", "protocol.name=isolated", "seed=5"])]
    for _ in range(2):
        assert call("run", "small.toml", *words, "--backend", "serial").code == 0
    assert sorted(path.name for path in Path("runs").iterdir()) == [
        "small-isolated-ring-seed5",
        "small-isolated-ring-seed5-2",
    ]
    config = read("runs/small-isolated-ring-seed5").config
    assert (config["rounds"], config["seed"], config["protocol"]) == (3, 5, {"name": "isolated", "as_published": True})


@pytest.mark.usefixtures("blank")
def test_run_draws_figures(call: Command) -> None:
    answer = call("run", "small.toml", "--out", "here")
    assert answer.code == 0
    drawn = [path.name for path in Path("here/figures").iterdir()]
    assert "risk.png" in drawn and "network.png" in drawn
    assert all(name in answer.out for name in drawn)
    page = Path("here/report.html").read_bytes()
    assert f"report      {Path('here/report.html')}\n" in answer.out
    assert call("report", "here").code == 0
    assert Path("here/report.html").read_bytes() == page


def test_interruption_is_one_line_and_writes_nothing(call: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(running, "simulate", interrupt)
    answer = call("run", "small.toml")
    assert (answer.code, answer.out) == (130, "")
    assert answer.err.startswith("kernelswarm: stopped by Ctrl-C; no round had begun, and nothing is kept: ")
    assert [path.name for path in Path().iterdir()] == ["small.toml"]


@pytest.mark.parametrize(
    ("every", "words"),
    [
        (10, "stopped by Ctrl-C; kernelswarm resume 'a run' goes on from round 0"),
        (
            0,
            "stopped by Ctrl-C; measurements until then are in a run, and kernelswarm plot 'a run' draws them; "
            "kernelswarm run 'a run/config.toml' begins it anew",
        ),
    ],
)
def test_interruption_says_what_is_left_of_the_run(
    call: Command, monkeypatch: pytest.MonkeyPatch, every: int, words: str
) -> None:
    def interrupted(experiment: Experiment, observe: object, checkpoints: Checkpoints, **__: object) -> Result:
        def stop(progress: Progress) -> None:
            if progress.phase == "evaluating":
                raise KeyboardInterrupt

        return simulate(experiment, stop, checkpoints)

    monkeypatch.setattr(running, "simulate", interrupted)
    answer = call("run", "small.toml", "--out", "a run", "--set", f"checkpoint_every={every}")
    assert (answer.code, answer.out) == (130, "")
    assert answer.err.splitlines()[-1].endswith(words)
    assert len(read("a run", partial=True).network["round"]) == 1


@pytest.mark.usefixtures("sketched")
def test_compare_prints_its_table_and_writes_all(call: Command) -> None:
    words = ["--vary", "protocol.name=isolated,consensus", "--seeds", "2", "--jobs", "1"]
    answer = call("compare", "small.toml", *words)
    assert (answer.code, answer.err) == (0, "")
    folder = Path("runs/small-compare")
    table = (folder / "comparison.txt").read_text()
    assert "isolated" in answer.out and "consensus" in answer.out
    assert "isolated" in table and "consensus" in table
    assert len(list(folder.glob("runs/*/*/summary.json"))) == 4
    assert str(folder / "figures") in answer.out and list((folder / "figures").glob("*.png"))
    page = (folder / "report.html").read_bytes()
    assert f"report   {folder / 'report.html'}\n" in answer.out
    assert call("report", folder).code == 0
    assert (folder / "report.html").read_bytes() == page
    again = call("compare", "small.toml", *words, "--out", "runs/small-compare")
    assert again.code == 0 and again.out.endswith("runs/small-compare/runs: 4 reused\n")
    afresh = call("compare", "small.toml", *words, "--afresh")
    assert afresh.code == 0 and afresh.out.endswith("runs/small-compare-2/runs: 4 new\n")


@pytest.mark.usefixtures("sketched")
def test_compare_takes_what_it_varies_from_the_file(call: Command) -> None:
    open_protocol = re.sub(r"\[protocol\][^[]*", "", SMALL)
    assert "protocol" not in open_protocol
    Path("small.toml").write_text(open_protocol + '[compare.vary]\nprotocol.name = ["isolated", "centralized"]\n')
    assert "2 combinations" in call("check", "small.toml").out
    answer = call("compare", "small.toml", "--jobs", "1", "--out", "here")
    assert (answer.code, answer.err) == (0, "")
    assert "isolated" in answer.out and "centralized" in answer.out
    refused = call("run", "small.toml")
    assert refused.code == 2 and "protocol is missing" in refused.err


@pytest.mark.usefixtures("sketched")
def test_compare_with_failed_runs_shows_the_table_and_says_so(call: Command) -> None:
    words = ["--vary", "protocol.as_published=true,false", "--jobs", "1", "--out", "here"]
    answer = call("compare", "small.toml", *sets(DIVERGING), *words)
    assert answer.code == 1
    assert answer.err == "kernelswarm: 1 of 2 runs failed; the table gives their reasons\n"
    assert "diverged in round" in answer.out and "false" in answer.out


@pytest.mark.usefixtures("sketched")
def test_plot_draws_several_runs_together(call: Command) -> None:
    for seed in (0, 1):
        call("run", "small.toml", "--no-figures", "--set", f"seed={seed}", "--out", f"runs/cell/seed_{seed}")
    answer = call("plot", "runs/cell/seed_0", "runs/cell/seed_1", "--out", "together")
    assert answer.code == 0
    assert Path("together/risk.png") in [Path(line) for line in answer.out.splitlines()]
    whole = call("plot", ".")  # the folder of a comparison: its runs are found
    assert whole.code == 0 and Path("figures/risk.png").is_file()


@pytest.mark.usefixtures("sketched")
def test_tables_prints_chosen_columns_of_a_comparison(call: Command) -> None:
    words = ["--vary", "protocol.name=isolated,consensus", "--seeds", "2", "--jobs", "1", "--out", "both"]
    assert call("compare", "small.toml", *words).code == 0
    latex = call("tables", "both", "--latex", "--columns", "error,bytes_sent")
    assert (latex.code, latex.err) == (0, "")
    (heading,) = [line for line in latex.out.splitlines() if line.startswith("protocol")]
    assert heading.split(" & ")[1:] == ["error", "bytes sent", r"runs \\"]
    assert call("tables", "both", "--latex").out == Path("both/comparison.tex").read_text()
    assert call("tables", "both", "--markdown").out == Path("both/comparison.md").read_text()
    assert "model order" not in call("tables", "both", "--columns", "risk").out
    refused = call("tables", "both", "--columns", "rsk")
    assert refused.code == 2 and 'columns = "rsk" has no figure; did you mean "risk"' in refused.err


def test_animate_writes_a_moving_picture_into_the_run(call: Command) -> None:
    call("run", "small.toml", "--no-figures", "--out", "here")
    answer = call("animate", "here")
    assert (answer.code, answer.out, answer.err) == (0, "here/figures/learning.gif\n", "")
    assert Path("here/figures/learning.gif").read_bytes().startswith(b"GIF89a")
    refused = call("animate", "here", "--out", "film.avi")
    assert (refused.code, refused.err) == (2, 'kernelswarm: "film.avi" must end in .gif or .mp4\n')


LABELLED = """
[compare]
seeds = 2
[compare.vary]
protocol = [{ label = "the strong ones", name = "consensus", penalty = 9.0 }, { name = "isolated" }]
"""


def test_a_comparison_is_drawn_with_the_names_of_its_table(call: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("small.toml").write_text(SMALL.replace("as_published = true\n", "") + LABELLED)
    with monkeypatch.context() as patch:
        patch.setattr(plots, "draw_comparison", lambda comparison, folder, *how: [])
        assert call("compare", "small.toml", "--jobs", "1", "--out", "both").code == 0
    answer = call("plot", "both", "--format", "svg", "--columns", "risk")
    assert (answer.code, answer.out) == (0, "both/figures/risk.svg\n")
    assert "the strong ones" in Path("both/figures/risk.svg").read_text()
    # A run that has not ended: what there is, by the keys that differ.
    next(Path("both/runs").glob("*/seed_1/summary.json")).unlink()
    answer = call("plot", "both", "--format", "svg", "--columns", "risk", "--out", "again")
    assert answer.out == "again/risk.svg\n" and "the strong ones" not in Path("again/risk.svg").read_text()


@pytest.mark.usefixtures("sketched")
def test_figures_are_drawn_as_they_are_asked_for(call: Command) -> None:
    asked = ["--format", "pdf,svg", "--style", "paper"]
    answer = call("run", "small.toml", "--out", "here", *asked)
    assert (answer.code, answer.err) == (0, "")
    drawn = {path.name for path in Path("here/figures").iterdir()}
    assert {"risk.pdf", "risk.svg", "captions.txt"} <= drawn and "risk.png" not in drawn
    answer = call("plot", "here", "--out", "chosen", "--columns", "risk,error", "--against", "bytes", *asked)
    assert answer.out.splitlines() == [
        f"chosen/{name}" for name in ("risk-error-bytes.pdf", "risk-error-bytes.svg", "captions.txt")
    ]
    words = ["--vary", "protocol.name=isolated,consensus", "--jobs", "1", "--out", "both"]
    assert call("compare", "small.toml", *words, *asked).code == 0
    assert Path("both/figures/final.svg").is_file() and not list(Path("both/figures").glob("*.png"))
    refused = call("compare", "small.toml", "--out", "none", "--style", "papers")
    assert refused.code == 2 and not Path("none").exists()
    assert 'style = "papers" is unknown; did you mean "paper"?' in refused.err


def test_list_shows_every_name_of_a_kind(call: Command) -> None:
    for kind, parts in PARTS.items():
        lines = call("list", kind).out.partition("\n\n")[0].splitlines()  # then parts that are called like the kind
        assert [line.strip() for line in lines if re.match(r"  \S", line)] == list(parts)


def test_lists_of_kinds_have_keys_and_plurals(call: Command) -> None:
    assert call("list", "losses") == call("list", "loss")
    assert call("list", "link_delays") == call("list", "link_delay")
    assert "regularization = 1e-06" in call("list", "learners").out
    assert "epsilon  (required: a number)" in call("list", "budgets").out
    assert 'dual_step = "auto"  # positive, or "auto"' in call("list", "proximity").out


def test_init_writes_a_file_that_runs_as_it_is(call: Command) -> None:
    answer = call("init")
    assert (answer.code, answer.err) == (0, "")
    assert "kernelswarm run experiment.toml" in answer.out
    tomllib.loads(Path("experiment.toml").read_text())
    few = sets(["rounds=3", "evaluation.global_samples=50", "evaluation.local_samples=10"])
    assert call("run", "experiment.toml", *few, "--no-figures").code == 0
    assert call("init", "other.toml").code == 0
    assert "kernelswarm run other.toml" in Path("other.toml").read_text()


def test_check_shows_network_data_and_cost_and_runs_nothing(call: Command) -> None:
    answer = call("check", "small.toml", *sets(["learner.batch_size=2", "topology={name='star',nodes=4}"]))
    assert (answer.code, answer.err) == (0, "")
    lines = {" ".join(line.split()) for line in answer.out.splitlines()}
    assert {"network: star", "nodes 4", "edges 3", "degree min 1, mean 1.50, max 3", "diameter 2"} <= lines
    assert "algebraic connectivity 1" in lines
    assert {"inputs 1", "targets 1", "samples a node endless"} <= lines
    # 6 directed edges, each with p + C = 2 scalars a sample, 2 samples a round, 4 rounds, 8 bytes a scalar
    assert {"messages a round 6", "scalars a round 24", "sent in the whole run 768 bytes"} <= lines
    assert [path.name for path in Path().iterdir()] == ["small.toml"]


@pytest.mark.parametrize(
    ("protocol", "messages", "scalars"),
    [
        ("isolated", 0, 0),
        ("{name='consensus',form='symmetric',step='explicit'}", 6, 18),
        ("{name='consensus',form='symmetric'}", 6, 30),  # with the row sums of both ends at each point
        ("{name='proximity',form='symmetric'}", 6, 36),
        ("centralized", 3, 6),
    ],
)
def test_check_counts_what_the_protocol_sends(protocol: str, messages: int, scalars: int, call: Command) -> None:
    lines = [
        " ".join(line.split()) for line in call("check", "small.toml", "--set", f"protocol={protocol}").out.splitlines()
    ]
    assert f"messages a round {messages}" in lines
    assert f"scalars a round {scalars}" in lines


def test_check_counts_the_runs_of_a_comparison(call: Command) -> None:
    Path("small.toml").write_text(SMALL + "[compare]\nseeds = 5\n[compare.vary]\nprotocol.penalty = [0.1, 0.2]\n")
    assert "2 combinations, 5 seeds each: 10 runs" in call("check", "small.toml").out


def test_check_says_when_the_data_ends_first(call: Command) -> None:
    rows = "\n".join(f"{n / 30},{n % 7}" for n in range(30))
    Path("data.csv").write_text(f"a,y\n{rows}\n")
    words = sets(['stream={name="file",path="data.csv",task="regression"}', "rounds=1000"])
    answer = call("check", "small.toml", *words)
    assert answer.code == 0
    assert "of the 1,000 asked for: then the data is used up" in answer.out


def test_version_is_one_line(call: Command) -> None:
    answer = call("--version")
    assert answer.code == 0
    assert answer.out.startswith("kernelswarm ") and answer.out.count("\n") == 1
