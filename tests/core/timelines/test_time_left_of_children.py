"""The time that a flow with child flows has left: by their own status, at all levels."""

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from jobflow.api.flow.jobflow import JobFlow
from jobflow.core.timelines.time_left import History, NoEstimate, TimeLeft, time_left
from support.plan.flow_statuses import START

KNOWN = History({"fetch": [10.0] * 3, "fit": [60.0] * 3})
INNER = [{"name": "fetch"}, {"name": "fit", "dependsOn": {"targets": ["fetch"]}}]
TRAIN: dict[str, Any] = {"name": "train", "flow": {"flows": INNER}}


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def flow(
    name: str,
    steps: list[Any],
    conditions: dict[str, Any] | None = None,
    *,
    began: dict[str, float] | None = None,
    **status: Any,
) -> JobFlow:
    """Return a flow that runs since START. `began`: when its running jobs began."""
    records = [
        {
            "name": job,
            "state": "Running",
            "startTimestamp": START.isoformat(),
            "runningHistories": [
                {"state": "Running", "startTimestamp": at(seconds).isoformat()},
            ],
        }
        for job, seconds in (began or {}).items()
    ]
    own = {"state": {"phase": "Running"}, "startTime": START.isoformat(), **status}
    own |= {"conditions": conditions or {}, "jobStatusList": records}
    raw = {"metadata": {"name": name}, "spec": {"flows": steps}, "status": own}
    return msgspec.convert(raw, JobFlow)


def outer(*children: str, step: dict[str, Any] = TRAIN) -> JobFlow:
    """Return the flow f whose step train runs these child flows, each with the phase Running."""
    runs = [
        {"index": index, "phase": "Running", "flow": name, "createTime": START.isoformat()}
        for index, name in enumerate(children)
    ]
    loop = {"runs": runs} if "forEach" in step else runs[0] if runs else {}
    condition = {"phase": "Running" if runs else "Waiting", **loop}
    return flow("f", [step], {"f-train": condition})


def fitting(name: str, since: float) -> JobFlow:
    """Return a child flow whose last step has run since then."""
    job = f"{name}-fit"
    conditions = {
        f"{name}-fetch": {"phase": "Completed"},
        job: {"phase": "Running", "job": job, "attempts": 1},
    }
    return flow(name, INNER, conditions, began={job: since})


def left(
    of: JobFlow, *children: JobFlow, history: History = KNOWN, now: float = 100
) -> TimeLeft | NoEstimate:
    by_name = {child.metadata.name: child for child in children}
    return time_left(of, history, now=at(now), children=by_name)


def seconds(found: TimeLeft | NoEstimate) -> float:
    assert isinstance(found, TimeLeft)
    return found.high.total_seconds()


def test_a_child_flow_that_has_not_started_takes_what_its_steps_take() -> None:
    assert seconds(left(outer())) == 70


def test_a_child_flow_that_runs_takes_what_its_status_leaves() -> None:
    assert seconds(left(outer("f-train"), fitting("f-train", since=80))) == 40


def test_items_that_run_and_items_that_wait_take_turns() -> None:
    step = TRAIN | {"forEach": {"count": 3, "parallelism": 2}}
    of = outer("f-train-0", "f-train-1", step=step)
    children = fitting("f-train-0", since=90), fitting("f-train-1", since=50)
    assert seconds(left(of, *children)) == 10 + 70


def test_child_flows_of_child_flows_count_too() -> None:
    middle = {"name": "train", "flow": {"flows": [TRAIN]}}
    child = flow(
        "f-train",
        [TRAIN],
        {"f-train-train": {"phase": "Running", "flow": "f-train-train"}},
    )
    inner = fitting("f-train-train", since=80)
    assert seconds(left(outer("f-train", step=middle), child, inner)) == 40
    assert seconds(left(outer(step=middle))) == 70


def test_a_flow_with_unknown_steps_takes_as_long_as_earlier_flows_of_its_step() -> None:
    history = History({"train": [120.0]})
    assert seconds(left(outer(), history=history)) == 120
    running = outer("f-train")
    assert seconds(left(running, fitting("f-train", since=80), history=history, now=50)) == 70


def test_unknown_steps_of_a_child_flow_are_named_with_their_place() -> None:
    history = History({"fit": [60.0]})
    found = left(outer(), history=history)
    assert isinstance(found, TimeLeft)
    assert (found.unknown, found.at_least, seconds(found)) == (("train/fetch",), True, 60)


@pytest.mark.parametrize(
    ("status", "why"),
    [
        ({"suspendedAt": START.isoformat()}, "JobFlow f-train: the flow is suspended"),
        (
            {
                "conditions": {
                    "f-train-fit": {
                        "phase": "Waiting",
                        "reason": "WaitingForApproval",
                        "message": "waits for approval",
                    }
                }
            },
            "JobFlow f-train: step fit waits for approval",
        ),
    ],
)
def test_a_child_flow_that_waits_for_somebody_has_no_estimate(
    status: dict[str, Any], why: str
) -> None:
    conditions = status.pop("conditions", None)
    child = flow("f-train", INNER, conditions, **status)
    assert left(outer("f-train"), child) == NoEstimate(why)
