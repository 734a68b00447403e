"""What a step runs without a template, its arguments, and the order in which layers are merged."""

from itertools import chain
from typing import Any

import pytest

from jobflow.core.cel.expression import EvaluationFailure
from jobflow.core.cel.scope import EvaluationScope
from jobflow.core.manifests.job import Attempt, build_job
from jobflow.core.manifests.layers import MAX_VARIABLES, may_have_layers, own_layers
from support.admission.reviewed import flow_of, template_of


def job(step: dict[str, Any], template: dict[str, Any] | None = None, **spec: Any) -> Any:
    """Return the job of a step that runs a template with this spec, or none."""
    flow = flow_of({"name": "a", **step}, **spec)
    base = template_of("a", **template) if template is not None else None
    case = (flow.steps[0].switch or [None])[0]
    seen = EvaluationScope(flow, lambda name: None, index=1, item={"lr": 0.1, "list": [1, "x"]})
    return build_job(flow, flow.steps[0], base, Attempt("f-a", case=case, seen=seen))


def containers(step: dict[str, Any], *pods: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the first container of each pod of a template with these pods, after the step."""
    tasks = [{"name": f"t{i}", "template": {"spec": pod}} for i, pod in enumerate(pods)]
    made = job(step, {"tasks": tasks})["spec"]["tasks"]
    return [task["template"]["spec"]["containers"][0] for task in made]


def env_of(env: dict[str, Any], *own: dict[str, Any]) -> list[dict[str, Any]]:
    [container] = containers({"env": env}, {"containers": [{"name": "c", "env": [*own]}]})
    made: list[dict[str, Any]] = container["env"]
    return made


def var(name: str, value: str) -> dict[str, Any]:
    return {"name": name, "value": value}


@pytest.mark.parametrize(
    "step",
    [
        {"jobSpec": {}},
        {"container": {}},
        {"env": {"A": 1}},
        {"image": "i"},
        {"command": []},
        {"args": []},
        {"resources": {}},
        {"patch": {"spec": {"queue": "q"}}},
        {"retry": {"limit": 1, "patch": {"spec": {"queue": "q"}}}},
        {"switch": [{"patch": {"spec": {"queue": "q"}}}]},
    ],
)
def test_a_step_with_a_layer_is_not_passed_by(step: dict[str, Any]) -> None:
    [found] = flow_of({"name": "a", **step}).steps
    assert [*chain.from_iterable(own_layers(owner) for owner in (found, *(found.switch or ())))]
    assert may_have_layers(found)


# ------------------------------------------------------------------------------------ env


def test_env_is_set_in_all_containers_and_init_containers_of_all_tasks() -> None:
    pod = {"containers": [{"name": "c"}, {"name": "d"}], "initContainers": [{"name": "i"}]}
    tasks = [{"name": name, "template": {"spec": pod}} for name in ("t", "u")]
    made = job({"env": {"A": 1}}, {"tasks": tasks})["spec"]["tasks"]
    found = [
        container
        for task in made
        for field in ("containers", "initContainers")
        for container in task["template"]["spec"][field]
    ]
    assert [each["name"] for each in found] == ["c", "d", "i"] * 2
    assert all(each["env"] == [var("A", "1")] for each in found)


def test_a_variable_replaces_its_namesake_whole_and_in_place() -> None:
    own = {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    assert env_of({"B": "b"}, var("A", "a"), own, var("C", "c")) == [
        var("A", "a"),
        var("B", "b"),
        var("C", "c"),
    ]


def test_a_variable_stands_once_if_the_template_has_it_twice() -> None:
    assert env_of({"B": "b"}, var("B", "1"), var("A", "a"), var("B", "2")) == [
        var("B", "b"),
        var("A", "a"),
    ]


def test_new_variables_come_first_by_name() -> None:
    assert env_of({"Z": "z", "B": "b"}, var("A", "a")) == [
        var("B", "b"),
        var("Z", "z"),
        var("A", "a"),
    ]


def test_null_removes_a_variable() -> None:
    assert env_of({"A": None, "X": None}, var("A", "a"), var("B", "b")) == [var("B", "b")]


def test_a_reference_whose_value_is_null_removes_a_variable() -> None:
    params = [{"name": "none", "value": None}]
    own = {"containers": [{"name": "c", "env": [var("A", "a")]}]}
    step = {"env": {"A": "$(params.none)"}}
    made = job(step, {"tasks": [{"name": "t", "template": {"spec": own}}]}, params=params)
    assert made["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["env"] == []


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3, "3"),
        (0.1, "0.1"),
        (True, "true"),
        ("", ""),
        ("$(item.lr)", "0.1"),
        ("lr=$(item.lr)", "lr=0.1"),
        ("$(item.list)", '[1,"x"]'),
        ("$(item)", '{"lr":0.1,"list":[1,"x"]}'),
        ("$(HOME)", "$(HOME)"),
    ],
)
def test_a_value_is_written_as_text(value: Any, text: str) -> None:
    assert env_of({"A": value}) == [var("A", text)]


def test_a_source_may_have_references() -> None:
    source = {"secretKeyRef": {"name": "s-$(index)", "key": "k"}}
    assert env_of({"A": {"valueFrom": source}}) == [
        {"name": "A", "valueFrom": {"secretKeyRef": {"name": "s-1", "key": "k"}}}
    ]


def test_too_many_variables_fail_the_step() -> None:
    many = {f"A{i}": i for i in range(MAX_VARIABLES // 4 + 1)}
    pod = {"containers": [{"name": f"c{i}"} for i in range(4)]}
    found = job({"env": many}, {"tasks": [{"name": "t", "template": {"spec": pod}}]})
    assert isinstance(found, EvaluationFailure)
    assert found.message == "env makes 65,540 variables in this job; at most 65,536 fit"


@pytest.mark.parametrize("tasks", [None, 3, [3], [{"template": 3}], [{"template": {"spec": 3}}]])
def test_malformed_templates_are_kept(tasks: Any) -> None:
    made = job({"env": {"A": "a"}, "image": "x"}, {"tasks": tasks})
    assert "env" not in str(made["spec"])


# ----------------------------------------------------------------- the other arguments


def test_arguments_change_the_first_container_of_the_first_task() -> None:
    step = {
        "image": "new:$(index)",
        "command": ["run", 1],
        "args": ["--lr", "$(item.lr)", True],
        "resources": {"limits": {"cpu": 2}},
    }
    pod = {"containers": [{"name": "c", "image": "old", "args": ["x"]}]}
    first, second = containers(step, pod, pod)
    assert first == {
        "name": "c",
        "image": "new:1",
        "command": ["run", "1"],
        "args": ["--lr", "0.1", "true"],
        "resources": {"limits": {"cpu": 2}},
    }
    assert second == pod["containers"][0]


def test_a_list_of_a_reference_is_written_as_texts() -> None:
    [container] = containers({"args": "$(item.list)"}, {"containers": [{"name": "c"}]})
    assert container["args"] == ["1", "x"]


def test_resources_are_merged_as_in_a_patch() -> None:
    own = {"requests": {"cpu": 1, "memory": "1Gi"}, "limits": {"cpu": 1}}
    step = {"resources": {"requests": {"memory": "2Gi", "cpu": None}}}
    [container] = containers(step, {"containers": [{"name": "c", "resources": own}]})
    assert container["resources"] == {"requests": {"memory": "2Gi"}, "limits": {"cpu": 1}}


# --------------------------------------------------------------- container and jobSpec


def test_a_container_is_a_job_of_one_pod() -> None:
    volumes = [{"name": "v", "emptyDir": {}}]
    made = job({"container": {"image": "i", "args": ["$(index)"]}, "volumes": volumes})
    [task] = made["spec"].pop("tasks")
    assert made["spec"] == {}
    assert (task["name"], task["replicas"]) == ("main", 1)
    assert task["template"]["spec"] == {
        "restartPolicy": "Never",
        "containers": [{"name": "main", "image": "i", "args": ["1"]}],
        "volumes": volumes,
    }


def test_a_job_without_a_template_has_no_labels_and_annotations_of_one() -> None:
    metadata = job({"container": {"image": "i"}})["metadata"]
    assert not [key for key in (*metadata["labels"], *metadata["annotations"]) if "emplate" in key]
    assert metadata["labels"]["volcano.sh/createdByJobFlow"] == "team.f"


@pytest.mark.parametrize(
    ("tasks", "names"),
    [
        ([{}], [("main", 1)]),
        ([{"name": "w", "replicas": "$(index)"}], [("w", 1)]),
        ([{"replicas": 0}], [("main", 0)]),
        ([{}, {"name": "w"}], [(None, None), ("w", None)]),
        ("$(params.tasks)", [("main", 1)]),
    ],
)
def test_only_a_single_task_may_leave_out_name_and_replicas(tasks: Any, names: Any) -> None:
    params = [{"name": "tasks", "value": [{"template": {}}]}]
    made = job({"jobSpec": {"tasks": tasks}}, params=params)["spec"]["tasks"]
    assert [(task.get("name"), task.get("replicas")) for task in made] == names


def test_later_layers_take_precedence() -> None:
    def pod(**container: Any) -> dict[str, Any]:
        spec = {"containers": [{"name": "c", **container}]}
        return {"tasks": [{"name": "t", "template": {"spec": spec}}]}

    order = [
        {"jobDefaults": {"queue": "defaults"}},
        {"jobSpec": {**pod(image="spec", command=["spec"], args=["spec"]), "queue": "spec"}},
        {"image": "argument", "command": ["argument"], "env": {"A": "argument"}},
        {"patch": {"jobSpec": pod(image="patch", env=[var("A", "patch")])}},
    ]
    defaults, *fields = order
    step = {key: value for each in fields for key, value in each.items()}
    made = job(step, **defaults)["spec"]
    assert made["queue"] == "spec"
    assert made["tasks"][0]["template"]["spec"]["containers"] == [
        {
            "name": "c",
            "image": "patch",
            "command": ["argument"],
            "args": ["spec"],
            "env": [var("A", "patch")],
        }
    ]


def test_a_case_runs_its_own_container_with_the_arguments_of_the_step() -> None:
    case = {
        "container": {"image": "i"},
        "patch": {"jobSpec": {"queue": "case"}},
    }
    made = job({"switch": [case], "env": {"A": "a"}, "patch": {"jobSpec": {"queue": "step"}}})
    [container] = made["spec"]["tasks"][0]["template"]["spec"]["containers"]
    assert container == {"name": "main", "image": "i", "env": [var("A", "a")]}
    assert made["spec"]["queue"] == "case"


def test_the_job_shares_nothing_with_the_step() -> None:
    container = {"image": "i", "env": [var("A", "a")]}
    made = job({"container": container, "env": {"B": "b"}})
    made["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["env"].append("changed")
    assert container == {"image": "i", "env": [var("A", "a")]}
