"""Which flows can be reused."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from jobflow.api.flow.jobflow import JobFlow
from jobflow.core.spec.reuse import find_obstacle
from support.admission.reviewed import flow_of

ANOTHER = "name another flow of this namespace that has ended, or leave out reuse"


def first(phase: str, **metadata: Any) -> JobFlow:
    return msgspec.convert(
        {
            "metadata": {"name": "first", "namespace": "team", "uid": "1"} | metadata,
            "status": {"state": {"phase": phase}},
        },
        JobFlow,
    )


def second(**reuse: str) -> JobFlow:
    return flow_of("a", name="second", reuse={"flow": "first"} | reuse)


@pytest.mark.parametrize("phase", ["Succeed", "Failed"])
def test_a_flow_that_has_ended_in_any_way_can_be_reused(phase: str) -> None:
    assert find_obstacle(second(), first(phase)) is None
    assert find_obstacle(second(uid="1"), first(phase)) is None


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (None, f"flow first does not exist; {ANOTHER}"),
        (
            first("Failed", deletionTimestamp=datetime(2026, 1, 1, tzinfo=UTC)),
            f"flow first is being deleted; {ANOTHER}",
        ),
        (
            first("Running"),
            "flow first is Running; wait until it has ended, or cancel it "
            "(`jobflow cancel first -n team`)",
        ),
        (
            first(""),
            "flow first is Pending; wait until it has ended, or cancel it "
            "(`jobflow cancel first -n team`)",
        ),
        (
            first("Succeed", uid="2"),
            "flow first has the UID 2, so it is another flow of this name; leave out uid to reuse "
            "it nevertheless",
        ),
    ],
)
def test_other_flows_cannot_be_reused(source: JobFlow | None, why: str) -> None:
    assert str(find_obstacle(second(uid="1"), source)) == why


def test_a_flow_whose_claims_another_one_has_is_spent() -> None:
    spent = "its volume claims belong to the flow third"
    assert str(find_obstacle(second(), first("Succeed"), spent)) == (
        "flow first is spent, because its volume claims belong to the flow third; name that one "
        "instead"
    )
