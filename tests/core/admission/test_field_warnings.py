"""Field warnings: admission accepts the object, lint refuses it or warns too."""

from typing import Any

import pytest

from jobflow.core.admission.analysis.flow_facts import Known
from jobflow.core.admission.validate import validate_flow, validate_template
from jobflow.core.violations import FieldWarning, Reason
from support.admission.reviewed import faults, flow_of, knowing, template_of

TRAIN = template_of("train", "ps", "worker")
PLAIN = template_of("plain")
AT = "spec.flows[0].patch.jobSpec"


def pod(*containers: dict[str, Any], task: str | None = "main", **spec: Any) -> dict[str, Any]:
    named = {} if task is None else {"name": task}
    return {"tasks": [named | {"template": {"spec": {"containers": [*containers], **spec}}}]}


def patched(template: str, job_spec: Any, *known: Any, **step: Any) -> tuple[FieldWarning, ...]:
    flow = flow_of({"name": "a", "template": template, "patch": {"jobSpec": job_spec}, **step})
    verdict = validate_flow(flow, knowing(*known) if known else Known())
    assert verdict.violations == ()
    return verdict.field_warnings


TRIM = {"name": "a", "when": "params.x"}
SWITCH = {"name": "a", "switch": [{"when": "params.x", "template": "t"}]}
DEFAULT = {"name": "a", "switch": [*SWITCH["switch"], {"template": "u"}]}  # type: ignore[misc]


@pytest.mark.parametrize(
    ("steps", "depends_on", "skipped"),
    [
        ([TRIM], {}, "a is"),
        ([SWITCH], {}, "a is"),
        ([DEFAULT], {}, ""),
        ([TRIM], {"condition": "Finished"}, "a is"),
        ([TRIM], {"condition": "NotFailed"}, ""),
        ([TRIM], {"conditions": {"a": "Always"}}, ""),
        ([TRIM], {"condition": "Completed"}, ""),
        ([TRIM], {"probe": {"tcpSocketList": [{"taskName": "t", "port": 80}]}}, ""),
        ([TRIM, {"name": "b"}], {}, ""),
        ([TRIM, {"name": "b", "when": "params.y"}], {"strategy": "any"}, "a and b are"),
        ([TRIM, {"name": "b", "when": "params.x"}], {}, "a and b are"),
        ([TRIM, {"name": "b", "when": "!params.x"}], {}, ""),
    ],
)
def test_a_step_behind_steps_that_may_all_be_skipped_has_a_warning(
    steps: list[dict[str, Any]], depends_on: dict[str, Any], skipped: str
) -> None:
    last = {"name": "z", "dependsOn": {"targets": [each["name"] for each in steps], **depends_on}}
    params = [{"name": "x", "value": True}, {"name": "y", "value": True}]
    found = validate_flow(flow_of(*steps, last, params=params), Known()).field_warnings
    detail = (
        f"the step is skipped if {skipped}; set condition to NotFailed to run it then too, to "
        "Always to run it also after a failure, or to Completed if that is meant"
    )
    path = f"spec.flows[{len(steps)}].dependsOn.targets"
    assert list(map(str, found)) == ([f"{path}: {detail}"] if skipped else [])


def test_an_unknown_field_of_a_patch_has_a_warning_at_its_place() -> None:
    (warning,) = patched("plain", pod({"name": "main", "argz": ["x"]}), PLAIN)
    at = f"{AT}.tasks[0].template.spec.containers[0].argz"
    assert str(warning) == f'{at}: unknown field; did you mean "args"?'
    assert warning.reason is Reason.FORBIDDEN


def test_a_field_in_the_value_of_a_reference_is_located_at_the_reference() -> None:
    flow = flow_of(
        {"name": "a", "patch": {"jobSpec": {"tasks": "$(params.tasks)"}}},
        params=[{"name": "tasks", "value": [{"name": "main", "containers": []}]}],
    )
    (warning,) = validate_flow(flow, Known()).field_warnings
    assert str(warning) == (
        f"{AT}.tasks: unknown field; it belongs in template.spec.containers "
        "(at [0].containers of its value)"
    )


