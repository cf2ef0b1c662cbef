"""Pages are short sentences in the field's words: the rules and their few exceptions stand in ``docs/prose.toml``."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.checkout import ROOT

RULES: dict[str, Any] = tomllib.loads((ROOT / "docs/prose.toml").read_text("utf-8"))
PAGES = sorted({path for pattern in RULES["pages"] for path in ROOT.glob(pattern)})

NOT_PROSE = re.compile(
    r"^ *```.*?^ *```"  # code
    r"|^\$\$.*?^\$\$"  # formulas
    r"|<!--.*?-->"
    r"|^(?: {4,}|\t)(?![-*] |\d+\. )[^\n]*$"  # indented code
    r"|^ *\|[^\n]*$"  # tables
    r"|^#+ [^\n]*$"  # headings
    r"|^!\[[^\n]*$",  # pictures
    re.DOTALL | re.MULTILINE,
)
END = re.compile(r"(?<=[.!?])[\"')*_]*\s+")
SHORT = re.compile(r"\b(e\.g|i\.e|cf|vs)\.\s")
BLOCK = re.compile(r"\n\s*\n|\n(?= *(?:[-*]|\d+\.) )")
ITEM = re.compile(r"^\s*(?:[-*]|\d+\.)\s+")


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def plain(text: str) -> str:
    """Return what is read: the words of links, and one word for code or a formula."""
    text = re.sub(r"!?\[((?:[^\[\]]|\[[^\]]*\])*)\]\([^)\s]*\)", r"\1", text)
    text = re.sub(r"`[^`]+`", "`x`", text)
    return re.sub(r"\$[^$\n]+\$", "`x`", text)


def split(text: str) -> Iterator[str]:
    """Return the sentences of a page outside of code, formulas, tables, headings and pictures."""
    for block in BLOCK.split(NOT_PROSE.sub("\n\n", text)):
        words = SHORT.sub(r"\1 ", plain(ITEM.sub("", " ".join(block.split()))))
        yield from (one for one in END.split(words) if one.strip())


def sentences(page: Path) -> list[str]:
    return list(split(page.read_text("utf-8")))


def length(sentence: str) -> int:
    """Return the number of words: those with a letter."""
    return sum(bool(re.search(r"[^\W\d_]", word)) for word in sentence.split())


def unwanted(text: str) -> list[str]:
    """Return the words of a sentence that the rules replace."""
    return [
        word for word in RULES["instead"] if re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", text, re.IGNORECASE)
    ]


def test_sentences_are_found_and_counted() -> None:
    page = """# A heading with many words that nobody counts

One [link of four words](somewhere.md#anchor) and `code of many words`. Two, e.g. this; .5 and 12 are no words!

| a table | is no prose |

- An item that goes on
  in the next line
- another

    code that is indented

```python
nothing = "here"
```
"""
    found = list(split(page))
    assert [length(one) for one in found] == [7, 7, 9, 1]
    assert found[-2:] == ["An item that goes on in the next line", "another"]
    assert unwanted("The Weather is told, not retold.") == ["weather", "told"]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_no_sentence_of_a_page_is_longer_than_the_limit(page: Path) -> None:
    assert [one for one in sentences(page) if length(one) > RULES["longest_sentence"]] == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_pages_use_the_words_of_the_field(page: Path) -> None:
    found = {word: (one, RULES["instead"][word]) for one in sentences(page) for word in unwanted(one)}
    assert set(found) == set(RULES["meant"].get(name(page), [])), found


@pytest.mark.parametrize(
    "folder",
    ["agents", "graphs", "protocols", "simulations", "kernelswarm", "tests", "benchmarks", "examples"],
)
def test_code_uses_the_words_of_the_field_in_names_comments_and_messages(folder: str) -> None:
    found: dict[str, set[str]] = {}
    for file in (ROOT / folder).rglob("*"):
        if file.suffix not in {".py", ".toml", ".rst"}:
            continue
        for word in re.findall(r"[^\W\d_]+", file.read_text("utf-8").lower()):
            if word in RULES["former"]:
                found.setdefault(name(file), set()).add(word)
    meant = {file: set(words) for file, words in RULES["meant"].items() if file.startswith(f"{folder}/")}
    assert found == meant
