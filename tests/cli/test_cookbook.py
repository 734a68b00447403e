"""The cookbook: excerpts are parts of the examples, and commands print the tables of the pages.

tests/test_docs_commands.py runs the pages that need a sandbox for kubectl.
"""

import re
import shlex
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from jobflow.api.flow.jobflow import JobFlow
from jobflow.display.tree import table
from support.sandbox.command_line import jobflow
from support.sandbox.several_flows import run_flows

FOLDER = Path("docs/cookbook")
PAGES = [
    page
    for page in sorted(FOLDER.glob("*.md"))
    if page.stem != "README" and "jobflow sandbox" not in page.read_text(encoding="utf-8")
]
FENCE = re.compile(
    r"^```yaml\n(?P<excerpt>.*?)^```\n.*?\]\(\.\./\.\./(?P<file>examples/[\w-]+\.yaml)\).*?"
    r"^```sh(?: exit=(?P<code>\d))?\njobflow (?P<command>[^\n]*)\n```\n\n"
    r"```text table\n(?P<table>.*?)^```\n",
    re.MULTILINE | re.DOTALL,
)
TIMES = re.compile(r"\d\d:\d\d:\d\d   (\d\S*)( *)")

REQUESTED = "requested: "
"""The line of requested hours, which short jobs have only if the machine is slow."""


def recipe(page: Path) -> re.Match[str]:
    match = FENCE.search(page.read_text(encoding="utf-8"))
    assert match is not None
    return match


def test_the_first_page_links_to_all_others() -> None:
    links = re.findall(r"\]\(([\w-]+)\.md\)", (FOLDER / "README.md").read_text(encoding="utf-8"))
    assert sorted(links) == sorted(
        page.stem for page in FOLDER.glob("*.md") if page.stem != "README"
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_excerpt_of_a_page_is_part_of_its_example(page: Path) -> None:
    found = recipe(page)
    lines = [line.strip() for line in Path(found["file"]).read_text(encoding="utf-8").splitlines()]
    excerpt = [line.strip() for line in found["excerpt"].splitlines()]
    starts = range(len(lines) - len(excerpt) + 1)
    assert any(lines[i : i + len(excerpt)] == excerpt for i in starts)


@pytest.fixture(scope="module")
def finished() -> dict[str, JobFlow]:
    """Return the finished flow of each page."""
    commands = {page.stem: recipe(page)["command"] for page in PAGES}
    plain = {
        name: Path(found[1])
        for name, command in commands.items()
        if (found := re.fullmatch(r"run --speed 10 (\S+)", command))
    }
    flows = run_flows(plain)
    for name in commands.keys() - plain.keys():
        answer = jobflow(*shlex.split(commands[name]), "-o", "json")
        (flows[name],) = answer.json["items"]
    return {name: msgspec.convert(flow, JobFlow) for name, flow in flows.items()}


@pytest.mark.long
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_command_of_a_page_prints_its_table(page: Path, finished: dict[str, JobFlow]) -> None:
    flow, found = finished[page.stem], recipe(page)
    lines = (line.plain for line in table(flow, datetime.now(UTC)))
    output = "".join(f"{line}\n" for line in lines if not line.startswith(REQUESTED))
    assert TIMES.sub(_without_times, output) == TIMES.sub(_without_times, found["table"])
    assert found["code"] == ("1" if flow.status.state.phase == "Failed" else None)


def _without_times(found: re.Match[str]) -> str:
    """Replace the time of day, and any duration by 1s."""
    return "12:00:00   " + ("1s".ljust(len(found[1] + found[2])) if found[2] else "1s")
