"""A protocol's default form gives its sound form, and one key the published one."""

import pytest

from kernelswarm.protocols.consensus import Consensus
from kernelswarm.protocols.controls import Centralized, Isolated
from kernelswarm.protocols.proximity import Proximity
from kernelswarm.protocols.tolerances import Adaptive, Constant
from kernelswarm.simulations.comparison.compare import compare
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.experiment.parts import build, describe
from kernelswarm.simulations.experiment.templates import template

NAMES = ["isolated", "consensus", "proximity", "centralized"]


def experiment(stream: object = "sine_regression", **tables: object) -> Experiment:
    learner = {"step_size": 0.1, "kernel": {"name": "gaussian", "bandwidth": 0.2}, "budget": {"epsilon": 0.02}}
    return Experiment.from_dict(
        {
            "rounds": 60,
            "evaluate_every": 60,
            "topology": {"name": "ring", "nodes": 8},
            "stream": stream,
            "learner": {"name": "polk", **learner, **tables.pop("learner", {})},  # type: ignore[dict-item]
            "protocol": "isolated",
            **tables,
        }
    )


def test_default_forms_are_the_sound_ones() -> None:
    for name in NAMES:
        rule = build("protocol", name)
        assert rule.step == "implicit"
        assert rule.form == ("symmetric" if rule.communicates else "one_sided")
    assert build("protocol", "proximity").gamma == Adaptive(2.0)
    assert build("tolerance", "adaptive") == Adaptive(2.0)


def test_the_published_form_is_one_key() -> None:
    assert Consensus(0.3, as_published=True) == Consensus(0.3, "one_sided", "explicit", as_published=True)
    assert Isolated(as_published=True).step == Centralized(as_published=True).step == "explicit"
    published = Proximity(as_published=True)
    assert (published.form, published.step, published.gamma) == ("one_sided", "explicit", Constant(0.0))
    assert Proximity(Constant(0.3), as_published=True).gamma == Constant(0.3)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("published", [True, False])
def test_a_described_protocol_is_made_again(name: str, published: bool) -> None:
    rule = build("protocol", {"name": name, "as_published": published})
    table = describe(rule)
    assert ("step" in table) == (not published)  # one key says it all
    assert build("protocol", table) == rule


def test_the_published_form_is_a_key_to_compare() -> None:
    vary = {"protocol.name": NAMES[:2], "protocol.as_published": [False, True]}
    for changes in ({}, {"protocol.as_published": True}):
        found = compare(experiment().with_changes(changes), vary, jobs=1)
        rules = [Experiment.from_dict(dict(cell.config)).protocol for cell in found.cells]
        assert [rule.step for rule in rules] == ["implicit", "explicit"] * 2
        assert [rule.form for rule in rules[2:]] == ["symmetric", "one_sided"]


def test_rows_of_the_template_differ_in_the_protocol_alone(tmp_path) -> None:  # type: ignore[no-untyped-def]
    from kernelswarm.simulations.experiment.variation import cells, read_compare

    path = tmp_path / "experiment.toml"
    path.write_text(template(path.name))
    described = Experiment.from_file(path)
    found = cells(described.to_dict(), read_compare(path).vary)
    assert [cell.protocol for cell in found] == NAMES
    assert {Experiment.from_dict(dict(cell.config)).protocol.step for cell in found} == {"implicit"}


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"name": "consensus", "step": "implicit"}, 'protocol.step = "implicit" stands beside as_published = true'),
        ({"name": "proximity", "form": "symmetric"}, 'protocol.form = "symmetric" .* which makes it "one_sided"'),
        ({"name": "proximity", "gamma": "adaptive"}, 'protocol.gamma = "adaptive" .* which makes it 0.0: leave one'),
    ],
)
def test_what_contradicts_the_published_form_is_refused(table: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        experiment(protocol={**table, "as_published": True})
    assert experiment(protocol={"name": "proximity", "gamma": 0.3, "as_published": True}).protocol.gamma == Constant(
        0.3
    )
