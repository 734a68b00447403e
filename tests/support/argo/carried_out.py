"""Converted workflows in virtual time: their ends, and the texts that their pods got."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.labels import SANDBOX_PREFIX
from jobflow.sandbox.virtual_time.cluster import VirtualCluster
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
    listed = [each.present for each in cluster.all_flows]
    errors = [flow.status.state.message or "" for flow in listed if _erred(flow.status.state)]
    errors += [
        c.message or "" for flow in listed for c in flow.status.conditions.values() if _erred(c)
    ]
    return CarriedOut(str(end.status.state.phase), _told(cluster), errors, migrated)


def _erred(state: Any) -> bool:
    return state is not None and str(state.reason) == "ExpressionError"


def _told(cluster: VirtualCluster) -> list[str]:
    found = []
    for each in cluster.jobs:
        [task, *_] = each.job.spec.tasks or ()
        [text] = [e["value"] for e in task.template["spec"]["containers"][0]["env"]]
        if text:
            found.append(text.replace("$$", "$"))
    return found


def program(name: str, *inputs_: str, text: str = "", **more: Any) -> dict[str, Any]:
    """Return a template whose pod gets a text, exits with its input `code`, and writes its input
    `out` as an output, if it has them."""
    annotations = {}
    if "code" in inputs_:
        annotations[f"{SANDBOX_PREFIX}exit-code"] = "{{inputs.parameters.code}}"
    if "out" in inputs_:
        annotations[f"{SANDBOX_PREFIX}output"] = "{{inputs.parameters.out}}"
    container = {
        "image": "alpine",
        "command": ["sh", "-c", "true"],
        "env": [{"name": "TEXT", "value": text}],
    }
    found = {"name": name, "container": container, **more}
    if annotations:
        found["metadata"] = {"annotations": annotations}
    return found | ({"inputs": inputs(*inputs_)} if inputs_ else {})
