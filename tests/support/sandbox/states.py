"""Flows in all states, for what depends on the state of a flow."""

import json
from typing import Any

from jobflow.api.resources import NAMESPACES
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
