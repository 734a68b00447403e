"""Manifests of vcjobs from templates."""

import copy
from typing import Any

import pytest

from jobflow.api.flow.control import Patch
from jobflow.api.flow.jobflow import JobFlow, JobTemplate
from jobflow.api.flow.step import Step
from jobflow.api.resources import ObjectMeta, OwnerReference
from jobflow.core.cel.expression import EvaluationFailure
from jobflow.core.manifests.job import Attempt, build_job
from jobflow.core.manifests.layers import own_layers

SPEC: dict[str, Any] = {
    "minAvailable": 1,
    "tasks": [
        {
            "name": "main",
            "replicas": 1,
            "template": {"spec": {"containers": [{"name": "c", "image": "busybox"}]}},
        }
    ],
}

OUR_LABELS = {
    "volcano.sh/createdByJobFlow": "default.test",
    "flow.volcano.sh/step": "a",
    "flow.volcano.sh/attempt": "1",
}
TEMPLATE = SPEC["tasks"][0]["template"] | {"metadata": {"labels": OUR_LABELS}}
"""The pod template of the vcjob."""


def flow(name: str = "test", namespace: str = "default") -> JobFlow:
    return JobFlow(metadata=ObjectMeta(name=name, namespace=namespace, uid="f-uid"))


def template(name: str = "a", spec: dict[str, Any] | None = None, **meta: Any) -> JobTemplate:
    metadata = ObjectMeta(name=name, namespace="default", generation=3, **meta)
    return JobTemplate(metadata=metadata, spec=SPEC if spec is None else spec)


def build(step: Step, template: JobTemplate, attempt: Attempt, of: JobFlow | None = None) -> Any:
    job = build_job(of or flow(), step, template, attempt)
    assert not isinstance(job, EvaluationFailure), job.message
    return job


def built(
    spec: dict[str, Any] | None = None, patch: dict[str, Any] | None = None, **meta: Any
) -> dict[str, Any]:
    step = Step(name="a", patch=Patch(job_spec=patch) if patch is not None else None)
    return build(step, template("a", spec, **meta), Attempt("test-a"))


