"""Pod events that matter to a flow: a step that has not started probes the job of the pod."""

from typing import Any

import msgspec
import pytest

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.volcano.job import Job
from jobflow.api.volcano.pod import Pod, PodSpec
from jobflow.controller.probes.pod_index import PodIndex
from jobflow.store import Store

PROBE = {"taskStatusList": [{"taskName": "worker", "phase": "Succeeded"}]}
F = ("ns", "f")


class World:
    """A flow whose step `b` waits for a probe of `a`, and the vcjob of `a`."""

    def __init__(self, probe: Any = PROBE, annotations: Any = None, **status: Any) -> None:
        self.store = Store()
        depends_on = {"targets": ["a"], "probe": probe}
        steps = [{"name": "a"}, {"name": "b", "dependsOn": depends_on}, {"name": "c"}]
        self.flow = msgspec.convert(
            {"metadata": meta("f"), "spec": {"flows": steps}, "status": status}, JobFlow
        )
        self.store.flows.changed(self.flow)
        flow = {"kind": "JobFlow", "name": "f", "uid": "uid-f", "controller": True}
        for step in "ac":
            notes = {"flow.volcano.sh/step": step} if annotations is None else annotations
            metadata = meta(f"f-{step}", ownerReferences=[flow], annotations=notes)
            self.store.jobs.changed(msgspec.convert({"metadata": metadata}, Job))
        self.interest = PodIndex(self.store)

    def concerns(self, old: Pod | None, new: Pod | None) -> bool:
        key = self.interest.flow_of(old, new)
        assert key in (None, F)
        return key is not None


def meta(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "namespace": "ns", "uid": f"uid-{name}", "resourceVersion": "1", **more}


def pod(phase: str = "Running", job: str = "f-a", uid: str = "", **more: Any) -> Pod:
    owner = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "name": job,
        "uid": uid or f"uid-{job}",
        "controller": True,
    }
    fields = meta(f"{job}-worker-0", ownerReferences=[owner], **more.pop("metadata", {}))
    return msgspec.convert({"metadata": fields, "status": {"phase": phase, **more}}, Pod)


async def test_events_of_probed_pods_concern_the_flow() -> None:
    world = World()
    assert world.concerns(None, pod())
    assert world.concerns(pod("Pending"), pod())
    assert world.concerns(pod(), None)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        (pod("Succeeded"), True),
        (pod(podIP="10.0.0.9"), True),
        (pod(metadata={"uid": "another"}), True),
        (pod(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}), True),
        (pod(containerStatuses=[{"name": "main", "restartCount": 3}]), False),
    ],
    ids=["phase", "IP", "UID", "deletion", "restart"],
)
async def test_changes_that_a_probe_uses_concern_the_flow(changed: Pod, expected: bool) -> None:
    assert World().concerns(pod(), changed) is expected


RETRIED = {"f-b": {"phase": "Waiting", "attempts": 2, "pastAttempts": 2}}


@pytest.mark.parametrize(
    ("world", "new", "expected"),
    [
        ({}, pod(job="f-c"), False),
        ({}, pod(uid="older"), False),
        ({}, pod(job="g-a"), False),
        ({"probe": None}, pod(), False),
        ({"state": {"phase": "Failed"}}, pod(), False),
        ({"conditions": RETRIED}, pod(), True),
        ({"annotations": {}}, pod(), True),
    ],
    ids=["not probed", "older job", "unknown job", "no probes", "ended", "retried", "Volcano's"],
)
async def test_only_pods_of_probed_jobs_concern_the_flow(
    world: dict[str, Any], new: Pod, expected: bool
) -> None:
    assert World(**world).concerns(None, new) is expected


@pytest.mark.parametrize(
    ("phase", "attempts", "expected"),
    [("Waiting", 0, True), ("Waiting", 1, False), ("Running", 1, False), ("Failed", 0, False)],
)
async def test_pods_of_a_started_step_are_ignored(
    phase: str, attempts: int, expected: bool
) -> None:
    world = World(conditions={"f-b": {"phase": phase, "attempts": attempts}})
    assert world.concerns(None, pod()) == expected


async def test_a_pod_that_a_kubelet_has_taken_is_looked_at_later() -> None:
    world = World(probe=None)
    spec, start_time = PodSpec(node_name="n1"), "2026-01-01T00:00:00Z"
    bound = msgspec.structs.replace(pod("Pending"), spec=spec)
    taken = msgspec.structs.replace(pod("Pending", startTime=start_time), spec=spec)
    assert world.interest.flow_of_starting(None, bound) is None
    assert world.interest.flow_of_starting(bound, taken) == F
    assert world.interest.flow_of_starting(taken, taken) is None
    assert world.interest.flow_of_starting(taken, pod()) is None
    assert world.interest.flow_of_starting(taken, None) is None


async def test_the_index_forgets_a_deleted_flow() -> None:
    world = World()
    world.concerns(None, pod())
    assert world.interest._probing
    world.interest.forget(world.flow)
    assert not world.interest._probing
