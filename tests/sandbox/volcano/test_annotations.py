"""Annotations under sandbox.jobflow.volcano.sh/, and the pods that follow them."""

import asyncio
import math
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from jobflow.api.duration import format_duration, parse_duration
from jobflow.api.labels import ATTEMPT, INDEX
from jobflow.api.volcano.pod import Container, Pod, PodPhase, PodSpec
from jobflow.sandbox.jobs.objects import VcjobObject, read_vcjob
from jobflow.sandbox.nodes.runner import Assignment, PodProgress, pod_status
from jobflow.sandbox.nodes.simulate import (
    PhaseChange,
    SimulateRunner,
    SimulationScript,
    annotations_of,
    progress_of,
    read_script,
)
from support.sandbox.vcjobs import SANDBOX, START, vcjob

RUNNING, SUCCEEDED, FAILED = PodPhase.RUNNING, PodPhase.SUCCEEDED, PodPhase.FAILED


def script(attempt: str = "1", **annotations: str) -> SimulationScript:
    result, faults = read_all(attempt, **annotations)
    assert faults == ()
    return result


def read_all(attempt: str = "1", **annotations: str) -> tuple[SimulationScript, tuple[str, ...]]:
    prefixed = {SANDBOX + key.replace("_", "-"): value for key, value in annotations.items()}
    return read_script(prefixed, {ATTEMPT: attempt}, ["t", "worker", "ps"])


def marks(task: str = "t", attempt: str = "1", **annotations: str) -> list[tuple[Any, ...]]:
    result = script(attempt, **annotations).marks(task)
    return [(mark.at, mark.phase, mark.exit_code) for mark in result]


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({}, [(0, RUNNING, 0), (1, SUCCEEDED, 0)]),
        ({"duration": "2s"}, [(0, RUNNING, 0), (2, SUCCEEDED, 0)]),
        ({"duration": "0"}, [(0, RUNNING, 0), (0, SUCCEEDED, 0)]),
        ({"exit_code": "0"}, [(0, RUNNING, 0), (1, SUCCEEDED, 0)]),
        ({"exit_code": "3"}, [(0, RUNNING, 0), (1, FAILED, 3)]),
        ({"fail_attempts": "0"}, [(0, RUNNING, 0), (1, SUCCEEDED, 0)]),
        ({"fail_attempts": "2"}, [(0, RUNNING, 0), (1, FAILED, 1)]),
        ({"fail_attempts": "2", "exit_code": "9"}, [(0, RUNNING, 0), (1, FAILED, 9)]),
        ({"failure_reason": "OOMKilled"}, [(0, RUNNING, 0), (1, SUCCEEDED, 0)]),
        (
            {"failure_reason": "OOMKilled", "fail_attempts": "1"},
            [(0, RUNNING, 0), (1, FAILED, 137)],
        ),
        ({"disrupt_attempts": "1", "exit_code": "9"}, [(0, RUNNING, 0), (1, FAILED, 143)]),
        ({"task_phases": '{"ps": [["Running", 1]]}'}, [(0, RUNNING, 0), (1, SUCCEEDED, 0)]),
    ],
)
def test_annotations_set_the_phases_of_a_pod(
    annotations: dict[str, str], expected: list[Any]
) -> None:
    assert marks(**annotations) == expected


@pytest.mark.parametrize(
    ("rows", "more", "expected"),
    [
        ('[["Running", 1], ["Succeeded", 2]]', {}, [(1, RUNNING, 0), (2, SUCCEEDED, 0)]),
        ('[["Pending", 0], ["Running", 0.5]]', {}, [(0.5, RUNNING, 0)]),
        ('[["Running", 1], ["Failed", 2]]', {}, [(1, RUNNING, 0), (2, FAILED, 1)]),
        ('[["Failed", 2]]', {"exit_code": "7"}, [(2, FAILED, 7)]),
        ('[["Running", 1]]', {"duration": "5s"}, [(1, RUNNING, 0), (5, SUCCEEDED, 0)]),
        (
            '[["Running", 1]]',
            {"duration": "5s", "exit_code": "2"},
            [(1, RUNNING, 0), (5, FAILED, 2)],
        ),
        ('[["Running", 9]]', {"duration": "5s"}, [(5, SUCCEEDED, 0)]),
        (
            '[["Running", 1], ["Succeeded", 2]]',
            {"duration": "1s", "exit_code": "2"},
            [(1, RUNNING, 0), (2, SUCCEEDED, 0)],
        ),
        ('[["Succeeded", 2]]', {"fail_attempts": "1"}, [(2, FAILED, 1)]),
        ("[]", {}, []),
        ("[]", {"duration": "2s"}, [(2, SUCCEEDED, 0)]),
    ],
)
def test_listed_phases_are_combined_with_other_annotations(
    rows: str, more: dict[str, str], expected: list[Any]
) -> None:
    assert marks("worker", task_phases=f'{{"worker": {rows}}}', **more) == expected


