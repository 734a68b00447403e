"""A flow in the middle of its run: with retries, items, a child flow, and a failed step."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from support.page.flows import Json
from support.sandbox.running_controller import flow


@dataclass(frozen=True)
class Clock:
    """The times of one flow, all before one moment."""

    now: datetime = field(default_factory=lambda: datetime.now(UTC))

    def ago(self, seconds: float) -> str:
        """Return a time before the moment, as a status has it."""
        return f"{self.now - timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%SZ}"


def record(
    clock: Clock,
    name: str,
    created: float,
    began: float | None,
    ended: float | None = None,
    state: str = "",
) -> Json:
    """Return the record of a vcjob that was created, started and ended so many seconds ago."""
    histories = [{"state": "Pending", "startTimestamp": clock.ago(created)}]
    if began is not None:
        histories.append({"state": "Running", "startTimestamp": clock.ago(began)})
    made: Json = {
        "name": name,
        "state": state
        or ("Completed" if ended is not None else "Running" if began is not None else "Pending"),
        "startTimestamp": clock.ago(created),
        "runningHistories": histories,
    }
    return made if ended is None else made | {"endTimestamp": clock.ago(ended)}


def timed_flow(name: str = "training", clock: Clock | None = None) -> Json:
    """Return a flow that began 600 seconds ago, and runs. `fetch` needed a second attempt, `sweep`
    runs items, `inner` the child flow `<name>-inner`, and `lint` has failed."""
    steps = {
        "fetch": "",
        "lint": "",
        "prepare": "fetch",
        "sweep": "prepare",
        "inner": "prepare",
        "report": "sweep inner",
    }
    made = flow(name, dict.fromkeys(steps, ""))
    for step, targets in zip(made["spec"]["flows"], steps.values(), strict=True):
        if targets:
            step["dependsOn"] = {"targets": targets.split()}
    by_name = {step["name"]: step for step in made["spec"]["flows"]}
    by_name["sweep"]["forEach"] = {"count": 5}
    by_name["inner"]["flow"] = {
        "flows": [{"name": "load"}, {"name": "fit", "dependsOn": {"targets": ["load"]}}]
    }
    by_name["lint"]["continueOnFailure"] = True
    return made | {"status": _status(name, clock or Clock())}


def _status(name: str, clock: Clock) -> Json:
    ends = {
        0: (330.0, 325.0, 200.0),
        1: (330.0, 320.0, 150.0),
        2: (330.0, 318.0, 170.0),
        3: (199.0, 190.0, None),
        4: (169.0, None, None),
    }
    phases = ["Completed", "Completed", "Failed", "Running", "Pending"]
    runs: list[Json] = [
        {
            "index": index,
            "phase": phase,
            **({"reason": "JobFailed", "message": "the job failed"} if phase == "Failed" else {}),
            "job": f"{name}-sweep-{index}",
            "attempts": 1,
            "createTime": clock.ago(ends[index][0]),
            "lastTransitionTime": clock.ago(
                next(each for each in reversed(ends[index]) if each is not None)
            ),
        }
        for index, phase in enumerate(phases)
    ]
    failure = {"pod": f"{name}-lint-main-0", "exitCode": 2, "node": "node-7", "reason": "Error"}
    conditions: dict[str, Json] = {
        "fetch": _done(clock, f"{name}-fetch-r1", 520, 430, attempts=2, failures=1),
        "lint": {
            **_done(clock, f"{name}-lint", 598, 560),
            "phase": "Failed",
            "reason": "JobFailed",
            "message": "the job failed: container main of pod lint-main-0 exited with code 2",
            "failure": failure,
        },
        "prepare": _done(clock, f"{name}-prepare", 429, 331),
        "sweep": {
            "phase": "Running",
            "message": "3 of 5 items have ended, 2 under way",
            "attempts": 5,
            "createTime": clock.ago(330),
            "lastTransitionTime": clock.ago(325),
            "runs": runs,
        },
        "inner": {
            "phase": "Running",
            "flow": f"{name}-inner",
            "attempts": 1,
            "createTime": clock.ago(330),
            "lastTransitionTime": clock.ago(329),
        },
        "report": {"phase": "Waiting", "message": "waits for sweep and inner"},
    }
    records = [
        record(clock, f"{name}-fetch", 600, 590, 540, "Failed"),
        record(clock, f"{name}-fetch-r1", 520, 510, 430),
        record(clock, f"{name}-lint", 598, 590, 560, "Failed"),
        record(clock, f"{name}-prepare", 429, 400, 331),
        *(
            record(clock, f"{name}-sweep-{index}", *times, "Failed" if index == 2 else "")
            for index, times in ends.items()
        ),
    ]
    return {
        "state": {"phase": "Running"},
        "progress": "3/6",
        "startTime": clock.ago(600),
        "conditions": {f"{name}-{step}": each for step, each in conditions.items()},
        "jobStatusList": records,
    }


def child_flow(parent: str = "training", clock: Clock | None = None) -> Json:
    """Return the child flow of the step `inner`."""
    clock = clock or Clock()
    name = f"{parent}-inner"
    made = flow(name, {"load": "", "fit": "load"})
    made["metadata"]["labels"] = {
        "flow.volcano.sh/parent": parent,
        "flow.volcano.sh/root": parent,
    }
    conditions = {
        f"{name}-load": _done(clock, f"{name}-load", 328, 240),
        f"{name}-fit": {
            "phase": "Running",
            "job": f"{name}-fit",
            "attempts": 1,
            "createTime": clock.ago(239),
        },
    }
    records = [record(clock, f"{name}-load", 328, 320, 240), record(clock, f"{name}-fit", 239, 230)]
    return made | {
        "status": {
            "state": {"phase": "Running"},
            "progress": "1/2",
            "startTime": clock.ago(329),
            "conditions": conditions,
            "jobStatusList": records,
        }
    }


def _done(
    clock: Clock, job: str, created: float, ended: float, attempts: int = 1, **fields: Any
) -> Json:
    return {
        "phase": "Completed",
        "job": job,
        "attempts": attempts,
        "createTime": clock.ago(created),
        "lastTransitionTime": clock.ago(ended),
        **fields,
    }
