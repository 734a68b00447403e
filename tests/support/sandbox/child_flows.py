"""Child flows that a test creates itself, as the controller does."""

from __future__ import annotations

from typing import Any

from jobflow.api import labels
from jobflow.api.resources import JOBFLOWS
from jobflow.core.names import format_job_name
from support.sandbox.running_controller import Cluster, flow, write_status


async def create_child(
    world: Cluster,
    parent: str,
    step: str,
    *,
    index: int | None = None,
    steps: dict[str, Any] | None = None,
    nested: str = "",
    phase: str = "Running",
) -> str:
    """Create the child flow that a step of `parent` runs, of the steps `fetch` and `fit`, and write
    it into the status of `parent`. `nested`: a step of it that runs a flow. Return its name."""
    owner = (await world.flow(parent)).metadata
    name = format_job_name(parent, step, index=index)
    manifest = flow(name, steps or {"fetch": "", "fit": "fetch"})
    if nested:
        manifest["spec"]["flows"].append({"name": nested, "flow": {"flows": [{"name": "deep"}]}})
    root = (owner.labels or {}).get(labels.ROOT, parent)
    position = {} if index is None else {labels.INDEX: str(index)}
    manifest["metadata"] |= {
        "labels": {labels.PARENT: parent, labels.ROOT: root, labels.STEP: step, **position},
        "annotations": {labels.STEP: step, **position},
        "ownerReferences": [
            {
                "apiVersion": JOBFLOWS.api_version,
                "kind": "JobFlow",
                "name": parent,
                "uid": owner.uid,
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }
    await world.apply(manifest)
    await write_status(world.client, JOBFLOWS, name, {"state": {"phase": phase}})
    await _write_condition(world, parent, step, name, index, phase)
    return name


async def _write_condition(
    world: Cluster, parent: str, step: str, child: str, index: int | None, phase: str
) -> None:
    """Write the condition of a step with this run; its runs before stay."""
    key = format_job_name(parent, step)
    run = {"phase": phase, "flow": child, "attempts": 1}
    condition: dict[str, Any] = run
    if index is not None:
        known = (await world.flow(parent)).status.conditions or {}
        runs = known[key].runs or () if key in known else ()
        before = [{"index": run.index, "phase": run.phase, "flow": run.flow} for run in runs]
        condition = {"phase": phase, "runs": [*before, {"index": index, **run}]}
    await write_status(world.client, JOBFLOWS, parent, {"conditions": {key: condition}})