@pytest.mark.parametrize(("attempt", "code"), [("1", 4), ("2", 4), ("3", 0), ("99", 0)])
def test_the_first_attempts_fail_and_then_one_succeeds(attempt: str, code: int) -> None:
    assert marks(attempt=attempt, fail_attempts="2", exit_code="4")[-1][2] == code


@pytest.mark.parametrize(("index", "message"), [("0", "one"), ("1", "two"), ("7", "two")])
@pytest.mark.parametrize("attempt", ["1", "2"])
def test_an_item_has_the_same_output_in_every_attempt(
    index: str, message: str, attempt: str
) -> None:
    annotations = {f"{SANDBOX}output": '["one", "two"]', f"{SANDBOX}fail-attempts": "1"}
    result, faults = read_script(annotations, {ATTEMPT: attempt, INDEX: index}, ["t"])
    mark = result.marks("t")[-1]
    assert faults == ()
    assert mark.message == message
    assert mark.exit_code == (1 if attempt == "1" else 0)


@pytest.mark.parametrize(
    ("output", "attempt", "message"),
    [
        ('{"acc": 0.9}', "1", '{"acc": 0.9}'),
        ('{"acc": 0.9}', "2", '{"acc": 0.9}'),
        ("done", "1", "done"),
        ('["one", {"acc": 1}]', "1", "one"),
        ('["one", {"acc": 1}]', "2", '{"acc":1}'),
        ('["one", {"acc": 1}]', "3", '{"acc":1}'),
        (' ["[text]"]', "1", "[text]"),
        ("", "1", ""),
    ],
)
def test_the_output_is_the_termination_message(output: str, attempt: str, message: str) -> None:
    assert script(attempt, output=output).marks("t")[-1].message == message


@pytest.mark.parametrize(
    ("annotations", "fault"),
    [
        ({"duration": "2"}, '"2" is not a duration: write it like 2s, 500ms or 1m30s'),
        ({"duration": "-1s"}, '"-1s" is not a duration: write it like 2s, 500ms or 1m30s'),
        ({"duration": ""}, '"" is not a duration: write it like 2s, 500ms or 1m30s'),
        ({"duration": "9999999h"}, '"9999999h" is longer than a hundred years'),
        ({"exit_code": "256"}, '"256" is not an exit code: write a whole number from 0 to 255'),
        ({"exit_code": "-1"}, '"-1" is not an exit code: write a whole number from 0 to 255'),
        ({"exit_code": "٣"}, '"٣" is not an exit code: write a whole number from 0 to 255'),
        ({"fail_attempts": "two"}, '"two" is not a count: write a whole number from 0 up'),
        ({"output": "[]"}, '"[]" is an empty list: give it one entry for each run'),
        ({"output": "[oops"}, "begins like a list but is not JSON"),
        ({"output": "x" * 4097}, "is 4097 bytes; a termination message holds at most 4096"),
        ({"task_phases": "{"}, '"{" is not JSON'),
        ({"task_phases": "[]"}, '"[]" is not a JSON object'),
        ({"task_phases": '{"wroker": []}'}, 'which this job lacks; did you mean "worker"?'),
        ({"task_phases": '{"ps": {}}'}, 'gives task "ps" no list'),
        ({"task_phases": '{"ps": [["Running"]]}'}, 'gives task "ps" an entry that is not a pair'),
        ({"task_phases": '{"ps": [["Running", true]]}'}, "not a pair like"),
        ({"task_phases": '{"ps": [["Running", -1]]}'}, "not a number of seconds from 0: -1"),
        (
            {"task_phases": '{"ps": [["running", 1]]}'},
            'that pods do not have; did you mean "Running"?',
        ),
        ({"task_phases": '{"ps": [["Unknown", 1]]}'}, "that pods do not have"),
        (
            {"task_phases": '{"ps": [["Running", 2], ["Succeeded", 1]]}'},
            "before the phase listed ahead",
        ),
        ({"task_phases": '{"ps": [["Failed", 1], ["Succeeded", 2]]}'}, "phases only go forward"),
        ({"duratoin": "2s"}, 'no such setting; did you mean "duration"?'),
    ],
)
def test_an_invalid_annotation_is_a_fault(annotations: dict[str, str], fault: str) -> None:
    _, faults = read_all(**annotations)
    [message] = faults
    [name] = annotations
    assert message.startswith(f"annotation {SANDBOX}{name.replace('_', '-')}: ")
    assert fault in message