@pytest.mark.parametrize(
    ("template", "patch", "path", "detail", "reason"),
    [
        (PLAIN, pod({"name": "mian", "image": "x"}), "tasks[0].template.spec.containers[0].name",
         'template "plain" has no container "mian", so the patch adds one; did you mean "main"?',
         Reason.NOT_FOUND),
        (PLAIN, pod({"name": "proxy", "image": "x"}), "tasks[0].template.spec.containers[0].name",
         'template "plain" has no container "proxy", so the patch adds one', None),
        (TRAIN, pod({"name": "main", "image": "x"}, task="wroker"), "tasks[0].name",
         'template "train" has no task "wroker", so the patch adds one; did you mean "worker"?',
         Reason.NOT_FOUND),
    ],
)  # fmt: skip
def test_an_unknown_task_or_container_has_a_warning(
    template: Any, patch: Any, path: str, detail: str, reason: Reason | None
) -> None:
    (warning,) = patched(template.metadata.name, patch, template)
    assert (warning.path, warning.detail, warning.reason) == (f"{AT}.{path}", detail, reason)


@pytest.mark.parametrize(
    "patch",
    [
        pod({"name": "main", "image": "x"}),
        pod({"image": "x"}),
        pod({"image": "x"}, task=None),
        pod({"$patch": "replace"}, {"name": "other", "image": "x"}),
        pod({"name": "main", "image": "x"}, initContainers=[{"name": "first", "image": "x"}]),
        {"tasks": [{"name": "main", "template": {"$patch": "merge"}}]},
        {"tasks": [{"$patch": "replace"}, *pod({"name": "c", "image": "x"}, task="new")["tasks"]]},
    ],
)
def test_known_and_replaced_elements_have_no_warning(patch: Any) -> None:
    assert patched("plain", patch, PLAIN) == ()


def test_an_element_that_one_patch_adds_is_known_to_the_next() -> None:
    case = {"template": "plain", "patch": {"jobSpec": pod({"name": "proxy", "tty": True})}}
    step = {
        "name": "a",
        "switch": [case],
        "patch": {"jobSpec": pod({"name": "proxy", "image": "x"})},
    }
    verdict = validate_flow(flow_of(step), knowing(PLAIN))
    assert [warning.path for warning in verdict.field_warnings] == [
        f"{AT}.tasks[0].template.spec.containers[0].name"
    ]


def test_an_element_without_a_name_is_refused_if_the_template_has_several() -> None:
    step = {"name": "a", "template": "train", "patch": {"jobSpec": {"tasks": [{"replicas": 2}]}}}
    assert faults(flow_of(step), knowing(TRAIN)) == [
        f'{AT}.tasks[0].name: Required value: template "train" has 2 tasks (ps and worker); name '
        "the one to change"
    ]
    assert faults(flow_of(step), Known()) == []


def test_a_container_without_a_name_is_refused_once() -> None:
    two = [{"name": name, "image": "x"} for name in ("main", "side")]
    task = {"name": "main", "replicas": 1, "template": {"spec": {"containers": two}}}
    step = {"name": "a", "template": "t", "patch": {"jobSpec": pod({"tty": True})}}
    assert faults(flow_of(step), knowing(template_of("t", tasks=[task]))) == [
        f'{AT}.tasks[0].template.spec.containers[0].name: Required value: template "t" has 2 '
        "containers (main and side); name the one to change"
    ]


def test_an_invalid_value_in_a_task_without_a_name_is_refused_too() -> None:
    step = {"name": "a", "template": "train", "patch": {"jobSpec": {"tasks": [{"replicas": -1}]}}}
    reported = faults(flow_of(step), knowing(TRAIN))
    assert [each.partition(":")[0] for each in reported] == [
        f"{AT}.tasks[0].name",
        f"{AT}.tasks[0].replicas",
    ]


