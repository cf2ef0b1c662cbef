"""Keys of a file change, and nothing else in it."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st

from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.experiment.changes import changed, rewritten
from kernelswarm.simulations.experiment.templates import template

CHANGES = {
    "learner.step_size": {"name": "auto", "scale": 0.5},
    "learner.kernel.bandwidth": 0.25,
    "learner.budget.per_sample": 0.4,
    "protocol.penalty": 12.5,
}

FORMS = [  # the same learner, said in the ways that TOML has
    '[learner]\nname = "polk"  # a = b\nstep_size = 3.0   # or\n# [kernel]\n\n[protocol]\nname = "consensus"\n',
    'learner = { name = "polk", kernel = { name = "gaussian", bandwidth = 3 } } # x\nprotocol = "consensus"\n',
    'learner.name = "polk"\nlearner.kernel.name = "matern"\nprotocol.name = "consensus"\nprotocol.penalty = 1e-3 #c',
    '[learner.kernel]\nname = "gaussian"\n[learner]\nname = """po#lk"""\n[protocol]\npenalty = 1\nname = \'consensus\'',
    '[[node]]\nnodes = [\n 1, # ]\n 2\n]\nlearner = { step_size = 2 }\n[learner]\r\nname = "polk"\r\n[protocol]\r\n',
    '"learner"."name" = "polk"\n[protocol] # b = [\nname = "con\\"sen#sus"\n[learner.budget]\nper_sample = 0.1\n',
]


@pytest.mark.parametrize("text", [*FORMS, template("name.toml")])
def test_a_rewritten_file_says_what_the_changes_say(text: str) -> None:
    changes = {key: value for key, value in CHANGES.items() if "budget" not in key or "parsimony" not in text}
    expected: dict[str, Any] = tomllib.loads(text)
    for key, value in changes.items():
        expected = changed(expected, key, value, explicit=True)
    assert tomllib.loads(rewritten(text, changes)) == expected


def test_comments_order_and_other_lines_stay() -> None:
    text = template("name.toml")
    before = text.splitlines()
    after = rewritten(text, {"learner.step_size": 0.5, "learner.kernel.bandwidth": 0.25}).splitlines()
    other = [place for place, line in enumerate(before) if line != after[place]]
    assert len(before) == len(after)
    assert [before[place].split()[0] for place in other] == ["step_size", "kernel"]
    comments = [[line.partition("#")[2] for line in lines] for lines in (before, after)]
    assert comments[0] == comments[1]
    assert before[other[0]].index("#") == after[other[0]].index("#")


def test_a_key_that_is_not_there_goes_to_the_end_of_its_table() -> None:
    text = '[learner]\nname = "polk"\n\n# below\n[protocol]\nname = "consensus"'
    after = rewritten(text, {"learner.kernel.bandwidth": 0.5, "protocol.penalty": 2.0})
    assert after == (
        '[learner]\nname = "polk"\nkernel.bandwidth = 0.5\n\n# below\n[protocol]\nname = "consensus"\npenalty = 2.0\n'
    )


def test_what_cannot_be_said_beside_the_text_is_refused_by_name() -> None:
    with pytest.raises(InputError, match=r"learner\.step_size = 0\.5 cannot be written"):
        rewritten("[learner.step_size]\nname = 'auto'\n", {"learner.step_size": 0.5})


words = st.text(st.characters(codec="ascii", exclude_characters="\x7f", min_codepoint=32), max_size=6)
single = st.one_of(words, st.integers(-9, 9), st.floats(-1e3, 1e3), st.booleans())
values = st.one_of(single, st.lists(words, max_size=2))


@given(
    st.dictionaries(st.sampled_from(["a", "b", "name", "c d"]), values, max_size=4),
    words.map(lambda word: "# " + word),
    single,
)
def test_any_values_around_a_change_stay(table: dict[str, Any], comment: str, value: Any) -> None:
    tables = {"first": table, "learner": {"before": table, "step_size": value, **table}, "last": table}
    text = "".join(f"{line} {comment}\n" for line in tomli_w.dumps(tables).splitlines())
    tables["learner"]["step_size"] = 0.5
    after = rewritten(text, {"learner.step_size": 0.5})
    assert tomllib.loads(after) == tables
    assert after.count(comment) >= text.count("\n")
