"""Worlds of flows that reuse an ended one, and what ran in them."""

from typing import Any

import msgspec

from jobflow.api import labels
from jobflow.api.flow.control import Reuse
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.resources import ObjectMeta
from jobflow.core.planning.actions import CreateJob
from jobflow.core.planning.observed.child_flow import ChildFlow
from jobflow.core.planning.virtual_time.reuse import ReusePreview, Templates, preview
from support.plan.plan_world import World
from support.plan.planned import Planned


def reusing(before: World, *, name: str = "g", **changes: Any) -> World:
    """Return the world of a new flow that reuses an ended one, with its spec but for changes."""
    reuse = Reuse(flow=before.flow.metadata.name)
    metadata = ObjectMeta(
        name=name,
        namespace="ns",
        uid=f"uid-{name}",
        generation=1,
        creation_timestamp=before.now,
    )
    children = {
        name: job.metadata for name, job in before.jobs.items() if isinstance(job, ChildFlow)
    }
    world = World(
        JobFlow(metadata=metadata, spec=msgspec.structs.replace(before.flow.spec, reuse=reuse)),
        before.templates,
        source=before.flow,
        source_children=children,
        failed_pods_read=before.failed_pods_read,
        now=before.now,
    )
    return world.with_spec(**changes)


def fingerprints(planned: Planned) -> dict[str, str]:
    """Return the fingerprint of each job that the plan creates."""
    creates = (action for action in planned.plan.actions if isinstance(action, CreateJob))
    return {
        each.name: each.manifest["metadata"]["annotations"][labels.FINGERPRINT] for each in creates
    }


def results(world: World, step: str) -> dict[int | None, str]:
    """Return the job of the result that each run of a step has taken, by index."""
    condition = world.plan().conditions[step]
    runs = condition.runs or [condition]
    return {run.index: run.job for run in runs if run.reason == "Reused"}


def previewed(new: World, *earlier: World) -> ReusePreview:
    """Return what a new flow would reuse of the one that it names. `earlier`: the flows that this
    one has reused itself."""
    assert new.source is not None
    stored = [*new.templates.values()]
    return preview(
        new.flow,
        new.source,
        {},
        Templates(stored, stored),
        [each.flow for each in earlier],
        new.now,
    )


def reasons(new: World, *earlier: World) -> dict[str, str]:
    """Return why each run of a new flow that would not be reused runs, by its place."""
    return {row.place: row.why for row in previewed(new, *earlier).runs()}
