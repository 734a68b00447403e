"""The stand-in goes through what real Volcano did, in the same phases and to the same end.

tests/data/volcano-vcjobs.jsonl was recorded on a real API server. What came from outside the job
controller (pods that a node moved, the scheduler letting a job in, users) is played back in its
order and at its times; what the job controller made of it is compared.

The recording's vcjobs passed their CRD (maxRetry 3) but no mutating webhook, so they go into the
state machine with that default alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec
import pytest

from jobflow.api.job import JobSpec, JobStatus
from jobflow.sandbox.inbox import Inbox
from jobflow.sandbox.machine import JobView, pod_name, step
from jobflow.sandbox.policies import (
    SYNC,
    BusAction,
    BusEvent,
    Pod,
    PodPhase,
    Request,
    evicted_request,
    pod_request,
)

RECORDING = Path(__file__).parents[1] / "data" / "volcano-vcjobs.jsonl"
START = datetime(2026, 11, 21, 2, 52, 46, tzinfo=UTC)


def scenarios() -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    head: dict[str, Any] = {}
    lines: list[dict[str, Any]] = []
    for text in RECORDING.read_text().splitlines():
        line = json.loads(text)
        if "scenario" in line:
            if head:
                yield head, lines
            head, lines = line, []
        else:
            lines.append(line)
    yield head, lines


SCENARIOS = {head["scenario"]: (head, lines) for head, lines in scenarios()}


@dataclass
class Replay:
    """A vcjob in the hands of the stand-in, moved by the lines of a recording."""

    name: str
    spec: JobSpec
    status: JobStatus = field(default_factory=JobStatus)
    pods: dict[str, Pod] = field(default_factory=dict)
    inbox: Inbox = field(default_factory=Inbox)
    admitted: bool = False
    now: datetime = START
    history: list[JobStatus] = field(default_factory=list)
    made: list[tuple[str, int, int]] = field(default_factory=list)
    doomed: set[str] = field(default_factory=set)
    deleting: bool = False
    gone: bool = False

    def play(self, line: dict[str, Any]) -> None:
        self.now = START + timedelta(seconds=line["t"])
        match line["kind"], line["type"]:
            case "Job", "ADDED":
                self.inbox.offer(SYNC)
            case "Job", "MODIFIED":
                self.deleting = line.get("deleting", False)
            case "Job", "DELETED":
                self.gone = True
            case "Command", "USER":
                action = BusAction(line["action"])
                self.inbox.offer(Request(event=BusEvent.COMMAND_ISSUED, action=action))
            case "Pod", "ADDED" if not self.admitted:
                self.admitted = True
                self.inbox.offer(SYNC)
            case "Pod", "MODIFIED":
                self.pod_changed(line)
            case "Pod", "DELETED":
                pod = self.pods.pop(line["name"])
                ours = pod.uid in self.doomed or self.gone
                self.inbox.offer(SYNC if ours else evicted_request(pod))
        if not self.gone:
            self.settle()

    def pod_changed(self, line: dict[str, Any]) -> None:
        old = self.pods[line["name"]]
        phase = PodPhase(line["phase"])
        new = replace(
            old, phase=phase, deleting=line.get("deleting", False), exit_code=phase == "Failed"
        )
        self.pods[new.name] = new
        self.inbox.offer(pod_request(old, new, self.spec, self.pods))

    def settle(self) -> None:
        """What the controller does: one action after another until nothing is left to do."""
        while work := self.inbox.take(self.spec, self.status, self.pods, self.now):
            view = JobView(
                self.name, START + timedelta(seconds=1), self.spec, self.status, self.pods
            )
            view = replace(view, admitted=self.admitted, deleting=self.deleting)
            outcome = step(view, work.action, work.request, self.now)
            self.apply(outcome.create, outcome.delete)
            self.inbox.done(work)
            if outcome.status != self.status:
                self.history.append(outcome.status)
                if outcome.status.state.phase != view.phase:
                    self.inbox.offer(SYNC)
                if (outcome.status.version or 0) > (self.status.version or 0):
                    self.admitted = False  # a kill takes the job's pod group along
                self.status = outcome.status

    def apply(self, create: tuple[tuple[int, int], ...], delete: tuple[Pod, ...]) -> None:
        version, retries = self.status.version or 0, self.status.retry_count or 0
        for task_index, index in create:
            task = (self.spec.tasks or [])[task_index].name or ""
            name = pod_name(self.name, task, index)
            self.made.append((name, version, retries))
            uid = f"{name}/{len(self.made)}"
            self.pods[name] = Pod(name=name, task=task, version=version, uid=uid)
        for pod in delete:
            self.pods[pod.name] = replace(pod, deleting=True)
            self.doomed.add(pod.uid)

    def phases(self) -> list[str]:
        return [phase for phase, _ in groupby(status.state.phase for status in self.history)]


def replay(scenario: str) -> Replay:
    head, lines = SCENARIOS[scenario]
    spec = msgspec.convert({"maxRetry": 3, **head["spec"]}, JobSpec)
    world = Replay(scenario, spec)
    for line in lines:
        world.play(line)
    return world


def recorded_statuses(scenario: str) -> list[dict[str, Any]]:
    _, lines = SCENARIOS[scenario]
    statuses = [line["status"] for line in lines if line["kind"] == "Job" and "status" in line]
    return [status for status in statuses if status]


def shape(status: dict[str, Any]) -> dict[str, Any]:
    """A status without what depends on the moment: times, and how often it was killed again."""
    rest = {key: value for key, value in status.items() if key not in ("version", "state")}
    return rest | {
        "state": {key: value for key, value in status["state"].items() if "Time" not in key},
        "conditions": [entry["status"] for entry in status["conditions"]],
        "runningDuration": "runningDuration" in status,
        "version": "version" in status,
    }


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_same_phases_in_the_same_order(scenario: str) -> None:
    recorded = [status["state"]["phase"] for status in recorded_statuses(scenario)]
    assert replay(scenario).phases() == [phase for phase, _ in groupby(recorded)]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_same_final_status(scenario: str) -> None:
    final = msgspec.to_builtins(replay(scenario).status)
    assert shape(final) == shape(recorded_statuses(scenario)[-1])


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_same_pods_made_and_left(scenario: str) -> None:
    """A pod's version is compared as first or later: Volcano kills an aborted job as often as an
    event comes in, and counts up each time."""
    _, lines = SCENARIOS[scenario]
    pods = [line for line in lines if line["kind"] == "Pod"]
    made = [
        (
            line["name"],
            line["annotations"]["volcano.sh/job-version"] != "0",
            int(line["annotations"]["volcano.sh/job-retry-count"]),
        )
        for line in pods
        if line["type"] == "ADDED"
    ]
    left: dict[str, str] = {}
    for line in pods:
        if line["type"] == "DELETED":
            left.pop(line["name"])
        elif line["type"] != "USER":
            left[line["name"]] = line["phase"]
    world = replay(scenario)
    assert sorted((name, version > 0, tries) for name, version, tries in world.made) == sorted(made)
    assert {pod.name: pod.phase for pod in world.pods.values()} == left


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_status_on_the_way_is_one_that_volcano_wrote(scenario: str) -> None:
    recorded = [shape(status) for status in recorded_statuses(scenario)]
    strange = [
        built
        for status in replay(scenario).history
        if (built := shape(msgspec.to_builtins(status))) not in recorded
    ]
    assert strange == []
