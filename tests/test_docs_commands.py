"""The commands of README and docs run as written, and the reference lists the words of the code.

A fence ```sh is a script, and ```sh exit=1 one that exits with 1. A fence ```text output after it
is its output, and ```python file=NAME a file that scripts read. `<!-- not run …` in the line before
a script excludes it, with the reason.
"""

import ast
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from jobflow.api.crd import openapi_schema
from jobflow.api.flow.status import StepPhase
from jobflow.core.planning.observed.steps import FAILURES
from jobflow.core.reasons import HELD_UP, FlowReason, StepReason
from jobflow.core.spec.readiness import SKIPS
from support.paths import ROOT

REFERENCE = ROOT / "docs" / "reference.md"
COOKBOOK = sorted((ROOT / "docs" / "cookbook").glob("*.md"))
"""Pages that start a sandbox are tested here, the others in tests/cli/test_cookbook.py."""
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("*.md"))
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *(page for page in COOKBOOK if "jobflow sandbox" in page.read_text(encoding="utf-8")),
]
FENCE = re.compile(
    r"(?P<before>[^\n]*)\n```sh(?: exit=(?P<code>\d+))?\n(?P<script>.*?)^```\n"
    r"(?:\n```text output\n(?P<output>.*?)^```\n)?",
    re.MULTILINE | re.DOTALL,
)

PYTHON = re.compile(
    r"^```python(?: file=(?P<file>\S+))?\n(?P<source>.*?)^```$", re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True)
class Block:
    """One script of a page."""

    script: str
    code: int
    output: str | None

    @property
    def is_server(self) -> bool:
        """Whether the script is a server, which runs until it is stopped."""
        return self.script.strip() == "jobflow sandbox"

    @property
    def needs_kubectl(self) -> bool:
        return "kubectl" in self.script


def blocks(page: Path) -> list[Block]:
    return [
        Block(found["script"], int(found["code"] or 0), found["output"])
        for found in FENCE.finditer(page.read_text(encoding="utf-8"))
        if not found["before"].startswith("<!-- not run")
    ]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Provide a checkout in which a script may write."""
    for name in ("examples", "docs", "charts"):
        (tmp_path / name).symlink_to(ROOT / name)
    binaries = tmp_path / ".venv" / "bin"
    binaries.mkdir(parents=True)
    (binaries / "jobflow").write_text(
        f'#!/bin/sh\nexec "{sys.executable}" -m jobflow.cli.main "$@"\n'
    )
    (binaries / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    for name in ("jobflow", "python"):
        (binaries / name).chmod(0o755)
    (binaries / "activate").write_text("")
    return tmp_path


@pytest.fixture
def environment(checkout: Path) -> dict[str, str]:
    inherited = {key: value for key, value in os.environ.items() if key != "KUBECONFIG"}
    path = f"{checkout}/.venv/bin{os.pathsep}{os.environ['PATH']}"
    return inherited | {
        "PATH": path,
        "HOME": str(checkout),
        "NO_COLOR": "1",
        "PYTHONPATH": str(ROOT / "src"),
    }


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_commands_of_a_page_run_as_written(
    page: Path, checkout: Path, environment: dict[str, str]
) -> None:
    for found in PYTHON.finditer(page.read_text(encoding="utf-8")):
        ast.parse(found["source"])
        if found["file"]:
            (checkout / found["file"]).write_text(found["source"])
    servers: list[subprocess.Popen[str]] = []
    try:
        for block in blocks(page):
            if block.is_server:
                servers.append(_start(block, checkout, environment))
            elif not block.needs_kubectl or shutil.which("kubectl"):
                _run(block, checkout, environment)
    finally:
        for server in servers:
            server.send_signal(signal.SIGINT)
            server.communicate(timeout=30)
            assert server.returncode == 0


def _start(block: Block, folder: Path, environment: dict[str, str]) -> subprocess.Popen[str]:
    server = subprocess.Popen(
        block.script.split(), cwd=folder, env=environment, stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    assert server.stdout.readline().startswith("export KUBECONFIG=")
    assert server.stdout.readline() == "ready\n"
    return server


def _run(block: Block, folder: Path, environment: dict[str, str]) -> None:
    result = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block.script],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert result.returncode == block.code, f"{block.script}{result.stdout}{result.stderr}"
    if block.output is not None:
        assert result.stdout == block.output


BUCKET_PAGE = ROOT / "docs" / "cookbook" / "files-in-a-bucket.md"


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Provide an S3 server with the bucket `results`, whose address and keys the page names."""
    from moto.server import ThreadedMotoServer  # a second for the only test that needs it
    from s3fs import S3FileSystem

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        url = "http://{}:{}".format(*server.get_host_and_port())
        for name, value in {"S3_URL": url, "S3_KEY": "key", "S3_SECRET": "the-secret"}.items():
            monkeypatch.setenv(name, value)
        found = S3FileSystem(
            endpoint_url=url, key="key", secret="the-secret", use_listings_cache=False
        )
        found.mkdir("results")
        yield found
    finally:
        server.stop()


