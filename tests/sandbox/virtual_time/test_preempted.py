"""Jobs that other jobs preempt go back to the queue, and keep their retries for their own failures
(volcano-sh/volcano#2560)."""

from typing import Any

import pytest

from jobflow.api.flow.jobflow import JobFlow
from support.sandbox.running_controller import flow, template
from support.sandbox.simulated_flows import planned

EVICTED = {"event": "PodEvicted", "action": "TerminateJob"}
FAILED = {"event": "PodFailed", "action": "AbortJob"}


def gang(disruptions: int, failures: int) -> dict[str, Any]:
    """Return a JobTemplate of two pods that run together. They are evicted in the first jobs of a
    step, and fail in the next ones."""
    made = template("train", minAvailable=2, policies=[EVICTED, FAILED])
    made["spec"]["tasks"][0]["replicas"] = 2
    made["metadata"]["annotations"] = {
        "sandbox.jobflow.volcano.sh/disrupt-attempts": str(disruptions),
        "sandbox.jobflow.volcano.sh/fail-attempts": str(disruptions + failures),
    }
    return made


def ended(disruptions: int, failures: int) -> JobFlow:
    """Return a flow with one retry whose job was disrupted, and then failed."""
    made = flow("f", {"train": ""})
    [step] = made["spec"]["flows"]
    step["retry"] = {"limit": 1, "disruptions": 20}
    [found] = planned([gang(disruptions, failures), made]).flows
    return found


@pytest.mark.parametrize(
    ("disruptions", "failures", "phase"), [(3, 1, "Succeed"), (20, 1, "Succeed"), (3, 2, "Failed")]
)
def test_preemptions_use_up_no_retry(disruptions: int, failures: int, phase: str) -> None:
    found = ended(disruptions, failures)
    [condition] = (found.status.conditions or {}).values()
    assert found.status.state.phase == phase
    assert (condition.disruptions, condition.failures) == (disruptions, failures)
    assert condition.attempts == disruptions + failures + (phase == "Succeed")
