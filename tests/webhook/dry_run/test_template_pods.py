"""Dry runs in reviews of JobTemplates: when they are sent, and faults and warnings from answers."""

import json
from typing import Any

import pytest

from jobflow.api.resources import StatusCause
from jobflow.core.violations import MAX_FINDINGS, Reason, Verdict, Violation
from jobflow.webhook.tried_pods import (
    MOST_TRIED,
    DryRun,
    Tried,
    add_pod_faults,
    pod_templates,
)
from support.admission.admissions import (
    INVALID_PORT,
    FakeCluster,
    Response,
    created,
    respond,
    review,
    stored,
)
from support.sandbox.manifests import DIAMOND, jobflow, template

PORT_OF = "spec.tasks[{}].template.spec.containers[0].ports[0].containerPort"


def pod(image: str = "busybox:1.36", **container: Any) -> dict[str, Any]:
    containers = [{"name": "main", "image": image, **container}]
    return {"spec": {"containers": containers, "restartPolicy": "Never"}}


def with_tasks(*pods: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """Return a JobTemplate with a task for each of these pod templates."""
    tasks = [{"name": f"t{i}", "replicas": 1, "template": each} for i, each in enumerate(pods)]
    manifest = template("a")
    return stored(manifest | {"spec": {"tasks": tasks, "queue": "default"} | spec})


async def update(old: Any, new: Any, cluster: FakeCluster) -> Response:
    return await respond(review("UPDATE", new, old), cluster)


def faults_of(response: Response) -> list[str]:
    return [f"{field}: {message}" for field, message in response.faults.items()]


def refusing_cluster(*faults: StatusCause, image: str = "bad") -> FakeCluster:
    def says(template: Any) -> DryRun:
        return DryRun(faults if template["spec"]["containers"][0].get("image") == image else ())

    return FakeCluster(says=says)


async def test_faults_of_the_api_server_are_added_to_those_of_the_rules_for_every_task() -> None:
    name = StatusCause(reason="FieldValueNotFound", field="template.spec.volumes", message="Not x")
    cluster = refusing_cluster(INVALID_PORT, name)
    answer = await created(with_tasks(pod("bad"), pod(), pod("bad"), minAvailable=7), cluster)
    assert faults_of(answer) == [
        "spec.minAvailable: Invalid value: 7: must not be greater than the replicas of all tasks "
        "together (3)",
        f"{PORT_OF.format(0)}: {INVALID_PORT.message}",
        "spec.tasks[0].template.spec.volumes: Not x",
        f"{PORT_OF.format(2)}: {INVALID_PORT.message}",
        "spec.tasks[2].template.spec.volumes: Not x",
    ]
    reasons = [each["reason"] for each in answer.status["details"]["causes"]]
    assert reasons[1:3] == ["FieldValueInvalid", "FieldValueNotFound"]
    assert answer.message.count("must be between 1 and 65535") == 2


async def test_a_fault_that_a_rule_has_found_is_not_repeated() -> None:
    missing = StatusCause(
        reason="FieldValueRequired",
        field="template.spec.containers[0].image",
        message="Required value",
    )
    answer = await created(with_tasks(pod("")), refusing_cluster(missing, INVALID_PORT, image=""))
    assert faults_of(answer) == [
        "spec.tasks[0].template.spec.containers[0].image: Required value: a container has an image",
        f"{PORT_OF.format(0)}: {INVALID_PORT.message}",
    ]


async def test_equal_pod_templates_are_tried_once() -> None:
    cluster = FakeCluster()
    same = json.loads(json.dumps({"spec": dict(reversed(pod()["spec"].items()))}))
    assert (await created(with_tasks(pod(), pod("other"), same), cluster)).allowed
    assert cluster.tried == [("default", pod()), ("default", pod("other"))]


async def test_a_task_without_a_pod_template_is_tried_with_an_empty_one() -> None:
    cluster = FakeCluster()
    manifest = with_tasks(pod())
    del manifest["spec"]["tasks"][0]["template"]
    assert faults_of(await created(manifest, cluster)) == [
        "spec.tasks[0].template.spec.containers: Required value: a pod has at least one container"
    ]
    assert cluster.tried == [("default", {})]


BAD = with_tasks(pod("bad"))


def update_of_metadata(**metadata: Any) -> bytes:
    return review("UPDATE", BAD | {"metadata": BAD["metadata"] | metadata}, BAD)


@pytest.mark.parametrize(
    ("body", "allowed"),
    [
        (review("CREATE", with_tasks(tasks=None)), False),
        (review("CREATE", with_tasks(tasks=[])), False),
        (review("CREATE", with_tasks(tasks={"name": "x"})), False),
        (update_of_metadata(labels={"a": "b"}), True),
        (update_of_metadata(finalizers=["example.com/x"]), True),
        (update_of_metadata(deletionTimestamp="2026-08-01T11:00:00Z"), True),
        (review("CREATE", stored(jobflow("diamond", DIAMOND))), True),
        (review("DELETE", None, BAD), True),
    ],
    ids="null,no tasks,a wrong type,labels,finalizers,deletion,a plain flow,delete".split(","),
)
async def test_reviews_that_try_no_pod_template(body: bytes, allowed: bool) -> None:
    cluster = refusing_cluster(INVALID_PORT)
    assert (await respond(body, cluster)).allowed is allowed
    assert cluster.tried == []


async def test_an_update_of_the_spec_is_tried_as_a_whole() -> None:
    cluster = refusing_cluster(INVALID_PORT)
    old = with_tasks(pod("bad"))
    new = with_tasks(pod("bad"), priorityClassName="high")
    assert len(faults_of(await update(old, new, cluster))) == 1
    assert len(cluster.tried) == 1


async def test_the_update_of_an_object_of_another_schema_is_tried() -> None:
    cluster = refusing_cluster(INVALID_PORT)
    old = with_tasks(pod())
    old["metadata"]["labels"] = ["no", "map"]
    assert len(faults_of(await update(old, with_tasks(pod("bad")), cluster))) == 1


async def test_nothing_is_tried_in_a_namespace_that_is_not_followed() -> None:
    cluster = refusing_cluster(INVALID_PORT)
    cluster.followed = False
    assert (await created(with_tasks(pod("bad")), cluster)).allowed
    assert cluster.tried == []


async def test_faults_of_labels_are_located_in_metadata() -> None:
    labels = StatusCause(reason="FieldValueInvalid", field="template.labels", message="no")
    mine = StatusCause(reason="Unheard", field="template.labelsOfMine", message="no")
    assert faults_of(await created(with_tasks(pod("bad")), refusing_cluster(labels, mine))) == [
        "spec.tasks[0].template.metadata.labels: no",
        "spec.tasks[0].template.labelsOfMine: no",
    ]


async def test_unknown_fields_are_one_warning_before_those_of_the_server() -> None:
    reported = (
        *(f'unknown field "template.spec.x{i}"' for i in range(5)),
        "template.spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14",
        'would violate PodSecurity "restricted:latest": runAsNonRoot != true',
    )
    cluster = FakeCluster(says=lambda _: DryRun(warnings=reported))
    answer = await created(with_tasks(pod()), cluster)
    assert answer.allowed
    assert answer.warnings == [
        "unknown fields spec.tasks[0].template.spec.x0, spec.tasks[0].template.spec.x1, "
        "spec.tasks[0].template.spec.x2 and 2 more: they are dropped when the pods are made",
        "spec.tasks[0].template.spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14",
        'spec.tasks[0].template: would violate PodSecurity "restricted:latest": runAsNonRoot != '
        "true",
    ]


async def test_a_refusal_also_warns_about_unknown_fields() -> None:
    answer = DryRun((INVALID_PORT,), ('unknown field "template.spec.containers[0].comand"',))
    found = await created(with_tasks(pod()), FakeCluster(says=lambda _: answer))
    assert len(faults_of(found)) == 1
    assert found.warnings == [
        "unknown field spec.tasks[0].template.spec.containers[0].comand: it is dropped when the "
        "pods are made"
    ]


def test_three_of_many_warnings_are_returned() -> None:
    tried = [Tried(b"{}", [i]) for i in range(9)]
    verdict = add_pod_faults(Verdict(), tried, [DryRun(warnings=(f"w{i}",)) for i in range(9)])
    assert verdict.warnings == (
        "spec.tasks[0].template: w0",
        "spec.tasks[1].template: w1",
        "spec.tasks[2].template: w2",
        "and 6 more warnings of the API server about pod templates",
    )


def test_the_verdict_is_unchanged_without_findings() -> None:
    before = Verdict((Violation("spec.tasks", Reason.REQUIRED, None, "x"),), ("y",))
    assert add_pod_faults(before, [Tried(b"{}", [0])], [DryRun()]) is before


def test_numbers_that_are_equal_in_python_are_not_equal_templates() -> None:
    tasks = [{"template": {"spec": {"hostNetwork": value}}} for value in (True, 1, 1.0, True)]
    assert [each.tasks for each in pod_templates({"tasks": tasks})] == [[0, 3], [1], [2]]


async def test_pod_templates_beyond_sixty_four_get_a_warning() -> None:
    cluster = FakeCluster()
    answer = await created(with_tasks(*(pod(f"image-{i}") for i in range(100))), cluster)
    assert len(cluster.tried) == MOST_TRIED == 64
    assert answer.warnings == [
        "36 of 100 different pod templates were not checked by the API server, because a "
        "review checks at most 64 and waits 3 s; a fault in one of them shows only when its pods "
        "are created"
    ]


async def test_pod_templates_without_an_answer_in_time_get_a_warning() -> None:
    def says(template: Any) -> DryRun | None:
        image = template["spec"]["containers"][0]["image"]
        return None if image == "slow" else DryRun((INVALID_PORT,) if image == "bad" else ())

    cluster = FakeCluster(says=says)
    answer = await created(with_tasks(pod("slow"), pod()), cluster)
    assert answer.allowed
    (warning,) = answer.warnings
    assert warning.startswith("1 of 2 different pod templates were not checked by the API server")
    refused = await created(with_tasks(pod("slow"), pod("bad")), cluster)
    assert list(refused.faults) == [PORT_OF.format(1)]
    assert len(refused.warnings) == 1


def test_a_fault_that_all_tasks_share_is_reported_a_thousand_times_at_most() -> None:
    tried = [Tried(b"{}", list(range(start, 100_000, 2))) for start in (1, 0)]
    verdict = add_pod_faults(Verdict(), tried, [DryRun((INVALID_PORT,)), DryRun((INVALID_PORT,))])
    assert len(verdict.violations) == MAX_FINDINGS
    assert [v.path.partition(".template")[0] for v in verdict.violations[:3]] == [
        f"spec.tasks[{i}]" for i in range(3)
    ]
