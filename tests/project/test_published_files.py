"""The files around the library say what holds of it: citation, paper, changes, workflows, templates, hooks, image."""

from __future__ import annotations

import re
import shlex
import tomllib
from typing import Any

import pytest
import yaml

from kernelswarm.simulations.command.listing import PAPERS
from tests.helpers.checkout import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


def read(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text("utf-8"))


def steps(workflow: dict[str, Any]) -> list[dict[str, Any]]:
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


def test_the_citation_is_of_this_version_and_of_the_papers_that_docstrings_name() -> None:
    citation = read("CITATION.cff")
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    assert (citation["version"], citation["license"]) == (PROJECT["version"], PROJECT["license"])
    references = {one["notes"]: one for one in citation["references"]}
    assert set(references) == set(PAPERS)
    for word, paper in PAPERS.items():
        assert paper.endswith(f", {references[word]['title']}")
        named = [f"{one['given-names'][0]}." for one in references[word]["authors"]]
        assert re.findall(r"(?:^|, )([A-Z]\.)", paper)[: len(named)] == named
        assert all(one["family-names"] in paper for one in references[word]["authors"])


@pytest.mark.parametrize("name", ["docs/reproductions.md", "paper/paper.bib"])
def test_pages_name_the_same_papers(name: str) -> None:
    text = " ".join((ROOT / name).read_text("utf-8").split()).lower()
    for one in read("CITATION.cff")["references"]:
        assert one["title"].lower() in text


def test_the_paper_is_of_this_project_and_cites_what_its_bibliography_holds() -> None:
    _, head, text = (ROOT / "paper/paper.md").read_text("utf-8").split("---\n", 2)
    paper, citation = yaml.safe_load(head), read("CITATION.cff")
    assert paper["title"] == citation["title"]
    assert [f"The {one['name']}" for one in paper["authors"]] == [one["name"] for one in citation["authors"]]
    assert [one["name"] for one in PROJECT["authors"]] == [one["name"] for one in citation["authors"]]
    assert len(text.split()) <= 1000
    entries = re.findall(r"^@\w+\{(\w+),", (ROOT / "paper" / paper["bibliography"]).read_text("utf-8"), re.MULTILINE)
    assert len(entries) == len(set(entries))
    assert set(re.findall(r"(?<=[\[ ;])@(\w+)", text)) == set(entries)
    for heading in ("Summary", "Statement of need", "State of the field", "Features", "References"):
        assert f"\n# {heading}\n" in text


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) < 95


@pytest.mark.parametrize("path", sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml")), ids=lambda path: path.name)
def test_issue_templates_ask_for_something(path: Any) -> None:
    template = yaml.safe_load(path.read_text("utf-8"))
    if path.name == "config.yml":
        assert set(template) == {"blank_issues_enabled"}
        return
    assert {"name", "description", "body"} <= set(template)
    names = [entry["id"] for entry in template["body"]]
    assert len(names) == len(set(names))
    assert any(entry.get("validations", {}).get("required") for entry in template["body"])


def test_the_changes_begin_with_this_version() -> None:
    headings = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert re.fullmatch(
        rf"(Unreleased \({re.escape(PROJECT['version'])}\)|{re.escape(PROJECT['version'])}.*)", headings[0]
    )


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_run_what_there_is(path: Any) -> None:
    workflow = yaml.safe_load(path.read_text("utf-8"))
    assert {"name", True, "jobs"} <= set(workflow)  # YAML reads "on" as true
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    for step in steps(workflow):
        assert ("uses" in step) != ("run" in step)
        for line in step.get("run", "").splitlines():
            words = shlex.split(line)
            if words[:1] == ["make"]:
                assert words[1] in targets


def test_the_matrix_tries_every_python_that_is_promised() -> None:
    versions = read(".github/workflows/test.yml")["jobs"]["test"]["strategy"]["matrix"]["python-version"]
    promised = [entry.rpartition(" ")[2] for entry in PROJECT["classifiers"] if "Python :: 3." in entry]
    assert promised == versions
    assert versions[0] == PROJECT["requires-python"].removeprefix(">=")


def test_hooks_are_the_linters_of_the_project() -> None:
    developed = {re.split(r"[><=\[]", entry)[0] for entry in PROJECT["optional-dependencies"]["dev"]}
    (repository,) = read(".pre-commit-config.yaml")["repos"]
    assert repository["repo"] == "local"
    programs = [hook["entry"].split()[0] for hook in repository["hooks"]]
    assert set(programs) == {"ruff", "mypy"} <= developed
    assert all(hook["language"] == "system" for hook in repository["hooks"])


def test_the_image_gets_every_folder_that_is_packaged() -> None:
    lines = (ROOT / "Dockerfile").read_text("utf-8").splitlines()
    copied = [word for line in lines if line.startswith("COPY ") for word in line.split()[1:-1]]
    assert all((ROOT / name).exists() for name in copied)
    tops = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]["package-dir"]
    assert set(tops.values()) | {"pyproject.toml", PROJECT["readme"], "constraints.txt", "LICENSE"} == set(copied)
    base = next(line for line in lines if line.startswith("FROM "))
    version = re.search(r"python:(\d+\.\d+)", base)
    assert version is not None and f"Programming Language :: Python :: {version[1]}" in PROJECT["classifiers"]


CONDA = {"matplotlib": "matplotlib-base", "ray": "ray-core"}  # what conda-forge calls the part that is needed


def test_the_conda_recipe_asks_for_what_the_project_asks_for() -> None:
    recipe = read("packaging/conda/recipe.yaml")
    context, requirements = recipe["context"], recipe["requirements"]
    assert context["version"] == PROJECT["version"]
    assert f">={context['python_min']}" == PROJECT["requires-python"]

    def bounds(entries: list[str]) -> dict[str, str]:
        return {CONDA.get(name, name): bound for name, bound in (re.findall(r"[^><=\s]+|[><=].*", e) for e in entries)}

    everywhere = [entry for entry in PROJECT["dependencies"] if ";" not in entry]
    somewhere = [entry.partition(";")[0].strip() for entry in PROJECT["dependencies"] if ";" in entry]
    assert bounds(requirements["run"]) == {"python": ">=${{ python_min }}", **bounds(everywhere)}
    assert bounds(requirements["run_constraints"]) == bounds(somewhere)
    built = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["build-system"]["requires"]
    assert bounds(built).items() <= bounds([entry for entry in requirements["host"] if ">" in entry]).items()
    assert recipe["build"]["python"]["entry_points"] == [
        f"{name} = {place}" for name, place in PROJECT["scripts"].items()
    ]
    assert (recipe["about"]["license"], recipe["about"]["summary"]) == (PROJECT["license"], PROJECT["description"])
