"""What is printed: names show all that tells them apart, and no output that fails ends in a traceback."""

from __future__ import annotations

import ast
import os
import sys
import unicodedata
from pathlib import Path

import pytest

from kernelswarm.simulations.command.cli import main
from kernelswarm.simulations.core.errors import LAYOUT, visible
from tests.helpers.checkout import ROOT
from tests.helpers.command_line import commands

UNSEEN = ["\x1b", "\x07", "\x7f", "\x9b", "\xa0", "\xad", "\u034f", "\u115f", "\u200b", "\u202e", "\u2800", "\u3164"]
UNSEEN += ["\ufe0f", "\ufeff", "\uffa0", "\U000e0101", "\U000f0000", "\udc80"]


@pytest.mark.parametrize("letter", UNSEEN)
def test_a_letter_that_does_not_show_is_printed_as_an_escape(letter: str) -> None:
    name = f"Zoë{letter}東"
    shown = visible(name)
    assert shown.startswith("Zoë\\") and shown.endswith("東") and shown != visible("Zoë東")
    assert visible(shown) == shown  # so that a text may pass the border twice


def test_letters_that_show_stay_as_they_are() -> None:
    text = "".join(map(chr, range(0xA1, 0x3000)))
    seen = "".join(letter for letter in text if unicodedata.category(letter)[0] in "LNPS")
    kept = visible(seen + LAYOUT)
    assert set(seen + LAYOUT) - set(kept) <= {"\u115f", "\u1160", "\u2800"}


def test_messages_and_tables_of_names_reach_the_terminal_without_orders(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    call, name = commands(capsys), "y\x1b[31m\u200b"
    rows = [f"{k},{k % 7}.5,{'ab'[k % 2]}\x1b]0;mine\x07" for k in range(40)]
    Path("odd.csv").write_text("\n".join([f"x,{name},node", *rows]), encoding="utf-8")
    answers = [
        call("init", "--data", "odd.csv", "--target", name),
        call("init", "other.toml", "--data", "odd.csv", "--target", f"{name}\x07"),
        call("check", "experiment.toml"),
        call("run", f"{name}.toml"),
        call("compare", "experiment.toml", "--vary", "protocol.name=isolated", "--seeds", "1", "--out", "many"),
        call("tables", "many"),
    ]
    assert [answer.code for answer in answers] == [0, 2, 0, 2, 0, 0]
    texts = [answer.out + answer.err for answer in answers] + [Path("many/comparison.txt").read_text("utf-8")]
    assert not any(letter in text for text in texts for letter in "\x1b\x07\u200b")
    assert all(r"\x1b[31m\u200b" in texts[place] or r"\u001b[31m\u200b" in texts[place] for place in (1, 3, 4, 5, 6))


def test_commands_print_by_one_function() -> None:
    found = {
        f"{path.name}: {ast.unparse(call)}"
        for path in (ROOT / "simulations/command").glob("*.py")
        for call in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "print" and call.args
    }
    assert {line.partition(":")[0] for line in found} == {"printing.py", "options.py"}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
@pytest.mark.parametrize("words", [["list"], ["run", "--help"], ["--version"]])
@pytest.mark.parametrize("closed", [False, True])
def test_output_that_cannot_be_written_ends_in_words(
    words: list[str], closed: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if closed:
        reading, writing = os.pipe()
        os.close(reading)
    with open(writing if closed else "/dev/full", "w") as file:
        monkeypatch.setattr(sys, "stdout", file)
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code == 1 and sys.stdout is file
    said = "kernelswarm: standard output cannot be written (No space left on device): free room there, or send it "
    assert capsys.readouterr().err == ("" if closed else f"{said}elsewhere\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
@pytest.mark.parametrize(("words", "code"), [(["nonsense"], 2), (["list"], 0)])
def test_without_room_for_errors_the_exit_code_says_it(
    words: list[str], code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open("/dev/full", "w") as file:
        monkeypatch.setattr(sys, "stderr", file)
        with pytest.raises(SystemExit) as ended:
            main(words)
    assert (ended.value.code or 0) == code
