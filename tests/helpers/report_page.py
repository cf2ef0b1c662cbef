"""What stands in the page of a report: its elements, and the data in its script."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np

from kernelswarm.simulations.report import page

VOID = {"meta", "br", "link", "img", "input"}


class Page(HTMLParser):
    """The elements of a page and the text in each script; an end that ends nothing is refused."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.opened: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: dict[str, list[str]] = {}
        self.feed(text)
        self.close()
        assert self.opened == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.opened.append(tag)
            self.texts.setdefault(tag, []).append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.opened.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.opened:
            self.texts[self.opened[-1]][-1] += data

    @property
    def data(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.texts["script"][0])
        return found


def short(value: float, digits: int) -> float | None:
    return float(f"{value:.{digits}g}") if np.isfinite(value) else None


def page_of(folder: Path) -> Page:
    return Page(page.write(folder).read_text(encoding="utf-8"))


def table(data: dict[str, Any], name: str) -> dict[str, list[Any]]:
    (found,) = (table for table in data["tables"] if table["name"] == name)
    return {column["label"]: column["cells"] for column in found["columns"]}
