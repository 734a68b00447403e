"""Replay of recorded vcjobs of a real Volcano: the status after their events.

tests/data/volcano-vcjobs.jsonl was recorded on a real API server. The events of a scenario's
vcjob and pods are replayed in order, and the status of a plan is stored after each.
"""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import msgspec
import pytest

from jobflow.api.resources import ObjectMeta
from jobflow.api.volcano.job import Job, JobOutline, JobStatus
from jobflow.api.volcano.pod import Pod, PodStatus
from jobflow.core.planning.actions import ReadPods
from support.paths import ROOT
from support.plan.plan_world import World, flow

RECORDING = ROOT / "tests" / "data" / "volcano-vcjobs.jsonl"
BEGAN = datetime(2026, 11, 21, 2, 52, 46, tzinfo=UTC)
Line = dict[str, Any]


def scenarios() -> Iterator[tuple[str, list[Line]]]:
    lines = [json.loads(text) for text in RECORDING.read_text().splitlines()]
    heads = [index for index, line in enumerate(lines) if "scenario" in line]
    for begin, end in zip(heads, [*heads[1:], len(lines)], strict=True):
        yield lines[begin]["scenario"], lines[begin:end]


SCENARIOS = dict(scenarios())


class Replay:
    """A flow of one step whose vcjob is the recorded one."""

    def __init__(self, scenario: str) -> None:
        head, *self.lines = SCENARIOS[scenario]
        self.spec = msgspec.convert(head["spec"], JobOutline)
        self.world = replace(flow("a"), failed_pods_read=False)
        self.reads = 0
        self.events_seen: list[str] = []

    def run(self) -> World:
        for line in self.lines:
            if line["type"] != "USER":
                self.world = replace(self.world, now=BEGAN + timedelta(seconds=line["t"]))
                self.world = self.job(line) if line["kind"] == "Job" else self.pod(line)
                self.settle()
        return self.world

    def settle(self) -> None:
        while not (planned := self.world.plan()).nothing:
            self.reads += sum(isinstance(action, ReadPods) for action in planned.plan.actions)
            self.events_seen += planned.events
            if planned.creates:
                return
            self.world = self.world.apply(planned)

    def job(self, line: Line) -> World:
        if line["type"] == "DELETED":
            return self.world.with_deleted("a")
        job = self.world.jobs.get("f-a") or self.world.job("a", "")
        created = job.metadata.creation_timestamp or self.world.now
        meta: ObjectMeta = msgspec.structs.replace(
            job.metadata, creation_timestamp=created.replace(microsecond=0)
        )
        status = msgspec.convert(line["status"], JobStatus)
        return self.world.with_job(Job(metadata=meta, spec=self.spec, status=status))

    def pod(self, line: Line) -> World:
        uid = "uid-f-a"
        pods = dict(self.world.pods.get(uid, {}))
        if line["type"] == "DELETED":
            del pods[line["name"]]
        else:
            labels = line.get("labels")
            if labels is None:
                labels = pods[line["name"]].metadata.labels
            meta = ObjectMeta(name=line["name"], labels=labels)
            pods[line["name"]] = Pod(metadata=meta, status=PodStatus(phase=line["phase"]))
        return replace(self.world, pods={uid: pods}, live={uid: pods})


class End(NamedTuple):
    phase: str
    reason: str = ""
    tasks: str = ""
    """`ps=Running:1`"""
    duration: str = ""
    restarts: int = 0
    histories: str = "Pending Running"
    reads: int = 0
    failed: str = ""
    """The pod that failed."""


ENDS = {
    "completes": End("Completed", "", "t=Succeeded:1", "3s", histories="Pending Running Completed"),
    "ps-worker": End(
        *("Completed", "", "ps=Running:1 worker=Succeeded:2", "4.042199818s"),
        histories="Pending Running Completing Completed",
        reads=1,
    ),
    "fails-without-policy": End(
        *("Failed", "JobFailed", "t=Failed:1", "3s"),
        histories="Pending Running Failed",
        failed="t-0",
    ),
    "one-of-three-fails": End(
        *("Completed", "", "bad=Failed:1 ok=Succeeded:2", "4s"),
        histories="Pending Running Completed",
    ),
    "restarts-then-fails": End(
        *("Failed", "JobFailed", "t=Failed:1", "5s", 2),
        histories="Pending Running Restarting Pending Running Restarting Failed",
        failed="t-0",
    ),
    "aborts-on-failure": End(
        *("Failed", "JobAborted", "t=Failed:1", "2.963545008s"),
        histories="Pending Running Aborting Aborted",
        failed="t-0",
    ),
    "terminates-on-failure": End(
        *("Failed", "JobTerminated", "t=Failed:1", "3.096041621s"),
        histories="Pending Running Terminating Terminated",
        failed="t-0",
    ),
    "abort-command-then-resume": End(
        *("Failed", "JobAborted", "t=Running:2", "14.511987072s"),
        histories="Pending Running Aborting Aborted",  # the flow had ended then
        reads=1,
    ),
    "deleted-while-running": End("Waiting", "JobLost"),
    "pod-deleted-restarts": End(
        *("Running", "", "t=Running:1", "", 1),
        histories="Pending Running Restarting Pending Running",
    ),
    "cannot-be-scheduled": End("Pending", histories="Pending"),
    "ttl-zero": End("Completed", "", "t=Succeeded:1", "3s", histories="Pending Running Completed"),
    "task-depends-on-task": End(
        *("Completed", "", "first=Succeeded:1 second=Succeeded:1", "3s"),
        histories="Pending Running Completed",
    ),
}


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_recorded_job_has_the_expected_status(scenario: str) -> None:
    replay = Replay(scenario)
    world = replay.run()
    condition = (world.flow.status.conditions or {})["f-a"]
    record = world.records["f-a"]
    tasks = " ".join(
        f"{task}={phase}:{count}"
        for task, state in sorted((condition.task_status_count or {}).items())
        for phase, count in sorted((state.phase or {}).items())
    )
    failed = condition.failure.pod if condition.failure is not None else ""
    assert (
        End(
            phase=condition.phase,
            reason=condition.reason,
            tasks=tasks,
            duration=condition.running_duration,
            restarts=record.restart_count,
            histories=" ".join(entry.state for entry in record.running_histories or ()),
            reads=replay.reads,
            failed=failed.removeprefix(f"{scenario}-"),
        )
        == ENDS[scenario]
    )
    assert max(Counter(replay.events_seen).values()) == 1
    entries = record.running_histories or []
    starts = [entry.start_timestamp for entry in entries]
    assert starts[0] == record.start_timestamp
    assert starts == sorted(start for start in starts if start is not None)
    assert [entry.end_timestamp for entry in entries[:-1]] == starts[1:]
