"""Flows in all states, for what depends on the state of a flow."""

import json
from typing import Any

from jobflow.api.resources import NAMESPACES
from support.sandbox.child_flows import create_child
from support.sandbox.flow_commands import set_status
from support.sandbox.running_controller import Cluster, cron, flow

APPROVAL = {"phase": "Waiting", "reason": "WaitingForApproval"}
STATES: dict[str, dict[str, Any]] = {
    "running": {"state": {"phase": "Running"}},
    "paused": {"state": {"phase": "Running"}, "suspendedAt": "2026-01-01T00:00:00Z"},
    "asking": {
        "state": {"phase": "Running"},
        "conditions": {"asking-ask": APPROVAL, "asking-b": {"phase": "Waiting"}},
    },
    "failed": {"state": {"phase": "Failed", "reason": "StepFailed"}},
    "done": {
        "state": {"phase": "Succeed"},
        "conditions": {"done-ask": {"phase": "Completed"}, "done-b": {"phase": "Completed"}},
    },
}


async def apply_states(world: Cluster) -> None:
    """Apply a flow in each state, with an approval and a step of three items, two CronJobFlows, and
    the namespace team."""
    for name, status in STATES.items():
        made = flow(name, {"ask": "", "b": "ask"})
        made["spec"]["flows"][0]["approval"] = {}
        made["spec"]["flows"][1]["forEach"] = {"items": [1, 2, 3]}
        await world.apply(made)
        await set_status(world, status, name)
    runs = [{"index": 0, "phase": "Completed"}, {"index": 1, "phase": "Failed"}]
    await set_status(
        world, {"conditions": {"failed-b": {"phase": "Failed", "runs": runs}}}, "failed"
    )
    await world.apply(cron("hourly"), cron("nightly", suspend=True))
    team = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}
    await world.client.create(NAMESPACES, "", json.dumps(team).encode())


async def apply_samples(world: Cluster) -> None:
    """Apply the flow samples, with a child flow of the step site and two of the step sites."""
    inner = {"flow": {"flows": [{"name": "fetch"}, {"name": "fit"}]}}
    steps = [{"name": "site", **inner}, {"name": "sites", "forEach": {"count": 3}, **inner}]
    await world.apply(flow("samples", {}, flows=steps))
    await set_status(world, STATES["running"], "samples")
    await create_child(world, "samples", "site")
    for index in range(2):
        await create_child(world, "samples", "sites", index=index)
