"""Every wrong file, key, value and option ends with exit code 2, one paragraph that helps, and nothing written."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kernelswarm.simulations.core.errors import SYNONYMS, InputError
from kernelswarm.simulations.experiment.registry import PARTS, find
from tests.helpers.command_line import SMALL, Command

MODULES = {
    "not_a_part.py": "class Kernel:\n    pass\nvalue = 3\ndef no_graph():\n    return [1, 2]\n",
    "broken.py": "def f(:\n",
    "needs_more.py": "import no_such_library\n",
    "apart.py": "import networkx\ndef two_parts():\n    return networkx.Graph([(0, 1), (2, 3)])\n",
}


@pytest.fixture
def call(call: Command) -> Command:
    Path("small.toml").write_text(SMALL)
    for name, text in MODULES.items():
        Path(name).write_text(text)
    return call


def contents() -> dict[str, bytes]:
    """Every file under the current folder; what Python caches of imported modules aside."""
    shutil.rmtree("__pycache__", ignore_errors=True)
    return {str(path): path.read_bytes() if path.is_file() else b"" for path in sorted(Path().rglob("*"))}


def refused(call: Command, *words: str | Path) -> str:
    """Call a command that must be refused, and return its paragraph."""
    before = contents()
    answer = call(*words)
    assert answer.code == 2
    assert answer.out == ""
    assert answer.err.startswith("kernelswarm: ")
    assert answer.err.endswith("\n") and answer.err.count("\n") == 1  # one paragraph, no traceback
    assert contents() == before
    return answer.err.removeprefix("kernelswarm: ").rstrip("\n")


CHANGES = [
    # unknown keys, at every level
    ("sed=3", 'sed = 3 is not a key of an experiment; did you mean "seed"?', "(its keys: "),
    ("topologi.name=ring", 'topologi = { name = "ring" } is not a key', 'did you mean "topology"?'),
    ("topology.node=3", "topology.node = 3 is not a key of ring", 'did you mean "nodes"? (its keys: nodes)'),
    ("learner.step_sise=1", "learner.step_sise = 1 is not a key of polk", 'did you mean "step_size"?'),
    ("learner.kernel.bandwith=1", "learner.kernel.bandwith = 1 is not a key of gaussian", 'did you mean "bandwidth"?'),
    ("learner.loss.threshold=1", "learner.loss.threshold = 1 is not a key of squared", "(it has no keys)"),
    ("learner.budget={epsilon=1,parsimony=1}", "learner.budget.parsimony = 1 is not a key of epsilon", ""),
    ("learner.budget={epsilom=1}", "names no budget", 'did you mean "epsilon"?'),
    ("protocol={name='proximity',gamma={name='adaptive',scal=1}}", "protocol.gamma.scal = 1", '"scale"?'),
    ("backend.adress=x", 'backend.adress = "x" is not a key of serial', ""),
    ("evaluation.local_sample=3", "evaluation.local_sample = 3 is not a key", 'did you mean "local_samples"?'),
    ("node=[{nodes=[0],lerner={}}]", "node[0].lerner = {} is not a key of node[0]", 'did you mean "learner"?'),
    ("node=[{nodes=[0],learner={kernel={bandwith=1}}}]", "node[0].learner.kernel.bandwith = 1", '"bandwidth"?'),
    # wrong types
    ("seed=1.5", "seed = 1.5 must be a whole number", ""),
    ("rounds=true", "rounds = true must be a whole number", ""),
    ("rounds=99999999999999999999", "must be a whole number of at most 64 bits", ""),
    ("topology=3", "topology = 3 must be the name of a topology or a table with one", "(known: ring, path,"),
    ("topology.name=3", "topology.name = 3 must be a string", ""),
    ("stream.noise=yes", 'stream.noise = "yes" must be a number', ""),
    ("stream.noise=nan", "stream.noise = nan must be a number, and finite", ""),
    ("learner=[]", "learner = [] must be the name of a learner", ""),
    ("learner.step_size=fast", 'learner.step_size = "fast" must be a number, the name of a schedule', ""),
    ("learner.step_size=true", "learner.step_size = true must be a number", ""),
    ("protocol.form=one-sided", 'protocol.form = "one-sided" must be "one_sided" or "symmetric"', '"one_sided"?'),
    ("protocol={name='proximity',gamma={name='edges',values={a=1}}}", "protocol.gamma.values has the edge 'a'", ""),
    ("stream={name='file',path=3}", "stream.path = 3 must be the path of a file", ""),
    ("evaluation=3", "evaluation = 3 must be a table", ""),
    ("links.quantization=8", "links.quantization = 8 must be a table; its keys: bits", ""),
    ("evaluation.rkhs_distance=1", "evaluation.rkhs_distance = 1 must be true or false", ""),
    ("node=3", "node = 3 must be tables [[node]]", ""),
    ("node=[3]", "node[0] = 3 must be a table", ""),
    ("node=[{nodes=0,learner={}}]", "node[0].nodes = 0 must be a list, each entry a whole number", ""),
    # out of range
    ("seed=-1", "seed = -1 must not be negative", ""),
    ("rounds=0", "rounds = 0 must be at least 1", ""),
    ("evaluate_every=0", "evaluate_every = 0 must be at least 1", ""),
    ("checkpoint_every=-1", "checkpoint_every = -1 must not be negative", ""),
    ("evaluation.global_samples=0", "evaluation.global_samples = 0 must be at least 1", ""),
    ("topology.nodes=0", "topology.nodes = 0 must be at least 1", ""),
    ("stream.noise=-1", "stream.noise = -1", ""),
    ("learner.step_size=0", "learner.step_size = 0.0 must be positive", ""),
    ("learner.regularization=-1", "learner.regularization = -1.0 must not be negative", ""),
    ("learner.regularization=10.0", "learner.step_size = 0.2 must be below 1 / regularization", "lower the step size"),
    ("learner.batch_size=0", "learner.batch_size = 0 must be at least 1", ""),
    ("learner.kernel.bandwidth=0", "learner.kernel.bandwidth = 0.0 must be positive", ""),
    ("learner.kernel={name='matern',smoothness=2}", "learner.kernel.smoothness = 2.0 must be 1.5 or 2.5", ""),
    ("learner.budget={epsilon=-1}", "learner.budget.epsilon = -1.0 must not be negative", ""),
    ("learner.budget={target_order=0}", "learner.budget.target_order = 0 must be at least 1", ""),
    # a part that does not suit its place is written as in a file
    (
        "learner={name='raker',kernel='polynomial'}",
        'learner.kernel = "polynomial" has no random Fourier features',
        "nystroem",
    ),
    (
        "learner={name='random_features',kernel={name='polynomial',degree=3,offset=1.0}}",
        'learner.kernel = { name = "polynomial", degree = 3 } has no random Fourier features',
        "nystroem",
    ),
    ("learner={name='newton',loss='absolute'}", 'learner.loss = "absolute" has no curvature', "squared"),
    ("protocol.penalty=-1", "protocol.penalty = -1.0 must not be", ""),
    ("protocol={name='proximity',gamma=-1}", "protocol.gamma = -1.0 must not be", ""),
    ("node=[{nodes=[],learner={}}]", "node[0].nodes = [] must name at least one node", ""),
    ("node=[{nodes=[0],learner={batch_size=0}}]", "node[0].learner.batch_size = 0 must be at least 1", ""),
    # unknown names
    ("topology=rign", 'topology = "rign" is not the name of a topology; did you mean "ring"?', "(known: ring, "),
    ("learner.kernel.name=gausian", 'did you mean "gaussian"?', "learner.kernel.name = "),
    ("learner.step_size={name='dimishing'}", 'did you mean "diminishing"?', "learner.step_size.name = "),
    ("protocol={name='proximity',gamma='adaptiv'}", 'did you mean "adaptive"?', "protocol.gamma = "),
    # parts of the user's own
    ("learner.kernel=no_such_module:Kernel", "there is no module 'no_such_module'", "learner.kernel = "),
    ("learner.kernel=not_a_part:Kernell", 'not_a_part has no Kernell; did you mean "Kernel"?', ""),
    ("learner.kernel=not_a_part:Kernel", "must be a frozen dataclass whose fields are the table's keys", ""),
    ("learner.kernel=not_a_part:value", "is a int: it must be a frozen dataclass", ""),
    ("learner.kernel=broken:Kernel", "importing broken failed: ", "line 1"),
    ("learner.kernel=needs_more:Kernel", "importing needs_more failed: No module named 'no_such_library'", ""),
    ("learner.kernel=a/b:Kernel", 'must look like "package.module:Class"', ""),
    ("topology=not_a_part:no_graph", "topology: not_a_part:no_graph returned a list, which holds 1", "no edge"),
    ("topology={name='networkx:petersen_graph',nodes=3}", "topology.nodes = 3 is not an argument of networkx:", ""),
    ("topology=networkx:cycle_graph", "topology.n is missing: networkx:cycle_graph needs it", ""),
    ("topology={name='apart:two_parts',strict=true}", "topology: ", "disconnected"),
    # parts that do not fit one another
    ("learner.loss=hinge", "learner.loss of node 0 does not fit the stream", ""),
    ("node=[{nodes=[7],learner={batch_size=2}}]", "7", "there is no node"),
    ("learner.step_size=5.0", "learner.step_size = 5 is unstable at node 0", 'or use protocol.step = "implicit"'),
    ("stream={name='file',path='no.npz'}", "no.npz", "there is no such file"),
    ("stream={name='file'}", "stream.path is missing: file needs the path of a file", ""),
    ("topology={name='file',path='no.graphml'}", "no.graphml", ""),
]


@pytest.mark.parametrize(("change", "first", "second"), CHANGES)
def test_wrong_experiment(change: str, first: str, second: str, call: Command) -> None:
    paragraph = refused(call, "run", "small.toml", "--set", change)
    assert first in paragraph
    assert second in paragraph


def test_tolerance_that_needs_what_the_network_has_not(call: Command) -> None:
    words = ["--set", "topology.name=ring", "--set", "protocol={name='proximity',gamma='true'}"]
    words += ["--set", "stream=gaussian_mixture", "--set", "learner.loss=multiclass_logistic"]
    assert "protocol: gamma from true differences needs a stream that knows" in refused(
        call, "run", "small.toml", *words
    )


@pytest.mark.parametrize("command", ["check", "compare"])
@pytest.mark.parametrize("change", ["learner.step_sise=1", "topology=rign", "rounds=0", "learner.loss=hinge"])
def test_wrong_experiment_is_refused_by_every_command(command: str, change: str, call: Command) -> None:
    words = ["--jobs", "1", "--out", "here"] if command == "compare" else []
    refused(call, command, "small.toml", "--set", change, *words)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"rounds = \n", "small.toml is not TOML: Invalid value (at line 1, column 10)"),
        (b"[learner\n", "small.toml is not TOML: "),
        (b"seed = 1\nseed = 2\n", "small.toml is not TOML: "),
        (b"seed = 'a\n'", "(at line 1, column"),
        (b"[a]\nb = 0,3\n", "(at line 2, column 6): write a point before fractions, 0.3, in the line b = 0,3"),
        (b"name = polk # mine\n", 'text stands in quotes, "polk", in the line name = polk # mine'),
        (b"strict = True\n", "truth values are true and false"),
        (b"seed = 1\nseed = 2\n", "the line is seed = 2"),
        (b"\xff\xfe seed", "small.toml is not a text file: byte 0 is not UTF-8: save it as UTF-8"),
        (b"", "topology is missing"),
        (b"seed = 2026-01-01\n" + SMALL.encode(), "seed = 2026-01-01 must be a whole number"),
    ],
)
def test_file_that_is_no_experiment(text: bytes, message: str, call: Command) -> None:
    Path("small.toml").write_bytes(text)
    paragraph = refused(call, "run", "small.toml")
    assert message in paragraph
    assert "small.toml" in paragraph


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("smal.toml", "there is no experiment file smal.toml; did you mean small.toml?"),
        ("zzz", "there is no experiment file zzz: kernelswarm init writes one to start from"),
        ("no/folder/x.toml", "there is no experiment file no/folder/x.toml"),
        (".", ". is a folder: name an experiment file"),
    ],
)
@pytest.mark.parametrize("command", ["run", "compare", "check"])
def test_file_that_is_not_there(command: str, path: str, message: str, call: Command) -> None:
    assert message in refused(call, command, path)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["rum"], "No such command 'rum'. Did you mean 'run'"),
        (["run"], "Missing argument 'EXPERIMENT.toml' (kernelswarm run --help shows what there is)"),
        (["run", "small.toml", "--rounds"], "Option '--rounds' requires an argument"),
        (["run", "small.toml", "--set"], "Option '--set' requires an argument"),
        (["run", "small.toml", "more.toml"], "unexpected extra argument"),
        (["run", "small.toml", "--set", "rounds"], '--set "rounds" must be key=value'),
        (["run", "small.toml", "--set", "=3"], '--set "=3" must be key=value'),
        (["run", "small.toml", "--set", "a..b=3"], '--set "a..b=3" must be key=value'),
        (["run", "small.toml", "--backend", "serail"], 'backend.name = "serail" is not the name of a backend'),
        (["run", "small.toml", "--out", "small.toml/here"], "small.toml/here cannot be made: "),
        (["compare", "small.toml", "--seeds", "x"], "Invalid value for '--seeds'"),
        (["compare", "small.toml", "--seeds", "0"], "seeds = 0 must be at least 1"),
        (["compare", "small.toml", "--jobs", "0"], "jobs = 0 must be at least 1"),
        (["compare", "small.toml", "--vary", "rounds"], '--vary "rounds" must be key=value'),
        (["compare", "small.toml", "--vary", "rounds="], "has no values"),
        (["compare", "small.toml", "--vary", "protocol.penalti=1,2"], 'did you mean "penalty"?'),
        (["compare", "small.toml", "--vary", "protocol.name=isolated,consensu"], 'did you mean "consensus"?'),
        (["compare", "small.toml", "--vary", "rounds=5,0"], "rounds = 0 must be at least 1"),
        (["compare", "small.toml", "--out", "small.toml/here"], "small.toml/here cannot be made: "),
        (["plot"], "Missing argument 'RUN...'"),
        (["plot", "nowhere"], "there is no run folder nowhere"),
        (["plot", "small.toml"], "small.toml is not a folder"),
        (["plot", "."], ". is no complete run folder"),
        (["list", "whatever"], "there is no list of whatever (known: learners, kernels, losses,"),
        (["list", "protocol", "looses"], 'did you mean "losses"?'),
        (["list", "lerners"], 'did you mean "learners"?'),
        (["init", "small.toml"], "small.toml exists already: name another file"),
        (["init", "no/folder/x.toml"], "no/folder/x.toml cannot be written: No such file or directory"),
        (["init", "."], ". exists already"),
        (["check", "small.toml", "--out", "x"], "No such option: --out"),
        (["--nonsense"], "No such option: --nonsense"),
    ],
)
def test_wrong_words(words: list[str], message: str, call: Command) -> None:
    assert message in refused(call, *words)


@pytest.mark.parametrize(
    ("name", "kind", "meant"), [(n, k, m) for n, m in SYNONYMS.items() for k in PARTS if m in PARTS[k]]
)
def test_other_usual_names_of_a_part_lead_to_ours(name: str, kind: str, meant: str) -> None:
    for spelled in (name, name.upper(), name.replace("_", "-")):
        with pytest.raises(InputError, match=f'is not the name of a {kind}; did you mean "{meant}"'):
            find(kind, spelled, kind)


def test_every_synonym_means_a_part_and_is_none() -> None:
    names = {name for table in PARTS.values() for name in table}
    assert set(SYNONYMS.values()) <= names
