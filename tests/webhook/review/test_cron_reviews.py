"""Reviews of CronJobFlows: create, change, delete, and the right to create vcjobs."""

from typing import Any

import pytest

from support.admission.admissions import FakeCluster, FakeRights, Response, respond, review, stored
from support.sandbox.running_controller import cron

CRON = stored(cron(schedule="0 2 * * *"))
WRONG = stored(cron(schedule="0 2 * *"))
ACTIVE = stored(cron(), status={"active": [{"name": "c-1"}]})


async def test_a_created_cron_is_judged_with_its_flows() -> None:
    made = cron(schedule="0 2 * *")
    made["spec"]["jobFlowTemplate"]["spec"]["flows"] = [{"name": "a"}, {"name": "a"}]
    assert set((await respond(review("CREATE", made))).faults) == {
        "spec.schedule",
        "spec.jobFlowTemplate.spec.flows[1].name",
    }
    assert (await respond(review("CREATE", CRON))).allowed


async def test_a_fault_of_a_patch_is_at_its_place_in_the_cron() -> None:
    made = cron()
    patch = {"jobSpec": {"tasks": [{"name": "main", "replicas": -1}]}}
    made["spec"]["jobFlowTemplate"]["spec"]["flows"] = [{"name": "a", "patch": patch}]
    (path,) = (await respond(review("CREATE", made))).faults
    assert path.startswith("spec.jobFlowTemplate.spec.flows[0].patch.jobSpec.tasks[0].replicas")


@pytest.mark.parametrize(
    ("operation", "new", "old", "allowed"),
    [
        ("UPDATE", WRONG, CRON, False),
        ("UPDATE", WRONG, WRONG, True),
        ("UPDATE", CRON, WRONG, True),
        ("UPDATE", stored(WRONG, deletionTimestamp="2026-08-01T10:00:00Z"), CRON, True),
        ("DELETE", None, CRON, True),
        ("DELETE", None, ACTIVE, False),
    ],
)
async def test_changes_and_deletions(operation: str, new: Any, old: Any, allowed: bool) -> None:
    assert (await respond(review(operation, new, old))).allowed == allowed


async def test_a_cron_with_active_flows_is_deleted_with_its_namespace() -> None:
    cluster = FakeCluster(terminating=True)
    assert (await respond(review("DELETE", None, ACTIVE), cluster)).allowed


async def test_the_user_needs_the_right_to_create_vcjobs() -> None:
    """The controller creates the flows, and so the vcjobs, with its own account."""
    lacking = FakeRights("may not create vcjobs")
    refused: Response = await respond(review("CREATE", CRON), FakeCluster(), lacking)
    assert (refused.allowed, refused.code) == (False, 403)