def test_the_manifest_is_complete():
    assert built() == {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {
            "name": "test-a",
            "namespace": "default",
            "labels": {
                "volcano.sh/createdByJobFlow": "default.test",
                "volcano.sh/createdByJobTemplate": "default.a",
                "flow.volcano.sh/step": "a",
                "flow.volcano.sh/attempt": "1",
            },
            "annotations": {
                "volcano.sh/createdByJobFlow": "default.test",
                "volcano.sh/createdByJobTemplate": "default.a",
                "flow.volcano.sh/step": "a",
                "flow.volcano.sh/flow-uid": "f-uid",
                "flow.volcano.sh/target-ends": "{}",
                "flow.volcano.sh/template-generation": "3",
            },
            "ownerReferences": [
                {
                    "apiVersion": "flow.volcano.sh/v1alpha1",
                    "kind": "JobFlow",
                    "name": "test",
                    "uid": "f-uid",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {"minAvailable": 1, "tasks": [SPEC["tasks"][0] | {"template": TEMPLATE}]},
    }


def test_a_later_attempt_has_its_number_and_its_template():
    step = Step(name="train", template="a")
    job = build(step, template("a"), Attempt("test-train-r2", 3))
    assert job["metadata"]["name"] == "test-train-r2"
    assert job["metadata"]["labels"]["flow.volcano.sh/attempt"] == "3"
    assert job["metadata"]["labels"]["flow.volcano.sh/step"] == "train"
    assert job["metadata"]["labels"]["volcano.sh/createdByJobTemplate"] == "default.a"


def test_long_names_are_shortened_in_labels_only():
    long_flow, step = flow("f" * 60, "n" * 20), Step(name="s" * 70, template="t" * 60)
    metadata = build(step, template("t" * 60), Attempt("x"), long_flow)["metadata"]
    assert all(len(value) <= 63 for value in metadata["labels"].values())
    assert metadata["annotations"]["volcano.sh/createdByJobFlow"] == "n" * 20 + "." + "f" * 60
    assert metadata["annotations"]["volcano.sh/createdByJobTemplate"] == "n" * 20 + "." + "t" * 60
    assert metadata["annotations"]["flow.volcano.sh/step"] == "s" * 70


def test_a_template_without_a_generation_sets_no_annotation():
    job = build(Step(name="a"), JobTemplate(spec={}), Attempt("test-a"))
    assert "flow.volcano.sh/template-generation" not in job["metadata"]["annotations"]


def test_the_patch_is_merged():
    job = built(patch={"tasks": [{"name": "main", "replicas": 2}], "minAvailable": None})
    task = SPEC["tasks"][0] | {"replicas": 2, "template": TEMPLATE}
    assert job["spec"] == {"tasks": [task]}


@pytest.mark.parametrize(
    ("patch", "found"),
    [
        (None, None),
        (Patch(), None),
        (Patch(job_spec={}), None),
        (Patch(job_spec={"queue": "q"}), {"queue": "q"}),
        (Patch(spec={"queue": "q"}), {"queue": "q"}),
        (Patch(job_spec={}, spec={"queue": "q"}), {"queue": "q"}),
    ],
)
def test_a_patch_has_two_field_names(patch: Patch | None, found: dict[str, Any] | None):
    contents = [layer.content for layer in own_layers(Step(patch=patch))]
    assert contents == ([] if found is None else [found])


TTL = "flow.volcano.sh/ttl-seconds-after-finished"


@pytest.mark.parametrize(
    ("spec", "patch", "ttl"),
    [
        ({"ttlSecondsAfterFinished": 60}, None, "60"),
        ({"ttlSecondsAfterFinished": 0}, None, "0"),
        ({"ttlSecondsAfterFinished": None}, None, None),
        ({}, {"ttlSecondsAfterFinished": 5}, "5"),
        ({"ttlSecondsAfterFinished": 60}, {"ttlSecondsAfterFinished": 5}, "5"),
        ({"ttlSecondsAfterFinished": 60}, {"ttlSecondsAfterFinished": None}, None),
    ],
)
def test_the_ttl_becomes_an_annotation(
    spec: dict[str, Any], patch: dict[str, Any] | None, ttl: str | None
):
    job = built(spec, patch)
    assert "ttlSecondsAfterFinished" not in job["spec"]
    assert job["metadata"]["annotations"].get(TTL) == ttl


@pytest.mark.parametrize("ttl", ["60", True, [1]])
def test_a_malformed_ttl_is_kept(ttl: Any):
    job = built({"ttlSecondsAfterFinished": ttl})
    assert job["spec"] == {"ttlSecondsAfterFinished": ttl}
    assert TTL not in job["metadata"]["annotations"]


def test_labels_and_annotations_are_inherited():
    labels = {"team": "ml", "app.kubernetes.io/instance": "x", "app.kubernetes.io/managed-by": "me"}
    metadata = built(
        labels=labels,
        annotations={"sandbox.jobflow.volcano.sh/duration": "2s", "volcano.sh/x": "y"},
    )["metadata"]
    assert labels.items() <= metadata["labels"].items()
    assert metadata["annotations"]["sandbox.jobflow.volcano.sh/duration"] == "2s"
    assert metadata["annotations"]["volcano.sh/x"] == "y"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("kubectl.kubernetes.io/last-applied-configuration", "{}"),
        ("kubernetes.io/change-cause", "kubectl apply"),
        ("applyset.kubernetes.io/part-of", "applyset-x-v1"),
        ("meta.helm.sh/release-name", "r"),
        ("helm.sh/chart", "c-1.0.0"),
        ("app.kubernetes.io/managed-by", "Helm"),
        ("argocd.argoproj.io/tracking-id", "a:b"),
        ("flow.volcano.sh/force-delete", "true"),
        (TTL, "1"),
    ],
)
def test_metadata_of_other_tools_is_not_inherited(key: str, value: str):
    metadata = built(labels={key: value}, annotations={key: value})["metadata"]
    assert key not in metadata["labels"]
    assert key not in metadata["annotations"]


def test_templates_cannot_set_our_labels():
    forged = {
        "volcano.sh/createdByJobFlow": "x.y",
        "volcano.sh/createdByJobTemplate": "x.y",
        "flow.volcano.sh/step": "z",
        "flow.volcano.sh/attempt": "9",
        "flow.volcano.sh/template-generation": "9",
    }
    assert built(labels=forged, annotations=forged) == built()


@pytest.mark.parametrize("patch", [None, {"queue": "q"}])
def test_changing_a_manifest_does_not_change_the_template(patch: dict[str, Any] | None):
    spec = copy.deepcopy(SPEC)
    job = built(spec, patch)
    job["spec"]["tasks"][0]["template"]["spec"]["containers"].clear()
    job["spec"]["tasks"][0]["name"] = "other"
    assert spec == SPEC


def pod_labels(job: dict[str, Any]) -> list[Any]:
    return [task["template"].get("metadata", {}).get("labels") for task in job["spec"]["tasks"]]


def labelled(*labels: Any) -> dict[str, Any]:
    tasks = [{"name": f"t{i}", "template": {"metadata": {"labels": each}}} for i, each in
             enumerate(labels)]  # fmt: skip
    return {"tasks": tasks}


def test_pods_have_the_labels_of_their_attempt():
    assert pod_labels(built()) == [OUR_LABELS]
    job = build(Step(name="a"), template(), Attempt("test-a-7-r1", 2, index=7))
    assert pod_labels(job) == [
        OUR_LABELS | {"flow.volcano.sh/attempt": "2", "flow.volcano.sh/index": "7"}
    ]
    assert pod_labels(job)[0].items() <= job["metadata"]["labels"].items()


def test_pods_of_a_child_flow_name_the_outermost_flow():
    owner = OwnerReference(kind="JobFlow", name="outer", uid="o", controller=True)
    labels = {"flow.volcano.sh/parent": "mid", "flow.volcano.sh/root": "outer"}
    meta = ObjectMeta(name="test", namespace="default", labels=labels, owner_references=[owner])
    job = build(Step(name="a"), template(), Attempt("test-a"), JobFlow(metadata=meta))
    assert pod_labels(job) == [OUR_LABELS | {"flow.volcano.sh/root": "outer"}]


def test_our_labels_override_those_of_pods():
    job = built(labelled({"app": "x", "flow.volcano.sh/step": "mine"}, None, {}))
    assert pod_labels(job) == [{"app": "x"} | OUR_LABELS, OUR_LABELS, OUR_LABELS]


def test_a_pod_of_a_plain_step_has_no_index():
    assert pod_labels(built(labelled({"flow.volcano.sh/index": "3"}))) == [OUR_LABELS]


def test_patches_may_set_labels_of_pods():
    patch = {"tasks": [{"name": "t0", "template": {"metadata": {"labels": {"app": "y"}}}}]}
    spec = labelled({"app": "x", "team": "z"})
    assert pod_labels(built(spec, patch)) == [{"app": "y", "team": "z"} | OUR_LABELS]
    assert spec == labelled({"app": "x", "team": "z"})


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"tasks": None},
        {"tasks": 5},
        {"tasks": [5]},
        {"tasks": [{"name": "a"}]},
        {"tasks": [{"name": "a", "template": None}]},
        {"tasks": [{"name": "a", "template": []}]},
        {"tasks": [{"name": "a", "template": {"metadata": []}}]},
        {"tasks": [{"name": "a", "template": {"metadata": {"labels": "x"}}}]},
    ],
)
def test_malformed_pod_templates_are_kept(spec: dict[str, Any]):
    assert built(spec)["spec"] == spec