@pytest.mark.parametrize(
    ("label", "text"), [(ATTEMPT, "0"), (ATTEMPT, "first"), (ATTEMPT, "-1"), (INDEX, "-1")]
)
def test_a_label_that_is_not_a_number_is_a_fault(label: str, text: str) -> None:
    _, [fault] = read_script({}, {label: text}, ["t"])
    assert fault.startswith(f'label {label}: "{text}" is not ')


def test_all_faults_are_reported() -> None:
    _, faults = read_all("x", duration="x", exit_code="x", fail_attempts="x", task_phases="x")
    assert len(faults) == 5


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0", 0), ("0s", 0), ("1.5s", 1.5), ("1m30s", 90), ("2h", 7200), ("500ms", 0.5), (".5s", 0.5)],
)
def test_durations_are_parsed_as_in_go(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (3, "3s"),
        (4.023034, "4.023034s"),
        (0.25, "250ms"),
        (90, "1m30s"),
        (7200, "2h0m0s"),
    ],
)
def test_durations_are_formatted_as_in_go(seconds: float, text: str) -> None:
    assert format_duration(timedelta(seconds=seconds)) == text


# ---------------------------------------------------------------------- the clock


class Clock:
    """A clock that advances only during sleep."""

    def __init__(self) -> None:
        self.now = START
        self.delays: list[float] = []

    def __call__(self) -> Any:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.delays.append(round(seconds, 6))
        self.now += timedelta(seconds=seconds)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(asyncio, "sleep", clock.sleep)
    return clock


def assignment(status: dict[str, Any] | None = None, **annotations: str) -> Assignment:
    pod = {
        "metadata": {"name": "j-t-0", "uid": "u", "annotations": {"volcano.sh/task-spec": "t"}},
        "status": status or {"phase": "Pending"},
        "spec": {"containers": [{"name": "c", "image": "busybox"}, {"name": "side"}]},
    }
    stored = msgspec.json.decode(msgspec.json.encode(vcjob("j", **annotations)), type=VcjobObject)
    return Assignment(
        read_vcjob(stored), msgspec.convert(pod, Pod), START, START - timedelta(seconds=1)
    )


async def reported_phases(
    clock: Clock, assigned: Assignment, speed: float = 1.0
) -> list[tuple[str, float]]:
    """Return the reported phases and their times in seconds from START."""
    reported: list[tuple[str, float]] = []

    async def report(progress: PodProgress) -> None:
        reported.append((progress.phase, (clock.now - START).total_seconds()))

    await SimulateRunner(speed, clock=clock).run(assigned, report)
    return reported


LISTED = '{"t": [["Running", 1.5], ["Succeeded", 4]]}'


@pytest.mark.parametrize(
    ("annotations", "speed", "expected"),
    [
        ({"duration": "3s"}, 1, [("Running", 0), ("Succeeded", 3)]),
        ({"duration": "3s"}, 2, [("Running", 0), ("Succeeded", 1.5)]),
        ({"duration": "3s"}, 300, [("Running", 0), ("Succeeded", 0.01)]),
        ({"task_phases": LISTED}, 1, [("Running", 0.5), ("Succeeded", 3)]),
        ({"task_phases": '{"t": [["Running", 2]]}'}, 1, [("Running", 1)]),
    ],
)
async def test_durations_are_divided_by_the_speed(
    clock: Clock, annotations: dict[str, str], speed: float, expected: list[tuple[str, float]]
) -> None:
    assert await reported_phases(clock, assignment(**annotations), speed) == expected


