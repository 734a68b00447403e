"""A process runner with a log folder, and a pipe on which its processes report their ids."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from jobflow.sandbox.nodes.process.runner import ProcessRunner
from support.sandbox.processes import Pids, process_runner


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[ProcessRunner]:
    with process_runner(tmp_path / "logs") as made:
        yield made


@pytest.fixture
def pids(tmp_path: Path) -> Iterator[Pids]:
    made = Pids(tmp_path)
    yield made
    made.close()
