"""`jobflow timeline`: the times of a flow's steps, its critical path, and the time that is left."""

import re
import xml.etree.ElementTree as ET
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import JobRecord, JobRunningHistory, StepCondition
from jobflow.api.flow.step import DependsOn, Step
from jobflow.cli.show.timeline import timeline_lines
from jobflow.core.timelines.time_left import TimeLeft, describe_time_left
from jobflow.core.timelines.timeline import timeline
from support.plan.flow_statuses import START, several
from support.sandbox.flow_commands import forbid, run_command, set_status
from support.sandbox.running_controller import DIAMOND, NAMESPACE, Cluster, flow, template


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def stamp(seconds: float) -> str:
    return at(seconds).strftime("%Y-%m-%dT%H:%M:%SZ")


def raw_record(name: str, created: int, began: int, ended: int | None) -> dict[str, Any]:
    """A record of a vcjob as in a status."""
    histories = [
        {"state": "Pending", "startTimestamp": stamp(created), "endTimestamp": stamp(began)},
        {"state": "Running", "startTimestamp": stamp(began)},
    ]
    return {
        "name": name,
        "state": "Running" if ended is None else "Completed",
        "startTimestamp": stamp(created),
        "runningHistories": histories,
        **({} if ended is None else {"endTimestamp": stamp(ended)}),
    }


def finished_status(name: str = "f") -> dict[str, Any]:
    """The status of a flow of the steps a and b, which depends on a."""
    done = {"phase": "Completed", "attempts": 1}
    return {
        "state": {"phase": "Succeed"},
        "startTime": stamp(0),
        "completionTime": stamp(60),
        "conditions": {
            f"{name}-a": {**done, "job": f"{name}-a"},
            f"{name}-b": {**done, "job": f"{name}-b"},
        },
        "jobStatusList": [
            raw_record(f"{name}-a", 0, 5, 20),
            raw_record(f"{name}-b", 22, 30, 60),
        ],
    }


async def finished_flow(world: Cluster, name: str = "f") -> None:
    await world.apply(flow(name, {"a": "", "b": "a"}))
    await set_status(world, finished_status(name), name)


async def running_flow(world: Cluster, name: str = "g") -> datetime:
    """Apply a flow whose step a began to run a minute ago; return when."""
    began = datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=1)
    offset = int((began - START).total_seconds())
    await world.apply(flow(name, {"a": "", "b": "a"}))
    status = {
        "state": {"phase": "Running"},
        "startTime": stamp(offset),
        "conditions": {f"{name}-a": {"phase": "Running", "attempts": 1, "job": f"{name}-a"}},
        "jobStatusList": [raw_record(f"{name}-a", offset, offset, None)],
    }
    await set_status(world, status, name)
    return began


async def test_a_flow_that_the_sandbox_has_run_has_a_timeline(
    world: Cluster, kubeconfig: Path
) -> None:
    async with world.controller(), world.ends():
        await world.apply(*(template(name) for name in DIAMOND), flow("test", DIAMOND))
        await world.ended("test")
    answer = await run_command(kubeconfig, "timeline", "test")
    assert (answer.code, answer.err) == (0, "")
    steps = [line.split()[1] for line in answer.out.splitlines() if line.startswith("* ")]
    assert steps in (["a", way, "d", "e", "critical"] for way in "bc")
    json = (await run_command(kubeconfig, "timeline", "test", "-o", "json")).json
    assert json["criticalPath"][0] == "a" and json["criticalPath"][-1] == "e"
    assert sum(json["criticalSeconds"].values()) == json["seconds"]


async def test_text_shows_bars_and_where_the_time_went(world: Cluster, kubeconfig: Path) -> None:
    await finished_flow(world)
    answer = await run_command(kubeconfig, "timeline", "f")
    axis, a, b, gap, path, total = answer.out.splitlines()
    assert axis.split() == ["0s", "10s", "20s", "30s", "40s", "50s"]
    assert (a[:4], b[:4], gap) == ("* a ", "* b ", "")
    assert a.split()[-1] == "20s" and b.split()[-1] == "40s"
    assert 3 * a.count("░") == pytest.approx(a.count("█"), abs=2)
    assert "·" in b and "·" not in a
    assert path == "* critical path: a 20s → b 40s"
    assert total == "1m: · waiting 2s (3%), ░ queued 13s (22%), █ running 45s (75%)"


