"""Makes the runner that flags ask for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec

from jobflow.api.jobflow import JobFlow
from jobflow.cli.flags import Nodes, RunnerName
from jobflow.cli.manifests.objects import Manifest
from jobflow.sandbox.nodes.process.runner import ProcessRunner, RestartLimits
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
        made = ProcessRunner(LOGS, restarts=RestartLimits(most=nodes.max_restarts))
        try:
            stack.enter_context(made)
        except OSError as error:
            raise NoFolder(f"{error.filename}: {error.strerror}; logs are kept there") from error
        yield made


def assumptions(flows: Iterable[Manifest], runner: RunnerName) -> Iterator[str]:
    """Of flows that were found to be right."""
    if runner is RunnerName.SIMULATE and any(map(_asks_pods, flows)):
        yield (
            "nothing listens in simulated pods, so HTTP and TCP probes pass once the pods are "
            "Running; with --runner process they are really asked"
        )


def _asks_pods(manifest: Manifest) -> bool:
    steps = msgspec.convert(manifest.data, JobFlow).steps
    probes = (step.depends_on.probe for step in steps if step.depends_on is not None)
    return any(probe and (probe.http_get_list or probe.tcp_socket_list) for probe in probes)
