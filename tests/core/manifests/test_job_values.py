"""Parts of a vcjob besides its template: jobDefaults, patches, cases, and their values."""

from typing import Any

import msgspec
import pytest

from jobflow.api.flow.control import Case, Patch
from jobflow.api.flow.jobflow import JobFlow
from jobflow.core.cel.expression import EvaluationFailure
from jobflow.core.cel.scope import EvaluationScope
from jobflow.core.manifests.job import Attempt, build_job
from jobflow.core.manifests.layers import with_defaults
from support.admission.reviewed import flow_of, template_of

DEFAULTS: dict[str, Any] = {
    "queue": "research",
    "priorityClassName": "high",
    "schedulerName": "volcano",
    "plugins": {"ssh": [], "env": ["--default"]},
    "labels": {"team": "a", "cost": "1"},
    "annotations": {"owner": "a"},
}


def job_of(flow: JobFlow, template: Any, case: Case | None = None, **seen: Any) -> dict[str, Any]:
    attempt = Attempt("f-a", case=case, seen=EvaluationScope(flow, lambda name: None, **seen))
    job = build_job(flow, flow.steps[0], template, attempt)
    assert not isinstance(job, EvaluationFailure), job.message
    return job


def spec_of(flow: JobFlow, template: Any, case: Case | None = None, **seen: Any) -> dict[str, Any]:
    spec: dict[str, Any] = job_of(flow, template, case, **seen)["spec"]
    return {key: value for key, value in spec.items() if key != "tasks"}


def test_defaults_apply_to_unset_fields() -> None:
    flow = flow_of("a", jobDefaults=DEFAULTS)
    fields = ("queue", "priorityClassName", "schedulerName", "plugins")
    assert spec_of(flow, template_of("a")) == {field: DEFAULTS[field] for field in fields}


def test_templates_override_defaults_and_patches_override_both() -> None:
    patch = {"jobSpec": {"queue": "patched", "plugins": {"env": ["--patch"], "ssh": None}}}
    flow = flow_of({"name": "a", "patch": patch}, jobDefaults=DEFAULTS)
    own = template_of("a", queue="own", priorityClassName="low", plugins={"svc": [], "env": []})
    assert spec_of(flow_of("a", jobDefaults=DEFAULTS), own) == {
        "queue": "own",
        "priorityClassName": "low",
        "schedulerName": "volcano",
        "plugins": {"ssh": [], "env": [], "svc": []},
    }
    assert spec_of(flow, own) == {
        "queue": "patched",
        "priorityClassName": "low",
        "schedulerName": "volcano",
        "plugins": {"env": ["--patch"], "svc": []},
    }
    case = Case(patch=Patch(spec={"queue": "case", "priorityClassName": None}))
    assert spec_of(flow, own, case) == {
        "queue": "case",
        "schedulerName": "volcano",
        "plugins": {"env": ["--patch"], "svc": []},
    }


@pytest.mark.parametrize("empty", [None, ""])
def test_empty_values_of_a_template_count_as_unset(empty: str | None) -> None:
    flow = flow_of("a", jobDefaults={"queue": "research"})
    assert spec_of(flow, template_of("a", queue=empty)) == {"queue": "research"}


def test_malformed_plugins_are_kept() -> None:
    flow = flow_of("a", jobDefaults=DEFAULTS)
    assert spec_of(flow, template_of("a", plugins=["ssh"]))["plugins"] == ["ssh"]


def test_labels_of_templates_override_defaults() -> None:
    template = template_of("a")
    labelled = msgspec.structs.replace(
        template, metadata=msgspec.structs.replace(template.metadata, labels={"cost": "2"})
    )
    metadata = job_of(flow_of("a", jobDefaults=DEFAULTS), labelled)["metadata"]
    assert metadata["labels"].items() >= {"team": "a", "cost": "2"}.items()
    assert metadata["annotations"]["owner"] == "a"


def test_defaults_cannot_set_our_labels() -> None:
    forged = {"volcano.sh/createdByJobFlow": "x", "flow.volcano.sh/step": "x"}
    flow = flow_of("a", jobDefaults={"labels": forged, "annotations": forged})
    metadata = job_of(flow, template_of("a"))["metadata"]
    assert metadata["labels"]["flow.volcano.sh/step"] == "a"
    assert metadata["annotations"]["volcano.sh/createdByJobFlow"] == "team.f"


def test_defaults_share_nothing_with_the_job() -> None:
    flow = flow_of("a", jobDefaults=DEFAULTS)
    job_of(flow, template_of("a"))["spec"]["plugins"]["env"].append("changed")
    assert flow.spec.job_defaults is not None
    assert flow.spec.job_defaults.plugins == DEFAULTS["plugins"]
    assert with_defaults({"queue": "own"}, None) == {"queue": "own"}


def test_references_in_patches_are_replaced() -> None:
    patch = {"spec": {"minAvailable": "$(params.n)", "plugins": {"env": ["$(item.x)-$(index)"]}}}
    flow = flow_of({"name": "a", "patch": patch}, params=[{"name": "n", "value": 2}])
    assert spec_of(flow, template_of("a"), index=3, item={"x": "y"}) == {
        "minAvailable": 2,
        "plugins": {"env": ["y-3"]},
    }


def test_references_in_values_are_not_replaced() -> None:
    patch = {"spec": {"queue": "$(item)"}}
    flow = flow_of({"name": "a", "patch": patch})
    assert spec_of(flow, template_of("a"), item="$(index)", index=1) == {"queue": "$(index)"}


