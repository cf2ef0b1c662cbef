"""The documentation site: its order, its links, its examples. Sphinx itself runs by ``make docs``."""

from __future__ import annotations

import contextlib
import importlib
import io
import re
import runpy
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import kernelswarm
from tests.helpers.checkout import ROOT

DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.glob("*.md"), *DOCS.glob("decisions/*.md"), *DOCS.glob("reproductions/*.md")])
MADE = ("gallery/index", "stories/index", "parts/index")
"""Pages that the build writes."""

GALLERY = sorted((ROOT / "examples/gallery").glob("*.py"))
STORIES = sorted((ROOT / "examples/stories").glob("*.py"))


def contents(page: Path) -> list[str]:
    """Return what the tables of contents of a page name."""
    found = []
    for table in re.findall(r"```\{toctree\}\n(.*?)```", page.read_text("utf-8"), re.DOTALL):
        for line in table.splitlines():
            if line and not line.startswith(":"):
                found += [str(path.relative_to(DOCS).with_suffix("")) for path in DOCS.glob(f"{line}.md")] or [line]
    return found


def test_every_page_stands_once_in_the_order() -> None:
    named = Counter(name for page in PAGES for name in contents(page))
    there = {str(page.relative_to(DOCS).with_suffix("")) for page in PAGES} - {"index"}
    assert named == Counter({*there, *MADE})


def test_headings_leave_out_no_level() -> None:
    """Sphinx refuses a page that does."""
    for page in PAGES:
        prose = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
        levels = [0, *(len(marks) for marks in re.findall(r"^(#+) ", prose, re.MULTILINE))]
        assert all(after <= before + 1 for before, after in pairwise(levels)), page


def test_the_configuration_loads_and_names_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    conf = runpy.run_path(str(DOCS / "conf.py"))
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]["docs"]
    packages = {re.split(r"[><=]", entry)[0].replace("-", "_") for entry in extra}
    for name in [*conf["extensions"], conf["html_theme"]]:
        assert name.partition(".")[0] in packages or (DOCS / "extensions" / f"{name}.py").is_file()
    folders = [*conf["html_static_path"], *conf["templates_path"], *conf["sphinx_gallery_conf"]["examples_dirs"]]
    assert all((DOCS / folder).is_dir() for folder in folders)
    pinned = {line.partition("==")[0].lower().replace("-", "_") for line in (ROOT / "constraints.txt").open()}
    assert packages <= pinned


def test_the_reference_lists_what_is_exported() -> None:
    listed = re.findall(r"^   ([A-Za-z]\w*)$", (DOCS / "api.md").read_text("utf-8"), re.MULTILINE)
    assert sorted(listed) == sorted(kernelswarm.__all__)


def code_links(page: Path) -> list[tuple[str, str]]:
    """Return the links of a page whose text is code, as name and module."""
    return re.findall(r"\[`([\w.]+)(?:\(\))?`\]\((?:\.\./)+([\w/]+)\.py\)", page.read_text("utf-8"))


def test_links_to_code_name_what_there_is() -> None:
    assert len(code_links(DOCS / "mathematics.md")) > 30
    for name, module in {link for page in PAGES for link in code_links(page)}:
        assert hasattr(importlib.import_module("kernelswarm." + module.replace("/", ".")), name), (module, name)


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as repositories and MyST make them."""
    text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", [*sorted(ROOT.glob("*.md")), *PAGES], ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if link.startswith(("http://", "https://")):
            continue
        file, _, anchor = link.partition("#")
        target = page.parent / file if file else page
        assert target.exists(), link
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), link


def run(script: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Run an example as by hand, and return what it has made."""
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.chdir(folder)
    pyplot = importlib.import_module("matplotlib.pyplot")
    pyplot.switch_backend("Agg")
    try:
        scope = runpy.run_path(str(script), run_name="__main__")
        assert pyplot.get_fignums()
    finally:
        pyplot.close("all")
    return scope


@pytest.mark.parametrize("script", GALLERY, ids=lambda script: script.stem)
def test_the_gallery_runs(script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(script, tmp_path, monkeypatch)


def in_this_process(command: list[Any], **_: object) -> SimpleNamespace:
    """Run the program of ``python -c program words``: a process of its own takes more than a second to start."""
    output = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(output):
        patch.setattr(sys, "argv", ["-c", *map(str, command[3:])])
        exec(command[2], {"__name__": "__main__"})
    return SimpleNamespace(stdout=output.getvalue())


@pytest.mark.parametrize("script", STORIES, ids=lambda script: script.stem)
def test_stories_end_as_they_say(script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", in_this_process)  # the tutorial's saved model is asked by another indeed
    scope = run(script, tmp_path, monkeypatch)
    runs = scope["runs"]
    if script.stem == "air_quality":
        alone, radio = (scope["errors"](runs[title])["Park"] for title in ("alone", "together, radio"))
        assert radio < alone / 3
    elif script.stem == "robots":
        assert runs["weights are sent"].final["error"] < runs["alone"].final["error"] / 4
        assert runs["values are replayed"].final["error"] < runs["values are sent"].final["error"] / 2
    elif script.stem == "broken_stations":
        sound = scope["sound"]
        misses = [sum(scope["error"](run, name) for name in sound) for run in runs.values()]
        alone, together, trusting = misses
        assert trusting < alone < together
        assert set(scope["suspects"]) == set(scope["BROKEN"])
    else:
        own, one = runs["own model, penalty 0.003"].final, runs["one model"].final
        assert one["global_error"] < runs["alone"].final["global_error"] / 2
        assert own["risk"] < one["risk"]  # an own model knows the clinic's own mix
    assert list(tmp_path.rglob("*.npz"))
