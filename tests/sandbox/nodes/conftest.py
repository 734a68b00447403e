"""A process runner with a log folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from jobflow.sandbox.nodes.process_runner import ProcessRunner
from support.sandbox.processes import process_runner


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[ProcessRunner]:
    with process_runner(tmp_path / "logs") as opened:
        yield opened