def test_references_in_templates_and_defaults_are_not_replaced() -> None:
    flow = flow_of("a", jobDefaults={"queue": "$(index)"})
    spec = spec_of(flow, template_of("a", priorityClassName="$(index)"), index=1)
    assert spec == {"queue": "$(index)", "priorityClassName": "$(index)"}


def test_a_reference_without_a_value_makes_no_job() -> None:
    flow = flow_of({"name": "a", "patch": {"spec": {"queue": "$(steps.b.outputs.q)"}}})
    attempt = Attempt("f-a", seen=EvaluationScope(flow, lambda name: None))
    job = build_job(flow, flow.steps[0], template_of("a"), attempt)
    assert job == EvaluationFailure(
        "$(steps.b.outputs.q) has no value: there is no 'b' in steps", missing=True
    )


@pytest.mark.parametrize(
    ("patch", "item", "reported"),
    [
        ({"tasks": [{"name": "main", "replicas": "$(item)"}]}, [1],
         'spec.tasks[0].replicas must be of type integer: "array"'),
        ({"minAvailable": "0$(item)"}, 1, 'spec.minAvailable must be of type integer: "string"'),
        ({"tasks": "$(item)"}, [1], 'spec.tasks[1] must be of type object: "integer"'),
        ({"plugins": "$(item)"}, [1], 'spec.plugins must be of type object: "array"'),
    ],
)  # fmt: skip
def test_values_of_the_wrong_type_make_no_job(patch: Any, item: Any, reported: str) -> None:
    """The vcjob is not sent, because an API server would always refuse it."""
    flow = flow_of({"name": "a", "patch": {"spec": patch}})
    attempt = Attempt("f-a", seen=EvaluationScope(flow, lambda name: None, index=0, item=item))
    job = build_job(flow, flow.steps[0], template_of("a"), attempt)
    assert isinstance(job, EvaluationFailure)
    assert job.message.startswith(f"the values of its references make no valid job: {reported}")


def test_each_reference_gets_a_copy_of_its_value() -> None:
    patch = {"spec": {"plugins": {"env": "$(item)", "svc": "$(item)"}}}
    flow = flow_of({"name": "a", "patch": patch})
    item = ["x"]
    plugins = spec_of(flow, template_of("a"), item=item)["plugins"]
    plugins["env"].append("changed")
    assert (plugins["svc"], item) == (["x"], ["x"])


def pod_of(flow: JobFlow, template: Any = None) -> Any:
    """Return the spec of the pods of a job whose item has dollars."""
    [task] = job_of(flow, template, item=DATA)["spec"]["tasks"]
    return task["template"]["spec"]


DATA: dict[str, Any] = {
    "text": "$x",
    "list": ["$x", 1],
    "env": [{"name": "A", "value": "$x"}],
    "pod": {"containers": [{"name": "m", "args": ["$x"], "workingDir": "$x"}]},
}


def test_pod_of_values_are_doubled_where_the_kubelet_expands() -> None:
    run = {"exec": {"command": ["$(item.text)"]}}
    container = {
        "name": "m",
        "command": "$(item.list)",
        "args": ["a $(item.text)", "$PLAIN"],
        "env": [{"name": "A", "value": "$(item.text)"}],
        "workingDir": "$(item.text)",
        "volumeMounts": [{"name": "v", "mountPath": "$(item.text)", "subPathExpr": "$(item.text)"}],
        "livenessProbe": run,
        "readinessProbe": run,
        "startupProbe": run,
        "lifecycle": {"preStop": run},
    }
    pod = {"initContainers": [container], "containers": [container | {"env": "$(item.env)"}]}
    found = pod_of(flow_of({"name": "a", "jobSpec": {"tasks": [{"template": {"spec": pod}}]}}))
    doubled = {"exec": {"command": ["$$x"]}}
    assert found["initContainers"] == [
        {
            "name": "m",
            "command": ["$$x", "1"],
            "args": ["a $$x", "$PLAIN"],
            "env": [{"name": "A", "value": "$$x"}],
            "workingDir": "$x",
            "volumeMounts": [{"name": "v", "mountPath": "$x", "subPathExpr": "$$x"}],
            "livenessProbe": doubled,
            "readinessProbe": doubled,
            "startupProbe": doubled,
            "lifecycle": {"preStop": {"exec": {"command": ["$x"]}}},
        }
    ]
    assert found["containers"] == found["initContainers"]


@pytest.mark.parametrize(
    ("step", "container"),
    [
        ({"env": {"A": "$(item.text)"}}, {"env": [{"name": "A", "value": "$$x"}]}),
        ({"command": ["$(item.text)"], "image": "$(item.text)"}, {"command": ["$$x"]}),
        ({"args": "$(item.list)"}, {"args": ["$$x", "1"]}),
        (
            {"patch": {"spec": {"tasks": [{"template": {"spec": "$(item.pod)"}}]}}},
            {"args": ["$$x"]},
        ),
    ],
)
def test_all_changes_of_a_step_double_dollars(step: Any, container: Any) -> None:
    template = template_of("a", tasks=[{"template": {"spec": {"containers": [{"name": "m"}]}}}])
    [found] = pod_of(flow_of({"name": "a", **step}), template)["containers"]
    assert found.items() >= container.items()
    assert "$$" not in found.get("image", "") + found.get("workingDir", "")
