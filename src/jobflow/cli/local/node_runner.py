"""Makes the runner that flags ask for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from jobflow.cli.flags import Nodes, RunnerName
from jobflow.sandbox.nodes.process.runner import ProcessRunner, Restarts
from jobflow.sandbox.nodes.runner import Runner
from jobflow.sandbox.nodes.simulate import SimulateRunner

LOGS = Path(".jobflow/logs")
"""Where the logs of processes are kept, a folder a run."""


class NoFolder(Exception):
    """There is no place for the logs; the text is for the user."""


@contextmanager
def runner(nodes: Nodes) -> Iterator[Runner]:
    """The runner, for as long as the context lasts. Raises NoFolder."""
    if nodes.runner is RunnerName.SIMULATE:
        yield SimulateRunner(nodes.speed)
        return
    with ExitStack() as stack:
        made = ProcessRunner(LOGS, restarts=Restarts(most=nodes.max_restarts))
        try:
            stack.enter_context(made)
        except OSError as error:
            raise NoFolder(f"{error.filename}: {error.strerror}; logs are kept there") from error
        yield made