async def test_json_has_all_times(world: Cluster, kubeconfig: Path) -> None:
    await finished_flow(world)
    answer = (await run_command(kubeconfig, "timeline", "f", "-o", "json")).json
    first, second = answer.pop("steps")
    assert answer == {
        "namespace": NAMESPACE,
        "flow": "f",
        "phase": "Succeed",
        "start": stamp(0),
        "end": stamp(60),
        "seconds": 60.0,
        "suspendedSeconds": 0.0,
        "criticalPath": ["a", "b"],
        "criticalSeconds": {"waiting": 2.0, "queued": 13.0, "running": 45.0},
        "timeLeft": None,
        "timeLeftUnknown": None,
    }
    assert second == {
        "step": "b",
        "phase": "Completed",
        "reason": None,
        "critical": True,
        "after": "a",
        "start": stamp(20),
        "end": stamp(60),
        "seconds": {"waiting": 2.0, "queued": 8.0, "running": 30.0},
        "spans": [
            {"state": "waiting", "start": stamp(20), "end": stamp(22), "job": None},
            {"state": "queued", "start": stamp(22), "end": stamp(30), "job": "f-b"},
            {"state": "running", "start": stamp(30), "end": stamp(60), "job": "f-b"},
        ],
    }
    assert first["after"] is None and first.keys() == second.keys()


async def test_after_a_retry_the_time_before_it_does_not_count(
    world: Cluster, kubeconfig: Path
) -> None:
    made = flow("f", {"a": ""})
    made["spec"]["flows"][0]["forEach"] = {"count": 2}
    await world.apply(made)
    runs = [
        {"index": index, "phase": "Completed", "job": f"f-a-{index}", "attempts": 1}
        for index in range(2)
    ]
    status = {
        "state": {"phase": "Succeed"},
        "startTime": stamp(1000),
        "completionTime": stamp(1005),
        "conditions": {"f-a": {"phase": "Completed", "attempts": 2, "runs": runs}},
        "jobStatusList": [raw_record("f-a-0", 0, 0, 5), raw_record("f-a-1", 1001, 1001, 1005)],
    }
    await set_status(world, status)
    answer = (await run_command(kubeconfig, "timeline", "f", "-o", "json")).json
    assert answer["seconds"] == 5
    assert sum(answer["steps"][0]["seconds"].values()) == 5  # it waited for a second
    head, row = (await run_command(kubeconfig, "get", "f")).out.splitlines()
    assert "5s" in head.split() and "4s" in row.split()


async def test_svg_is_a_document(world: Cluster, kubeconfig: Path) -> None:
    await finished_flow(world)
    answer = await run_command(kubeconfig, "timeline", "f", "-o", "svg")
    assert answer.code == 0
    assert ET.fromstring(answer.out).tag == "{http://www.w3.org/2000/svg}svg"


async def test_a_flow_that_runs_has_no_end_but_a_time_left(
    world: Cluster, kubeconfig: Path
) -> None:
    await finished_flow(world, "f1")
    await finished_flow(world, "f2")
    began = await running_flow(world)
    answer = (await run_command(kubeconfig, "timeline", "g", "-o", "json")).json
    first, second = answer["steps"]
    assert (answer["end"], first["end"], first["spans"][-1]["end"]) == (None, None, None)
    assert first["start"] == began.strftime("%Y-%m-%dT%H:%M:%SZ")
    assert (second["start"], second["spans"]) == (None, [])
    assert answer["timeLeft"] == {
        "lowSeconds": 30.0,
        "highSeconds": 30.0,
        "atLeast": True,
        "runs": 2,
        "unknown": [],
    }
    text = (await run_command(kubeconfig, "timeline", "g")).out
    words = "time left: at least 30s, by 2 or more completed jobs of each template"
    assert text.splitlines()[-1] == words
    assert " so far: " in text


