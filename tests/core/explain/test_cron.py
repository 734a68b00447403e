"""`jobflow why cjf/NAME`: the sentences about a CronJobFlow."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from jobflow.api.flow.cronjobflow import CronJobFlow
from jobflow.api.flow.jobflow import JobFlow
from jobflow.core.cron import build_flow, scheduled_name
from jobflow.core.explain.cron import explain_cron

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def cron(status: Any = None, **spec: Any) -> CronJobFlow:
    """Return a CronJobFlow that is due each hour, in Berlin."""
    meta = {"name": "c", "namespace": "team", "uid": "u", "creationTimestamp": str(NOON)}
    template = {"spec": {"flows": [{"name": "a"}]}}
    fields = {"schedule": "0 * * * *", "timeZone": "Europe/Berlin", "jobFlowTemplate": template}
    manifest = {"metadata": meta, "spec": fields | spec, "status": status or {}}
    return msgspec.convert(manifest, CronJobFlow)


def flow(time: datetime, phase: str) -> JobFlow:
    made = build_flow(cron(), time)
    made["status"] = {"state": {"phase": phase}}
    return msgspec.convert(made, JobFlow)


FLOW = scheduled_name("c", NOON + HOUR)
NEXT = "CronJobFlow c is next due at 2026-06-01T15:00:00+02:00, in 40m."
LAST = {"lastScheduleTime": "2026-06-01T12:00:00Z", "lastSuccessfulTime": "2026-06-01T12:10:00Z"}
RAN = (
    "The last scheduled time with a flow was 2026-06-01T14:00:00+02:00; a flow last succeeded 10m "
    "ago."
)


@pytest.mark.parametrize(
    ("subject", "flows", "sentences"),
    [
        (cron(), [], (NEXT, "No flow has been scheduled yet.")),
        (cron(LAST), [flow(NOON, "Succeed")], (NEXT, RAN)),
        (
            cron(LAST),
            [flow(NOON, "Failed")],
            (
                NEXT,
                RAN,
                "The flow that ended last has failed: "
                f"`jobflow why {scheduled_name('c', NOON)} -n team` explains it.",
            ),
        ),
        (
            cron(LAST, suspend=True),
            [],
            (
                "CronJobFlow c is suspended, so no flow starts: `jobflow resume cjf/c -n team` "
                "resumes it.",
                RAN,
            ),
        ),
    ],
)
def test_the_sentences(
    subject: CronJobFlow, flows: list[JobFlow], sentences: tuple[str, ...]
) -> None:
    assert explain_cron(subject, flows, NOON + HOUR / 3).sentences == sentences


def test_a_flow_that_is_due_is_explained() -> None:
    found = explain_cron(cron(LAST), [], NOON + HOUR)
    assert found.sentences[1].startswith(f"Flow {FLOW} is due and starts now; if it does not, ")


def test_a_flow_that_is_due_in_its_turn_is_explained_before_it_is_announced() -> None:
    found = explain_cron(cron(LAST, concurrencyPolicy="Wait"), [], NOON + HOUR)
    assert found.sentences[1].startswith(f"Flow {FLOW} is due and starts now; if it does not, ")


def test_the_policy_that_keeps_a_flow_from_its_start_is_explained() -> None:
    subject, running = cron(LAST, concurrencyPolicy="Forbid"), flow(NOON, "Running")
    found = explain_cron(subject, [running], NOON + HOUR)
    name = running.metadata.name
    assert found.reasons == ("ConcurrencyForbidden",)
    assert found.sentences[1:3] == (
        f"No flow starts while {name} is active.",
        f"1 flow active: {name}.",
    )


def test_the_flow_that_is_waited_for_is_explained() -> None:
    policy = {"concurrencyPolicy": "Wait", "requirePreviousSuccess": True}
    name = scheduled_name("c", NOON)
    subject = cron({**LAST, "waitsFor": name}, **policy)
    found = explain_cron(subject, [flow(NOON, "Running")], NOON + 2 * HOUR)
    assert found.reasons == ("WaitsForFlow",)
    assert found.sentences[1:3] == (
        f"Flow {FLOW} starts when {name} has succeeded.",
        "2 scheduled times are due, and get their flows one after the other.",
    )
    found = explain_cron(subject, [flow(NOON, "Failed")], NOON + HOUR)
    assert found.reasons == ("WaitsForFlow",)
    assert found.sentences[1].startswith(f"No flow starts until flow {name} has succeeded, ")
    assert found.sentences[1].endswith("or go on without it (`jobflow skip cjf/c -n team`).")
    found = explain_cron(subject, [flow(NOON, "Failed")], NOON + 30 * 24 * HOUR)
    assert sum("scheduled times" in each for each in found.sentences) == 1


def test_an_invalid_schedule_is_explained() -> None:
    found = explain_cron(cron(schedule="x"), [], NOON + HOUR)
    assert (found.next, found.reasons) == (None, ("ScheduleInvalid",))
    assert found.sentences[0].startswith("No flow starts: has 1 field, not five")
