"""Converted workflows in virtual time: their ends, and the texts that their pods got."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.labels import SANDBOX_PREFIX
from jobflow.sandbox.virtual_time.planned_flows import VirtualCluster
from support.argo.migrated import Migrated, inputs, migrate


@dataclass(frozen=True)
class CarriedOut:
    """The end of a workflow that was converted without a gap."""

    phase: str
    told: list[str]
    """The texts of the pods that ran, in order."""
    errors: list[str]
    """Messages of ExpressionErrors."""
    migrated: Migrated


def carry_out(*objects: Mapping[str, Any]) -> CarriedOut:
    """Convert a workflow of `program` templates and run it until its end."""
    migrated = migrate(*map(dict, objects))
    assert migrated.text.code == 0, migrated.text.err
    metadata = {"namespace": "default", "name": "flow"}
    flow = msgspec.convert(migrated.flow | {"metadata": metadata}, JobFlow)
    cluster = VirtualCluster(
        datetime(2026, 1, 1, tzinfo=UTC),
        approve_after=lambda step: timedelta(seconds=1),
    )
    cluster.add(flow, ())
    cluster.run()
    [end] = cluster.flows
    assert end.final, "it ends"
    return CarriedOut(str(end.status.state.phase), _told(cluster), [*_errors(cluster)], migrated)


def _errors(cluster: VirtualCluster) -> Iterator[str]:
    for each in cluster.all_flows:
        status = each.present.status
        ends = [(step.reason, step.message) for step in (status.conditions or {}).values()]
        for reason, message in [(status.state.reason, status.state.message), *ends]:
            if reason == "ExpressionError":
                yield message or ""


def _told(cluster: VirtualCluster) -> list[str]:
    found = []
    for each in cluster.jobs:
        tasks: Any = each.spec.tasks
        template = tasks[0].template
        [text] = [e["value"] for e in template["spec"]["containers"][0]["env"]]
        if text:
            found.append(text.replace("$$", "$"))
    return found


def program(name: str, *inputs_: str, text: str = "", **more: Any) -> dict[str, Any]:
    """Return a template whose pod gets a text as a variable, exits with its input `code`, and
    writes its input `out` as an output, if it has these inputs."""
    settings = {"code": "exit-code", "out": "output"}
    annotations = {
        f"{SANDBOX_PREFIX}{setting}": f"{{{{inputs.parameters.{name}}}}}"
        for name, setting in settings.items()
        if name in inputs_
    }
    environment = [{"name": "TEXT", "value": text}]
    container = {"image": "alpine", "command": ["sh", "-c", "true"], "env": environment}
    found = {"name": name, "container": container, "inputs": inputs(*inputs_), **more}
    return found | ({"metadata": {"annotations": annotations}} if annotations else {})