async def test_without_earlier_runs_the_time_left_is_unknown(
    world: Cluster, kubeconfig: Path
) -> None:
    await running_flow(world)
    text = (await run_command(kubeconfig, "timeline", "g")).out
    assert "time left: unknown, because no job" in text


@pytest.mark.long
async def test_a_flow_that_waits_for_a_template_has_no_estimate(
    world: Cluster, kubeconfig: Path
) -> None:
    await finished_flow(world)
    await running_flow(world)
    why = "waits for the JobTemplate b"
    waits = {"phase": "Waiting", "reason": "WaitingForTemplate", "message": why}
    await set_status(world, {"conditions": {"g-b": waits}}, "g")
    text = (await run_command(kubeconfig, "timeline", "g")).out
    assert text.splitlines()[-1] == f"time left: unknown, because step b {why}"
    answer = (await run_command(kubeconfig, "timeline", "g", "-o", "json")).json
    assert (answer["timeLeft"], answer["timeLeftUnknown"]) == (None, f"step b {why}")


async def test_without_the_right_to_list_flows_the_timeline_is_shown(
    world: Cluster, kubeconfig: Path
) -> None:
    await running_flow(world)
    forbid(world, "GET", "/jobflows")
    answer = await run_command(kubeconfig, "timeline", "g")
    assert answer.code == 0
    assert answer.err.startswith("jobflow: warning: the time left is unknown: ")
    assert answer.err.endswith("alice must not\n")
    assert "* a " in answer.out
    assert "time left: unknown, because the flows of the namespace cannot be listed" in answer.out


async def test_a_flow_without_times_is_an_error(world: Cluster, kubeconfig: Path) -> None:
    await world.apply(flow("new", {"a": ""}), flow("old", {"a": ""}))
    await set_status(world, {"state": {"phase": "Succeed"}}, "old")
    answer = await run_command(kubeconfig, "timeline", "new")
    sentence = "JobFlow new has not started: it is Pending"
    assert (answer.code, answer.out, answer.err) == (1, "", f"jobflow: error: {sentence}\n")
    answer = await run_command(kubeconfig, "timeline", "old", "-o", "json")
    assert answer.code == 1
    assert "JobFlow old is Succeed, but its status has no times" in answer.err


async def test_a_missing_flow_is_an_error(world: Cluster, kubeconfig: Path) -> None:
    await finished_flow(world, "train")
    answer = await run_command(kubeconfig, "timeline", "trian")
    assert answer.code == 2
    assert answer.err.endswith('did you mean "train"?\n')


def lines_of(
    of: JobFlow, width: int, now: float = 0, left: TimeLeft | None = None, **options: bool
) -> list[str]:
    found = timeline(of, now=at(now))
    assert found is not None
    return [line.plain for line in timeline_lines(found, width, left, **options)]


def record(job: str, start: float, end: float | None, state: str = "Completed") -> JobRecord:
    return JobRecord(
        name=f"f-{job}",
        state=state,
        start_timestamp=at(start),
        end_timestamp=None if end is None else at(end),
        running_histories=[JobRunningHistory(state="Running", start_timestamp=at(start))],
    )


def mixed(phase: str = "Failed") -> JobFlow:
    """A flow with a failed step of three attempts, a daemon, a skipped step and a long name."""
    pairs = [
        (Step(name="serve", daemon=True), StepCondition(phase="Completed", job="f-serve")),
        (Step(name="fetch"), StepCondition(phase="Failed", job="f-fetch-r2", attempts=3)),
        (
            Step(name="a-step-with-a-rather-long-name", depends_on=DependsOn(targets=["fetch"])),
            StepCondition(phase="Skipped", reason="UpstreamFailed", last_transition_time=at(50)),
        ),
    ]
    records = [
        record("serve", 0, 60),
        record("fetch", 0, 10, "Failed"),
        record("fetch-r1", 20, 30, "Failed"),
        record("fetch-r2", 40, 50, "Failed"),
    ]
    ended = at(60) if phase == "Failed" else None
    status = {"job_status_list": records, "completion_time": ended, "suspended_seconds": 5}
    return several(pairs, phase, status=status)


@pytest.mark.parametrize("width", [1, 20, 40, 80, 160])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    assert all(cell_len(line) <= width for line in lines_of(mixed(), width))


