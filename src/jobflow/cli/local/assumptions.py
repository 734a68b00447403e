"""What the sandbox takes for granted about flows, in sentences for whoever runs them there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from jobflow.api.jobflow import JobFlow
from jobflow.cli.flags import RunnerName
from jobflow.cli.manifests.objects import Manifest


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
