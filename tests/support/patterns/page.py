"""docs/patterns.md: the patterns with their lines. As a program it writes the page:
PYTHONPATH=tests python -m support.patterns.page
"""

import re
from collections.abc import Iterator
from itertools import groupby
from statistics import median

from support.paths import ROOT
from support.patterns.pattern import Pattern, count_lines, patterns

PAGE = ROOT / "docs" / "patterns.md"
ENGINES = {
    "airflow": "Apache Airflow",
    "argo": "Argo Workflows",
    "kubeflow": "Kubeflow Pipelines",
    "nextflow": "Nextflow",
    "tekton": "Tekton",
    "users": "Problems of users",
    "volcano": "Volcano",
}
INTRODUCTION = """\
# Patterns of other workflow engines

This page is for people who know another engine and want to find the same pattern here. Each row is
an example of that engine's documentation, written as a JobFlow in `tests/patterns`. The tests run
each flow with `--runner process` and check its steps, their order and their phases: a third of them
in `make test`, all in `make test-long`. The problems of users are issues of projects that run
Slurm, Snakemake, Prefect and others.

The columns of lines count YAML below `metadata`, without comments and empty lines. The JobFlows
keep the steps, the order and the data that the steps exchange. Texts and images are shortened, and
random results are replaced by fixed ones so that a test can compare them. Examples of Airflow,
Kubeflow and Nextflow are Python or Groovy, so their lines are not compared.
"""


def lines_of(pattern: Pattern) -> int:
    """Return the lines of the JobFlow."""
    return count_lines(pattern.path.read_text())


def page() -> str:
    """Return the text of the page."""
    found = patterns()
    compared = [(lines_of(each), each.lines) for each in found if each.lines]
    ratio = median(ours / theirs for ours, theirs in compared)
    summary = (
        f"There are {len(found)} patterns; {len(compared)} have an original in YAML. In the "
        f"median, the JobFlow has {ratio:.2f} times the lines of the original, and "
        f"{sum(a <= b for a, b in compared)} have no more lines than it."
    )
    introduction = re.sub(r"(?<=\S)\n(?=\S)", " ", INTRODUCTION)
    return "\n".join([introduction, summary, *_tables(found)]) + "\n"


def _tables(found: list[Pattern]) -> Iterator[str]:
    for engine, group in groupby(found, key=lambda each: each.path.parent.name):
        yield f"\n## {ENGINES[engine]}\n"
        yield "| pattern | original | behaviour | lines | lines of the original |"
        yield "| --- | --- | --- | --- | --- |"
        for each in group:
            link = f"[{each.path.stem}](../{each.path.relative_to(ROOT)})"
            theirs = each.lines or ""
            yield f"| {link} | {each.peer} | {each.says} | {lines_of(each)} | {theirs} |"


if __name__ == "__main__":
    PAGE.write_text(page())