def test_an_incomplete_new_element_has_a_hint() -> None:
    parts = pod({"name": "other"}, task="ps")
    parts["tasks"].append({"name": "more", "replicas": 1})
    step = {"name": "a", "template": "train", "patch": {"jobSpec": parts}}
    image, containers = faults(flow_of(step), knowing(TRAIN))
    assert "a container has an image (a patch finds its container by name)" in image
    assert "a pod has at least one container (a patch finds its task by name)" in containers


def test_a_wrong_type_in_a_patch_is_refused_without_a_template() -> None:
    patch = pod({"name": "main", "env": [{"name": "A", "value": "$(params.n)"}, {"value": 5}]})
    patch["tasks"][0]["template"]["spec"]["hostNetwork"] = "$(params.n)"
    flow = flow_of({"name": "a", "patch": {"jobSpec": patch}}, params=[{"name": "n", "value": 3}])
    inner = f"{AT}.tasks[0].template.spec"
    assert [each for each in faults(flow) if "must be of type" in each] == [
        f'{inner}.hostNetwork: Invalid value: "integer": must be of type boolean: "integer"',
        f'{inner}.containers[0].env[1].value: Invalid value: "integer": must be of type string: '
        '"integer"; write "5", in quotes',
    ]


def tasks(*replicas: int | None, **pod: Any) -> list[dict[str, Any]]:
    """Return tasks with these numbers of replicas; None omits the field."""
    template = TRAIN.spec["tasks"][0]["template"]
    template = template | {"spec": {"containers": template["spec"]["containers"], **pod}}
    counts = [{} if count is None else {"replicas": count} for count in replicas]
    return [{"name": f"t{i}", "template": template, **each} for i, each in enumerate(counts)]


NEVER = {"restartPolicy": "Never"}


@pytest.mark.parametrize(
    ("tasks", "found"),
    [
        (tasks(None, **NEVER), [("spec.tasks[0].replicas", Reason.REQUIRED)]),
        (tasks(0, **NEVER), [("spec.tasks", Reason.REQUIRED)]),
        (tasks(0, 0, **NEVER), [("spec.tasks", Reason.REQUIRED)]),
        (tasks(0, 1, **NEVER), []),
        (tasks(0, None, **NEVER), [("spec.tasks[1].replicas", Reason.REQUIRED)]),
        (tasks(1), [("spec.tasks[0].template.spec.restartPolicy", None)]),
    ],
)
def test_suspicious_tasks_of_a_template_have_warnings(
    tasks: Any, found: list[tuple[str, Reason | None]]
) -> None:
    verdict = validate_template(template_of("t", tasks=tasks), Known())
    assert verdict.violations == ()
    assert [(warning.path, warning.reason) for warning in verdict.field_warnings] == found


@pytest.mark.parametrize(
    ("value", "has_warning"),
    [
        ("$(PRICE)", True),
        ({"a": ["costs $(PRICE)"]}, True),
        ("$$(PRICE)", True),
        ("$(date -d $(params.day))", True),
        ("pa$$w0rd ${x}", False),
        ("$(index)", False),
    ],
)
def test_a_variable_in_a_param_has_a_warning(value: Any, has_warning: bool) -> None:
    child = {"params": {"p": value}, "flows": [{"name": "b"}]}
    params = [{"name": "p", "value": value}]
    flow = flow_of("a", {"name": "c", "flow": child}, params=params)
    paths = [each.path for each in validate_flow(flow, Known()).field_warnings]
    in_child = ["spec.flows[1].flow.params.p"]
    assert paths == (["spec.params[0].value", *in_child] if has_warning else [])


@pytest.mark.parametrize(
    ("containers", "init", "reads", "limit"),
    [
        (3, 0, "steps.a.outputs.x", ""),
        (3, 1, "steps.a.outputs.x", "3,072 bytes"),
        (5, 0, "steps.a.outputs.x", "2,457 bytes"),
        (5, 0, "steps.a.phase", ""),
    ],
)
def test_outputs_of_a_pod_with_many_containers_have_a_warning(
    containers: int, init: int, reads: str, limit: str
) -> None:
    made = pod(*({"name": f"c{i}"} for i in range(containers)), restartPolicy="Never")
    made["tasks"][0]["template"]["spec"]["initContainers"] = [
        {"name": f"i{i}"} for i in range(init)
    ]
    flow = flow_of({"name": "a", "template": "t"}, outputs={"x": reads})
    warnings = validate_flow(flow, knowing(template_of("t", **made))).field_warnings
    assert [each.path for each in warnings] == (["spec.flows[0]"] if limit else [])
    assert all(f"cuts its outputs at {limit};" in each.detail for each in warnings)


