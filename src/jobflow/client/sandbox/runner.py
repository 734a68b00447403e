"""How the pods of a sandbox run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from jobflow.client.errors import UNUSABLE, CommandError
from jobflow.client.options import NodeOptions, RunnerName
from jobflow.sandbox.nodes.process.runner import ProcessRunner, RestartLimits
from jobflow.sandbox.nodes.runner import Runner
from jobflow.sandbox.nodes.simulate import SimulateRunner

LOGS = Path(".jobflow/logs")
"""Folder of the logs of processes, with a folder for each run."""


@contextmanager
def node_runner(nodes: NodeOptions) -> Iterator[Runner]:
    """Make the runner; it stops at the end of the context. Raises CommandError."""
    if nodes.runner is RunnerName.SIMULATE:
        yield SimulateRunner(nodes.speed or 1.0)
        return
    restarts = nodes.max_restarts
    limits = RestartLimits() if restarts is None else RestartLimits(most=restarts)
    with ExitStack() as stack:
        runner = ProcessRunner(LOGS, restarts=limits)
        try:
            stack.enter_context(runner)
        except OSError as error:
            sentence = f"{error.filename}: {error.strerror}; it has to be a folder for the logs"
            raise CommandError(UNUSABLE, sentence) from error
        yield runner
