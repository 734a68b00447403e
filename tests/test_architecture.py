"""docs/architecture.md draws the layers of the import contracts; pages name files that exist."""

import ast
import re
import tomllib
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest

from jobflow.api.flow.step import Step
from jobflow.api.flow.traits import Runs, WorkKind, fields_of
from jobflow.core.planning.work.kinds import AT_ONCE, OBJECT_WORK, OWN_WORK
from support.paths import ROOT

SOURCE = ROOT / "src" / "jobflow"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
DIAGRAMS = re.findall(r"^```text\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def layers_of(package: str) -> list[set[str]]:
    """Return the packages in each layer of the import contract, the top layer first."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    [contract] = (
        contract
        for contract in settings["tool"]["importlinter"]["contracts"]
        if contract.get("containers") == [package]
    )
    folder = SOURCE.parent.joinpath(*package.split("."))
    layers = [set(re.findall(r"\w+", layer)) for layer in contract["layers"]]
    packages = [{name for name in layer if (folder / name).is_dir()} for layer in layers]
    return [layer for layer in packages if layer]


@pytest.mark.parametrize(("position", "package"), [(0, "jobflow"), (1, "jobflow.core")])
def test_a_diagram_shows_the_layers_of_the_import_contract(position: int, package: str) -> None:
    names = [re.split(r" {2,}", line)[0] for line in DIAGRAMS[position].splitlines()]
    assert [set(name.split(" | ")) for name in names] == layers_of(package)


def test_no_modules_import_each_other_in_a_circle_not_even_later_or_for_types() -> None:
    graph = grimp.build_graph("jobflow", cache_dir=None)
    imported = {each: graph.find_modules_directly_imported_by(each) for each in graph.modules}
    TopologicalSorter(imported).prepare()  # raises CycleError, which names the circle


PAGES = [ROOT / "docs" / "architecture.md", *sorted((ROOT / "docs" / "decisions").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_files_that_a_page_names_exist(page: Path) -> None:
    folders = "|".join(path.name for base in (SOURCE, ROOT) for path in base.iterdir())
    named = rf"`((?:{folders})/[\w./-]+)`"
    for path in re.findall(named, page.read_text(encoding="utf-8")):
        assert (SOURCE / path).exists() or (ROOT / path).exists(), path


TABLES = (
    "api/flow/",
    "controller/apply/objects.py",
    "core/admission/rules/jobs/work.py",
    "core/planning/observed/children.py",
    "core/planning/work/",
    "core/work.py",
)
"""The files that the kinds of work are made of."""
KNOWING = {
    "client/stuck.py",
    "page/step/approval.py",
    "core/admission/analysis/flow_facts.py",
    "core/drawing/flow_graph.py",
    "core/explain/step.py",
    "core/timelines/time_left.py",
}
"""The other files that read the approval or the child flow of a step. With the importers of
ChildFlow in pyproject.toml, at most twelve."""


WORK_FIELDS = {field.name: runs.kind for field in fields_of(Step) if (runs := field.get(Runs))}
OF_ONE_KIND = {
    "flow_for" if name == "flow" else name  # much else is named flow
    for name, kind in WORK_FIELDS.items()
    if kind not in (None, WorkKind.JOB)
}
"""The fields of a step that say what it runs, but for those of jobs."""


def knows_a_kind(node: ast.AST) -> bool:
    """Whether code reads what only one kind of work has, or compares kinds."""
    if isinstance(node, ast.Compare):
        operands = (node.left, *node.comparators)
        return any(isinstance(each, ast.Attribute) and is_kind(each) for each in operands)
    return isinstance(node, ast.Attribute) and node.attr in OF_ONE_KIND


def is_kind(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id == "WorkKind"


def test_no_kind_of_work_knows_another() -> None:
    work = "jobflow.core.planning.work"
    graph = grimp.build_graph("jobflow", cache_dir=None)
    kinds = {
        module.__name__ for module in (*OBJECT_WORK.values(), *OWN_WORK.values(), *AT_ONCE.values())
    }
    assert kinds < graph.find_children(work)
    for each in graph.find_children(work) - {f"{work}.kinds"}:
        assert not graph.find_modules_directly_imported_by(each) & {f"{work}.kinds", *kinds}, each


def test_few_files_know_a_kind_of_work() -> None:
    found = set()
    for path in SOURCE.rglob("*.py"):
        name = path.relative_to(SOURCE).as_posix()
        if not name.startswith(TABLES):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            found |= {name for node in ast.walk(tree) if knows_a_kind(node)}
    assert found == KNOWING