ADDRESS = "http://$(steps.a.job)-main-0.$(steps.a.job):80"


def addressed(server: Any, **fields: Any) -> list[str]:
    client = {"name": "b", "container": {"image": "x", "args": ["x", ADDRESS]}}
    flow = flow_of({"name": "a", **server}, client | {"dependsOn": {"targets": ["a"]}}, **fields)
    found = validate_flow(flow, knowing(PLAIN)).field_warnings
    return [str(each) for each in found if "DNS" in each.detail]


@pytest.mark.parametrize("server", [{"container": {"image": "x"}}, {"template": "plain"}])
def test_the_address_of_a_pod_without_a_name_in_dns_has_a_warning(server: Any) -> None:
    (warning,) = addressed(server)
    assert warning == (
        'spec.flows[1].container.args[1]: "$(steps.a.job)-main-0.$(steps.a.job)" has no entry in '
        "DNS, because the job of step a has no plugin svc; add plugins: {svc: []} to its jobSpec "
        "or patch.jobSpec, or to spec.jobDefaults"
    )


def test_the_name_of_a_job_in_a_url_is_the_address_of_its_service() -> None:
    client = {"name": "b", "container": {"image": "x", "args": ["http://$(steps.a.job):80/"]}}
    client["dependsOn"] = {"targets": ["a"]}
    flow = flow_of({"name": "a", "container": {"image": "x"}}, client)
    (warning,) = validate_flow(flow, knowing(PLAIN)).field_warnings
    assert '"$(steps.a.job)" has no entry in DNS, because the job of step a' in str(warning)


@pytest.mark.parametrize(
    ("server", "fields"),
    [
        ({"template": "plain", "patch": {"jobSpec": {"plugins": {"svc": []}}}}, {}),
        ({"template": "plain", "patch": {"jobSpec": {"plugins": {"pytorch": []}}}}, {}),
        ({"container": {"image": "x"}}, {"jobDefaults": {"plugins": {"svc": []}}}),
        ({"template": "unknown"}, {}),
    ],
)
def test_the_address_of_a_pod_that_has_or_may_have_a_name_has_none(
    server: Any, fields: Any
) -> None:
    assert addressed(server, **fields) == []


@pytest.mark.parametrize(
    ("field", "value", "detail"),
    [
        ("maxFailed", 4, "all 4 items may fail, so the step completes in any case"),
        ("maxFailed", "100%", "all 4 items may fail, so the step completes in any case"),
        ("maxFailed", "5%", "5% of 4 items, rounded down, is none, so that none may fail"),
        ("maxFailed", "25%", None),
        ("maxFailed", 0, None),
        ("minSuccess", 4, "all 4 items have to complete, as without it"),
        ("minSuccess", "76%", "all 4 items have to complete, as without it"),
        ("minSuccess", "75%", None),
        (
            "until",
            "flow.retries > 1",
            "it does not read items, so its value is the same whichever of them have completed",
        ),
        ("until", "items.size() > 1", None),
    ],
)
def test_a_tolerance_that_says_nothing_has_a_warning(
    field: str, value: int | str, detail: str | None
) -> None:
    flow = flow_of({"name": "a", "forEach": {"count": 4, field: value}})
    found = [str(warning) for warning in validate_flow(flow, Known()).field_warnings]
    assert found == ([] if detail is None else [f"spec.flows[0].forEach.{field}: {detail}"])


def test_all_items_have_to_complete_whatever_failure_policy_says() -> None:
    flow = flow_of(
        {"name": "a", "forEach": {"count": 4, "minSuccess": 4}}, failurePolicy="Continue"
    )
    assert not validate_flow(flow, Known()).field_warnings
