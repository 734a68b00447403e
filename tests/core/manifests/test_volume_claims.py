"""Volumes that pods get for the claims that their containers mount."""

from datetime import timedelta
from typing import Any

import pytest

from jobflow.api.flow.jobflow import JobFlow, JobFlowSpec
from jobflow.api.flow.status import JobFlowStatus, ReusedFlow
from jobflow.api.resources import ObjectMeta
from jobflow.core.manifests.volume_claims import (
    holder_of_claims,
    mounted_claims,
    why_spent,
    with_claims,
    with_placeholders,
)
from support.plan.world_state import NOW

CLAIMS = {"data": "f-data", "logs": "f-logs"}
VOLUME = {"name": "data", "persistentVolumeClaim": {"claimName": "f-data"}}


def spec(**pod: Any) -> dict[str, Any]:
    return {"tasks": [{"name": "t", "template": {"spec": pod}}]}


def volumes(made: Any) -> Any:
    return made["tasks"][0]["template"]["spec"].get("volumes")


def mounts(*names: str, field: str = "volumeMounts") -> list[dict[str, Any]]:
    return [{"name": "c", field: [{"name": name} for name in names]}]


@pytest.mark.parametrize(
    "pod",
    [
        {"containers": mounts("data")},
        {"initContainers": mounts("data"), "containers": [{"name": "c"}]},
        {"containers": mounts("data", field="volumeDevices")},
        {"containers": mounts("data", "data")},
        {"containers": mounts("data"), "volumes": None},
    ],
)
def test_a_pod_gets_a_volume_for_a_claim_that_a_container_mounts(pod: dict[str, Any]) -> None:
    assert volumes(with_claims(spec(**pod), CLAIMS)) == [VOLUME]


def test_other_volumes_of_the_pod_stay_first() -> None:
    other = {"name": "tmp", "emptyDir": {}}
    made = with_claims(spec(containers=mounts("tmp", "data"), volumes=[other]), CLAIMS)
    assert volumes(made) == [other, VOLUME]


@pytest.mark.parametrize(
    "pod",
    [
        {"containers": mounts("other")},
        {"containers": mounts("data"), "volumes": [{"name": "data", "emptyDir": {}}]},
        {"containers": mounts("data"), "volumes": "x"},
        {"containers": [{"name": "c", "volumeMounts": "data"}]},
        {"containers": [{"name": "c", "volumeMounts": [{"name": 1}, "data"]}]},
        {"containers": "x"},
        {},
    ],
)
def test_a_pod_that_needs_no_claim_stays_the_same(pod: dict[str, Any]) -> None:
    given = spec(**pod)
    assert with_claims(given, CLAIMS) is given


@pytest.mark.parametrize("given", [{}, {"tasks": None}, {"tasks": [None, "t", {"template": 1}]}])
def test_a_spec_of_another_shape_stays_the_same(given: dict[str, Any]) -> None:
    assert with_claims(given, CLAIMS) is given


def test_every_task_gets_its_own_volumes() -> None:
    given = {"tasks": [*spec(containers=mounts("data"))["tasks"], *spec()["tasks"]]}
    made = with_claims(given, CLAIMS)
    assert [task["template"]["spec"].get("volumes") for task in made["tasks"]] == [[VOLUME], None]


def test_a_job_may_name_claims_of_the_flow_itself() -> None:
    own = {"name": "x", "persistentVolumeClaim": {"claimName": "f-logs"}}
    given = spec(containers=mounts("x"), volumes=[own])
    assert mounted_claims(given, CLAIMS) == ["logs"]
    job_volume = {"mountPath": "/d", "volumeClaimName": "f-data"}
    assert mounted_claims({**given, "volumes": [job_volume]}, CLAIMS) == ["data", "logs"]


def test_the_dry_run_of_a_template_has_a_placeholder_for_each_missing_volume() -> None:
    made = with_placeholders(spec(containers=mounts("data", "x")))
    assert volumes(made) == [{"name": "data", "emptyDir": {}}, {"name": "x", "emptyDir": {}}]


def test_a_child_flow_uses_the_claims_that_are_among_its_params() -> None:
    assert mounted_claims({"params": [{"name": "x", "value": "f-logs"}]}, CLAIMS) == ["logs"]


def owning(
    name: str,
    after: str = "",
    *,
    seconds: int = 0,
    moving: bool = False,
    **claims: str,
) -> JobFlow:
    """A flow with a claim `data`. `after`: the flow that it reuses; `claims`: its reusedClaims."""
    created = NOW + timedelta(seconds=seconds)
    meta = ObjectMeta(
        name=name,
        namespace="ns",
        uid=f"uid-{name}-{seconds}",
        creation_timestamp=created,
    )
    reuse = ReusedFlow(flow=after, uid=f"uid-{after}", moving_claims=moving) if after else None
    status = JobFlowStatus(reuse=reuse, reused_claims=claims or None)
    return JobFlow(metadata=meta, spec=JobFlowSpec(volume_claims={"data": {}}), status=status)


FIRST = owning("first")
SECOND = owning("second", "first-0", seconds=1, data="first-data")
THIRD = owning("third", "second-1", seconds=2, data="first-data")


@pytest.mark.parametrize(
    ("of", "others", "holder"),
    [
        (FIRST, [], None),
        (FIRST, [SECOND], "second"),
        (FIRST, [SECOND, THIRD], "third"),
        (FIRST, [THIRD], "third"),  # the one between them is deleted
        (SECOND, [FIRST, THIRD], "third"),
        (SECOND, [FIRST], None),
        (THIRD, [FIRST, SECOND, THIRD], None),
        (FIRST, [owning("loser", "first-0", seconds=1)], None),  # another flow got them
        (FIRST, [owning("other", seconds=1)], None),
    ],
)
def test_the_last_flow_that_took_the_claims_has_them(
    of: JobFlow, others: list[JobFlow], holder: str | None
) -> None:
    found = holder_of_claims(of, others)
    assert (found and found.metadata.name) == holder


def test_a_later_flow_of_the_first_name_takes_them_back() -> None:
    again = owning("first", "second-1", seconds=2)
    assert why_spent(SECOND, [again]) == "its volume claims belong to the flow first"
    assert why_spent(again, [SECOND]) == ""
    assert why_spent(SECOND, [owning("first", "second-1", seconds=2, moving=True)]) == ""