@pytest.mark.long
def test_the_commands_about_a_bucket_run_on_an_s3_server(
    bucket: Any, checkout: Path, environment: dict[str, str]
) -> None:
    (excerpt,) = PYTHON.finditer(BUCKET_PAGE.read_text(encoding="utf-8"))
    assert excerpt["source"] in (ROOT / "examples" / "python" / "bucket.py").read_text()
    rclone = checkout / ".venv" / "bin" / "rclone"
    rclone.symlink_to(Path(sys.executable).with_name("rclone"))
    (checkout / ".venv" / "bin" / "python3").symlink_to("python")
    for block in blocks(BUCKET_PAGE):
        _run(block, checkout, environment)
    files = bucket.glob("results/wordcount/*/words.txt")
    assert [len(bucket.cat(file).split()) for file in files] == [6, 6]
    (rule,) = bucket.call_s3("get_bucket_lifecycle_configuration", Bucket="results")["Rules"]
    assert (rule["Filter"], rule["Expiration"]) == ({"Prefix": "wordcount/"}, {"Days": 30})
    logs = [path.read_text() for path in checkout.glob(".jobflow/logs/**/*.log")]
    assert logs and not any("the-secret" in log for log in logs)
    # a step whose prefix has no files fails
    for file in ("examples/bucket.yaml", "flow.yaml"):
        text = (
            (checkout / file).read_text().replace("$(steps.write.outputs.files)", "s3://results/x")
        )
        (checkout / "missing.yaml").write_text(text)
        missing = "jobflow run --runner process missing.yaml bucket.yaml > missing.txt"
        _run(Block(missing, 1, None), checkout, environment)
        assert re.search("count +wordcount.*Failed", (checkout / "missing.txt").read_text())


def test_the_readme_runs_its_main_commands() -> None:
    scripts = "".join(block.script for block in blocks(ROOT / "README.md"))
    for command in ("jobflow run", "jobflow lint", "jobflow sandbox", "kubectl apply"):
        assert command in scripts


@pytest.mark.kubectl
def test_kubectl_is_available_for_the_pages_that_use_it() -> None:
    """Scripts with kubectl are skipped without it, but in CI this test then fails."""
    assert any(block.needs_kubectl for page in PAGES for block in blocks(page))


def _section(name: str) -> str:
    text = REFERENCE.read_text(encoding="utf-8")
    return text.split(f"\n## {name}\n")[1].split("\n## ")[0]


def _in_code(pattern: str, *folders: str) -> Iterator[str]:
    for folder in folders:
        for path in sorted((ROOT / "src" / "jobflow" / folder).rglob("*.py")):
            yield from re.findall(pattern, path.read_text(encoding="utf-8"), re.MULTILINE)


def test_every_event_is_in_the_reference() -> None:
    reasons = set(_in_code(r'Event\(EventType\.\w+, "(\w+)"', "core"))
    assert reasons
    assert reasons <= set(re.findall(r"`(\w+)`", _section("Events")))


def _tables(section: str) -> list[list[list[str]]]:
    """Return the cells of the section's tables, without their heads."""
    tables = re.findall(r"(?:^\|.*\n)+", _section(section), re.MULTILINE)
    return [
        [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines()[2:]]
        for table in tables
    ]


def test_the_reference_has_exactly_the_reasons_of_the_code() -> None:
    steps, flows = _tables("Reasons")
    assert {reason.strip("`") for _, reason, _, _ in steps} == {*StepReason, "(none)"}
    assert {phase for phase, _, _, _ in steps} >= {*StepPhase}
    named = {word for reasons, _, _ in flows for word in re.findall(r"\w+", reasons)}
    assert named - {"none"} == {*FlowReason, *HELD_UP}
    assert all(all(row) for row in (*steps, *flows))


def test_reasons_are_members_of_their_enum() -> None:
    literals = re.compile(r'(?:waiting|_failed)\(\s*\w+,\s*"\w|reason=(?:reason or )?"\w')
    for path in (ROOT / "src" / "jobflow" / "core").rglob("*.py"):
        assert not literals.search(path.read_text(encoding="utf-8")), path.name
    assert {*FAILURES.values(), *SKIPS.values()} <= {*StepReason}


def test_every_field_of_a_status_is_in_the_reference() -> None:
    [rows] = _tables("Status")
    words = {word for row in rows for word in re.findall(r"`(?:[\w[\]]*\.)*(\w+)(?:\[])?`", row[0])}
    described = {word for row in rows for word in re.findall(r"`(\w+)`", row[1])}
    status = openapi_schema("JobFlow")["properties"]["status"]["properties"]
    assert set(status) - {"state"} <= words
    assert set(status["state"]["properties"]) <= words
    assert set(status["conditions"]["additionalProperties"]["properties"]) <= words
    for inner in ("failure", "requestedHours"):
        fields = status["conditions"]["additionalProperties"]["properties"][inner]["properties"]
        assert set(fields) <= described


def test_every_field_of_a_flow_is_in_the_reference() -> None:
    spec = openapi_schema("JobFlow")["properties"]["spec"]
    fields = set(_fields("spec", spec))
    text = REFERENCE.read_text(encoding="utf-8")
    assert {field for field in fields if f"`{field}`" not in text} == set()


def _fields(path: str, schema: dict[str, object]) -> Iterator[str]:
    """Yield the paths of all leaves; steps of finally have the fields of other steps."""
    if path.endswith(".probe") or path == "spec.finally[]":
        yield path
    elif isinstance(below := schema.get("properties"), dict):
        for name, inner in below.items():
            yield from _fields(f"{path}.{name}", inner)
    elif isinstance(items := schema.get("items"), dict):
        yield from _fields(f"{path}[]", items)
    else:
        yield path


def test_links_between_pages_have_a_page_and_a_heading() -> None:
    for page in {*PAGES, *COOKBOOK, *DECISIONS, ROOT / "SECURITY.md"}:
        text = page.read_text(encoding="utf-8")
        for path, heading in re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)", text):
            target = page.parent / path if path else page
            assert target.exists(), f"{page.name}: {path}"
            assert not heading or heading in _anchors(target), f"{page.name}: {path}#{heading}"


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
