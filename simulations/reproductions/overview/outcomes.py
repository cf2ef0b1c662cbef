"""What reproductions have left: what is read of their folders, and which of them answer a request."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from kernelswarm.shallow_json import parse
from kernelswarm.simulations.machine.versions import versions
from kernelswarm.simulations.reproductions.contract import Claim, count
from kernelswarm.simulations.reproductions.report import VERDICTS

State = Literal["new", "reused", "failed", "no data"]


@dataclass(frozen=True)
class Asked:
    """What is asked of one reproduction; ``place`` is the module and function behind it, ``data`` an absolute path."""

    name: str
    place: str
    folder: Path
    data: Path | None
    quick: bool
    seed: int


@dataclass(frozen=True)
class Kept:
    """A reproduction that was written: its table and its ``summary.json``."""

    folder: Path
    claims: tuple[Claim, ...]
    summary: Mapping[str, Any]

    @property
    def counts(self) -> dict[str, int]:
        """How many rows there are of each kind, as of :func:`~kernelswarm.simulations.reproductions.contract.count`."""
        return count(self.claims)

    @property
    def figures(self) -> list[Path]:
        """Its figures, as PNG files."""
        return [self.folder / f"{name}.png" for name in self.summary["figures"]]


@dataclass(frozen=True)
class Outcome:
    """What became of one reproduction: why it failed or which data it needs, or else what it has left."""

    name: str
    sentence: str
    state: State
    cause: str = ""
    kept: Kept | None = None


def read(folder: Path) -> Kept | None:
    """Read what a reproduction has left in its folder; None where that is not whole."""
    try:
        summary = parse((folder / "summary.json").read_text(encoding="utf-8"))
        rows = list(csv.DictReader((folder / "table.csv").read_text(encoding="utf-8").splitlines()))
        holds = {word: verdict for verdict, word in VERDICTS.items()}
        claims = [
            Claim(row["quantity"], row["published"], row["measured"], row["settings"], holds[row["holds"]])
            for row in rows
        ]
        kept = Kept(folder, tuple(claims), summary)
        whole = sum(summary["claims"].values()) == len(claims) and all(path.is_file() for path in kept.figures)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return kept if whole else None


def answering(asked: Asked) -> Kept | None:
    """Return what is there already of a request: the same data, seed and version, quick or not; None where nothing."""
    wanted = (asked.name, asked.quick, asked.seed, None if asked.data is None else str(asked.data))
    named = re.compile(rf"{re.escape(asked.folder.name)}(-\d+)?")
    beside = asked.folder.parent.iterdir() if asked.folder.parent.is_dir() else ()
    for folder in sorted(path for path in beside if named.fullmatch(path.name)):
        kept = read(folder)
        if kept is None:
            continue
        written = kept.summary
        same = (written.get("name"), written.get("quick"), written.get("seed"), written.get("data")) == wanted
        if same and written.get("versions", {}).get("kernelswarm") == versions()["kernelswarm"]:
            return kept
    return None