@pytest.mark.parametrize("name", ["a", "a-step-with-a-rather-long-name"])
@pytest.mark.parametrize("seconds", [9, 59, 61, 5_401, 35_999, 3_599_999])
def test_all_times_of_the_axis_are_whole(seconds: int, name: str) -> None:
    done = (Step(name=name), StepCondition(phase="Completed", job=f"f-{name}"))
    status = {"job_status_list": [record(name, 0, seconds)], "completion_time": at(seconds)}
    flow = several([done], "Succeed", status=status)
    for width in range(40, 201):
        axis = lines_of(flow, width)[0]
        times = [seconds_of(label) for label in axis.split()]
        step = times[1] if len(times) > 1 else 0
        assert (cell_len(axis) <= width, times) == (True, [step * i for i in range(len(times))])


def seconds_of(label: str) -> int:
    """Return the seconds of `1h30m`."""
    parts = re.findall("([0-9]+)([a-z])", label)
    assert "".join(map("".join, parts)) == label
    sizes = {"s": 1, "m": 60, "h": 3600, "d": 86400}
    return sum(int(number) * sizes[unit] for number, unit in parts)


def test_a_wide_terminal_has_notes() -> None:
    lines = lines_of(mixed(), 80)
    assert lines[1].endswith("1m  daemon")
    assert lines[2].startswith("* fetch ") and lines[2].endswith("50s  Failed, 3 jobs")
    assert lines[3].split() == ["a-step-with-a-rather-long-name", "Skipped"]
    assert lines[-1] == "suspended for 5s of it"


def test_a_narrow_terminal_cuts_names_and_wraps_between_parts() -> None:
    lines = lines_of(mixed(), 40)
    assert "a-step-with-a-rat…" in lines[3]
    assert lines[5:] == [
        "* critical path: fetch 1m",
        "1m: · waiting 30s (50%),",
        "░ queued 0s (0%), █ running 30s (50%)",
        "suspended for 5s of it",
    ]


def test_a_terminal_without_utf_8_gets_ascii() -> None:
    lines = lines_of(mixed(), 40, ascii_only=True)
    assert all(line.isascii() for line in lines)
    assert "##" in lines[2] and ".." in lines[2]


def test_a_long_critical_path_is_shortened() -> None:
    pairs, records = [], []
    for number in range(100):
        depends_on = DependsOn(targets=[f"s{number - 1}"]) if number else None
        step = Step(name=f"s{number}", depends_on=depends_on)
        pairs.append((step, StepCondition(phase="Completed", job=f"f-s{number}")))
        records.append(record(f"s{number}", number, number + 1))
    status = {"job_status_list": records, "completion_time": at(100)}
    lines = lines_of(several(pairs, "Succeed", status=status), 400)
    assert "→ s4 1s → (90 more steps) → s95 1s →" in lines[-2]


def test_a_name_cannot_move_the_cursor() -> None:
    step = Step(name="a\x1b[2J")
    condition = StepCondition(phase="Completed", job="f-a\x1b[2J")
    status = {"job_status_list": [record("a\x1b[2J", 0, 5)], "completion_time": at(5)}
    text = "\n".join(lines_of(several([(step, condition)], "Succeed", status=status), 80))
    assert "\x1b" not in text and "critical path: a\ufffd[2J 5s" in text


@pytest.mark.parametrize(
    ("low", "high", "at_least", "unknown", "words"),
    [
        (60, 600, False, (), "1m to 10m, by 5 or more completed jobs of each template"),
        (60, 60, True, (), "at least 1m, by 5 or more completed jobs of each template"),
        (
            60,
            90,
            True,
            ("a", "b"),
            "at least 1m to 1m30s, by 5 or more completed jobs of each template; without a and b, "
            "whose template has never completed",
        ),
    ],
)
def test_the_time_left_says_what_it_rests_on(
    low: int, high: int, at_least: bool, unknown: tuple[str, ...], words: str
) -> None:
    times = timedelta(seconds=low), timedelta(seconds=high)
    assert describe_time_left(TimeLeft(*times, 5, at_least, unknown)) == words
