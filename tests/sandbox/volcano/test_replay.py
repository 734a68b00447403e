"""Replay of vcjobs recorded on real Volcano: same phases, same final status.

tests/data/volcano-vcjobs.jsonl was recorded on a real API server. External events (pods that a node
moved, admission by the scheduler, users) are replayed in order and at their times; the reactions of
the job controller are compared. The recorded vcjobs passed their CRD (maxRetry 3) but no mutating
webhook, so the state machine gets that default only.
"""

import json
from collections.abc import Iterator
from datetime import timedelta
from itertools import groupby
from typing import Any

import msgspec
import pytest

from jobflow.sandbox.jobs.objects import VcjobObject, build_pod, read_vcjob
from support.paths import ROOT
from support.sandbox.vcjobs import START, PlayedJob, job_spec

RECORDING = ROOT / "tests" / "data" / "volcano-vcjobs.jsonl"
Line = dict[str, Any]


def scenarios() -> Iterator[tuple[Line, list[Line]]]:
    """Yield each scenario's head and its lines."""
    lines = [json.loads(text) for text in RECORDING.read_text().splitlines()]
    heads = [index for index, line in enumerate(lines) if "scenario" in line]
    for begin, end in zip(heads, [*heads[1:], len(lines)], strict=True):
        yield lines[begin], lines[begin + 1 : end]


SCENARIOS = {head["scenario"]: (head, lines) for head, lines in scenarios()}


def replay(scenario: str) -> PlayedJob:
    head, lines = SCENARIOS[scenario]
    job = PlayedJob(job_spec(**head["spec"]), name=scenario, admitted=False, gang=True)
    for line in lines:
        job.now = START + timedelta(seconds=line["t"])
        if (line["kind"], line["type"]) == ("Job", "DELETED"):
            job.deleting = True
        replay_line(job, line)
    return job


def replay_line(job: PlayedJob, line: Line) -> None:
    match line["kind"], line["type"]:
        case "Job", "ADDED":
            job.begin()
        case "Job", "MODIFIED":
            job.deleting = line.get("deleting", False)
        case "Command", "USER":
            job.command(line["action"])
        case "Pod", "ADDED":
            job.admit()
        case "Pod", "MODIFIED":
            job.pod(line["name"], line["phase"], deleting=line.get("deleting", False))
        case "Pod", "DELETED":
            job.delete_pod(line["name"])


def recorded_statuses(scenario: str) -> list[dict[str, Any]]:
    lines = SCENARIOS[scenario][1]
    return [line["status"] for line in lines if line["kind"] == "Job" and line.get("status")]


def recorded_pods(scenario: str) -> list[Line]:
    lines = SCENARIOS[scenario][1]
    return [line for line in lines if line["kind"] == "Pod" and line["type"] != "USER"]


def comparable(status: dict[str, Any]) -> dict[str, Any]:
    """Return a status without times and without the number of repeated kills."""
    fields = {key: value for key, value in status.items() if key not in ("version", "state")}
    return fields | {
        "state": {key: value for key, value in status["state"].items() if "Time" not in key},
        "conditions": [entry["status"] for entry in status["conditions"]],
        "runningDuration": "runningDuration" in status,
        "version": "version" in status,
    }


def test_thirteen_scenarios_were_recorded() -> None:
    assert len(SCENARIOS) == 13


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_phases_match_volcano(scenario: str) -> None:
    recorded = [status["state"]["phase"] for status in recorded_statuses(scenario)]
    assert replay(scenario).phases == [phase for phase, _ in groupby(recorded)]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_final_status_matches_volcano(scenario: str) -> None:
    final = msgspec.to_builtins(replay(scenario).status)
    assert comparable(final) == comparable(recorded_statuses(scenario)[-1])


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_times_match_volcano(scenario: str) -> None:
    """Phase times differ by at most a second, because Volcano records whole seconds."""
    replayed = replay(scenario).status.conditions or []
    recorded = recorded_statuses(scenario)[-1]["conditions"]
    expected = msgspec.convert(recorded, type=list[type(replayed[0])])  # type: ignore[misc]
    for own, other in zip(replayed, expected, strict=True):
        assert own.last_transition_time and other.last_transition_time
        difference = own.last_transition_time - other.last_transition_time
        assert abs(difference) <= timedelta(seconds=1)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_created_and_remaining_pods_match_volcano(scenario: str) -> None:
    """Versions are compared as first or later, because Volcano kills an aborted job on each
    event."""
    created: list[tuple[str, bool, int]] = []
    remaining: dict[str, str] = {}
    for line in recorded_pods(scenario):
        if line["type"] == "DELETED":
            del remaining[line["name"]]
            continue
        remaining[line["name"]] = line["phase"]
        if line["type"] == "ADDED":
            annotations = line["annotations"]
            is_later = annotations["volcano.sh/job-version"] != "0"
            created.append((line["name"], is_later, int(annotations["volcano.sh/job-retry-count"])))
    job = replay(scenario)
    assert sorted((name, version > 0, tries) for name, version, tries in job.created) == sorted(
        created
    )
    assert {pod.name: pod.phase for pod in job.pods.values()} == remaining


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_status_is_in_the_recording(scenario: str) -> None:
    recorded = [comparable(status) for status in recorded_statuses(scenario)]
    replayed = [comparable(msgspec.to_builtins(status)) for status in replay(scenario).history]
    assert [status for status in replayed if status not in recorded] == []


def test_a_new_pod_matches_volcano() -> None:
    """Labels, annotations and the owner reference are compared with the first recorded pod."""
    head, _ = SCENARIOS["completes"]
    [recorded, *_] = recorded_pods("completes")
    [owner] = recorded["ownerReferences"]
    stored = {
        "metadata": {"name": "completes", "namespace": "cap", "uid": owner["uid"]},
        "spec": head["spec"],
    }
    job = read_vcjob(msgspec.json.decode(msgspec.json.encode(stored), type=VcjobObject))
    meta = build_pod(job, (job.spec.tasks or [])[0], 0)["metadata"]
    own = head["spec"]["tasks"][0]["template"]["metadata"]["annotations"]
    assert meta["name"] == recorded["name"]
    assert meta["labels"] == recorded["labels"]
    assert meta["annotations"] == recorded["annotations"] | own
    assert meta["ownerReferences"] == [owner]