async def test_a_pod_at_infinite_speed_ends_immediately(clock: Clock) -> None:
    reported = await reported_phases(clock, assignment(duration="3h"), math.inf)
    assert (reported, clock.delays) == ([("Succeeded", 0)], [])


async def test_a_running_pod_continues_from_its_start_time(clock: Clock) -> None:
    clock.now += timedelta(seconds=2)
    running = {"phase": "Running", "startTime": "2026-11-21T02:52:46Z"}
    assert await reported_phases(clock, assignment(running, duration="5s")) == [("Succeeded", 5)]
    assert clock.delays == [3]


async def test_an_overdue_pod_ends_immediately(clock: Clock) -> None:
    clock.now += timedelta(seconds=60)
    assert await reported_phases(clock, assignment(duration="5s")) == [("Succeeded", 60)]


def status_of(change: PhaseChange, pod: Pod | None = None) -> dict[str, Any]:
    """Return the status of a pod that began at START, after a change."""
    at = START + timedelta(seconds=change.at)
    pod = pod or assignment().pod
    return pod_status(pod, progress_of(pod, change, START, at))


def test_a_disrupted_pod_has_the_condition_of_a_real_one() -> None:
    (_, evicted) = script(disrupt_attempts="1", output="x").marks("t")
    status = status_of(evicted)
    assert [
        (row["status"], row["reason"])
        for row in status["conditions"]
        if row["type"] == "DisruptionTarget"
    ] == [("True", "EvictionByEvictionAPI")]
    assert "message" not in status["containerStatuses"][0]["state"]["terminated"]
    (_, failed) = script("2", disrupt_attempts="1", exit_code="3").marks("t")
    assert (failed.disrupted, failed.exit_code) == (False, 3)


def test_a_message_is_cut_in_a_pod_of_many_containers() -> None:
    (_, completed) = script(output="x" * 4096).marks("t")
    crowded = Pod(spec=PodSpec(containers=[Container(name=f"c{i}") for i in range(5)]))
    status = status_of(completed, crowded)
    message = status["containerStatuses"][0]["state"]["terminated"]["message"]
    assert message == "x" * 2457


def test_a_failed_container_has_the_reason_of_the_annotation() -> None:
    (_, failed) = script(fail_attempts="1", failure_reason="OOMKilled").marks("t")
    status = status_of(failed)
    assert status["containerStatuses"][0]["state"]["terminated"]["reason"] == "OOMKilled"
    (_, completed) = script("2", fail_attempts="1", failure_reason="OOMKilled").marks("t")
    assert completed.reason == ""


def test_a_failed_pod_has_the_status_of_a_real_one() -> None:
    status = status_of(PhaseChange(2, FAILED, 3, "out of memory"))
    first, second = status["containerStatuses"]
    assert first["state"]["terminated"] == {
        "exitCode": 3,
        "reason": "Error",
        "message": "out of memory",
        "startedAt": "2026-11-21T02:52:46Z",
        "finishedAt": "2026-11-21T02:52:48Z",
    }
    assert "message" not in second["state"]["terminated"]
    ready = next(row for row in status["conditions"] if row["type"] == "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "PodFailed")
    assert (status["phase"], status["podIP"], status["podIPs"]) == (
        "Failed",
        "127.0.0.1",
        [{"ip": "127.0.0.1"}],
    )


@pytest.mark.parametrize(
    ("pod_template", "found"),
    [
        (None, {"x": "1", f"{SANDBOX}duration": "1s"}),
        ({"metadata": {"annotations": 3}}, {"x": "1", f"{SANDBOX}duration": "1s"}),
        (
            {"metadata": {"annotations": {"y": "2", f"{SANDBOX}duration": "2s"}}},
            {"x": "1", f"{SANDBOX}duration": "2s"},
        ),
    ],
)
def test_annotations_of_a_pod_template_take_precedence(pod_template: Any, found: Any) -> None:
    own = {"x": "1", f"{SANDBOX}duration": "1s"}
    assert annotations_of(own, pod_template) == found
