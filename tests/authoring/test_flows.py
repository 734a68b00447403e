"""Flows in Python as the objects that they make."""

import subprocess
import sys
from typing import Any

import pytest
import yaml

from jobflow.api.flow.control import FailurePolicy
from jobflow.authoring import (
    Case,
    ChildFlow,
    CronFlow,
    DependsOn,
    Flow,
    ForEach,
    InvalidFlow,
    JobSpec,
    Param,
    Patch,
    Retry,
    Step,
    Steps,
    Task,
    Template,
    cel,
    item,
    to_yaml,
    var,
)

POD = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}]}}
JOB = JobSpec(min_available=1, tasks=[Task(name="main", replicas=1, template=POD)])


def spec_of(flow: Flow) -> dict[str, Any]:
    """Return the spec of the flow, which may have faults."""
    found = [*yaml.safe_load_all(flow.yaml(check=False))]
    return found[-1]["spec"]  # type: ignore[no-any-return]


def steps_of(flow: Flow) -> dict[str, Any]:
    return {step.pop("name"): step for step in spec_of(flow)["flows"]}


def targets_of(flow: Flow) -> dict[str, list[str]]:
    """Return the targets of the steps that have some."""
    found = {
        name: step.get("dependsOn", {}).get("targets") for name, step in steps_of(flow).items()
    }
    return {name: targets for name, targets in found.items() if targets}


@pytest.fixture
def flow() -> Flow:
    return Flow("f")


def steps(flow: Flow, names: str) -> list[Step]:
    return [flow.step(name, template="t") for name in names]


def test_operators_order_steps(flow: Flow) -> None:
    a, b, c, d, e = steps(flow, "abcde")
    assert a >> [b, c] >> d is d
    assert e << [d, a] == [d, a]
    assert targets_of(flow) == {"b": ["a"], "c": ["a"], "d": ["b", "c"], "e": ["d", "a"]}


def test_lists_of_steps_order_each_other(flow: Flow) -> None:
    a, b, c, d = steps(flow, "abcd")
    Steps([a, b]) >> [c, d]
    [a, b] >> c
    assert targets_of(flow) == {"c": ["a", "b"], "d": ["a", "b"]}


def test_only_steps_of_one_flow_order_each_other(flow: Flow) -> None:
    [a] = steps(flow, "a")
    with pytest.raises(ValueError, match="step b cannot wait for step a, which is in another flow"):
        a >> Flow("g").step("b")
    with pytest.raises(TypeError, match="not a str"):
        a >> "b"  # type: ignore[operator]


def test_operators_add_to_the_targets_of_a_step(flow: Flow) -> None:
    a, b = steps(flow, "ab")
    flow.step("c", depends_on=DependsOn(targets=[a], condition="Failed")) << b
    flow.step("d", depends_on=[a, "b"])
    assert steps_of(flow)["c"]["dependsOn"] == {"targets": ["a", "b"], "condition": "Failed"}
    assert targets_of(flow)["d"] == ["a", "b"]


def test_a_step_waits_for_the_steps_whose_results_it_uses(flow: Flow) -> None:
    a, b = steps(flow, "ab")
    a >> b
    flow.step("c", env={"X": a.outputs.x, "Y": f"{b.outputs.y}!"})
    flow.step("d", when=b.outputs.ok)
    flow.step("e", for_each=b.outputs.list, vars={"x": a.outputs.x})
    assert targets_of(flow) == {"b": ["a"], "c": ["a", "b"], "d": ["b"], "e": ["b"]}


def test_a_step_with_a_condition_of_its_own_keeps_its_targets(flow: Flow) -> None:
    a, b = steps(flow, "ab")
    flow.step("c", depends_on=DependsOn(targets=[a], strategy="any"), env={"X": b.outputs.x})
    assert targets_of(flow) == {"c": ["a"]}


def test_finally_sees_other_steps_without_waiting_for_them(flow: Flow) -> None:
    [a] = steps(flow, "a")
    b = flow.finally_("b", env={"X": a.outputs.x})
    flow.finally_("c", env={"X": b.outputs.x})
    first, second = spec_of(flow)["finally"]
    assert "dependsOn" not in first
    assert second["dependsOn"] == {"targets": ["b"]}


def test_a_computed_value_becomes_a_var(flow: Flow) -> None:
    [a] = steps(flow, "a")
    total = a.items.map(lambda each: each.outputs.n).sum()
    flow.step(
        "b",
        container={"env": [{"name": "N", "value": total}]},
        env={"TOTAL": total, "MORE": total + 1, "more": total + 2},
        vars={"total": "1"},
    )
    step = steps_of(flow)["b"]
    sum_of = 'steps["a"].items.map(each, each.outputs.n).sum()'
    assert step["container"]["env"] == [{"name": "N", "value": "$(vars.value)"}]
    assert step["env"] == {
        "TOTAL": "$(vars.value)",
        "MORE": "$(vars.more)",
        "more": "$(vars.more2)",
    }
    assert step["vars"] == {
        "total": "1",
        "value": sum_of,
        "more": f"{sum_of} + 1",
        "more2": f"{sum_of} + 2",
    }


def test_fields_have_shorter_forms(flow: Flow) -> None:
    flow.step("a", for_each=[1, 2], retry=3)
    flow.step("b", for_each=flow.params.list, retry=Retry(limit=flow.params.n))
    flow.step("c", for_each=ForEach(count=2), env={"I": item})
    flow.step("d", for_each=[flow.params.n, 2], retry=flow.params.n)  # type: ignore[arg-type]
    found = steps_of(flow)
    assert found["a"] == {"forEach": {"items": [1, 2]}, "retry": {"limit": 3}}
    assert found["b"] == {"forEach": {"from": "params.list"}, "retry": {"limit": "$(params.n)"}}
    assert found["c"] == {"env": {"I": "$(item)"}, "forEach": {"count": 2}}
    assert found["d"] == {"forEach": {"from": "[params.n, 2]"}, "retry": {"limit": "$(params.n)"}}


def test_enums_and_other_numbers_are_their_values(flow: Flow) -> None:
    class Number(float):
        pass

    flow.step("a", for_each=range(2), env={"POLICY": FailurePolicy.STOP, "N": Number(0.5)})
    step = steps_of(flow)["a"]
    assert step == {"env": {"POLICY": "Stop", "N": 0.5}, "forEach": {"items": [0, 1]}}
    flow.step("b", env={"N": float("nan")})
    with pytest.raises(InvalidFlow, match="a float is no value of JSON: nan"):
        flow.lint()


def test_params_have_values_and_choices() -> None:
    flow = Flow("f", params={"n": 1, "mode": Param(value="a", enum=["a", "b"]), "later": None})
    assert spec_of(flow)["params"] == [
        {"name": "n", "value": 1},
        {"name": "mode", "value": "a", "enum": ["a", "b"]},
        {"name": "later"},
    ]


def test_a_step_with_an_image_is_a_container(flow: Flow) -> None:
    flow.step("a", image="python", command=["x"], resources={"limits": {"cpu": 1}}, env={"N": 1})
    assert steps_of(flow)["a"] == {
        "container": {"image": "python", "command": ["x"], "resources": {"limits": {"cpu": 1}}},
        "env": {"N": 1},
    }


def test_an_image_beside_a_template_replaces_its_image(flow: Flow) -> None:
    flow.step("a", template="a", image="python")
    flow.step("b", template="t", image="python")
    flow.add(Template("c", JOB))
    flow.step("c", image="python")
    assert steps_of(flow) == {
        "a": {"image": "python"},
        "b": {"template": "t", "image": "python"},
        "c": {"image": "python"},
    }


def test_templates_are_sent_with_the_flow_that_names_them(flow: Flow) -> None:
    train, other, added = Template("train", JOB), Template("other", {}), Template("added", {})
    flow.step("a", template=train, patch=Patch(job_spec=JobSpec(min_success=1)))
    flow.step("b", switch=[Case(when=cel("params.x"), template=other), Case(template=train)])
    flow.add(added)
    objects = [*yaml.safe_load_all(flow.yaml(check=False))]
    assert [each["metadata"]["name"] for each in objects] == ["added", "train", "other", "f"]
    assert objects[1]["spec"] == {
        "minAvailable": 1,
        "tasks": [{"name": "main", "replicas": 1, "template": POD}],
    }
    a, b = objects[-1]["spec"]["flows"]
    assert a["patch"] == {"jobSpec": {"minSuccess": 1}}
    assert b["switch"] == [{"when": "params.x", "template": "other"}, {"template": "train"}]


def test_a_child_flow_reads_fields_of_a_param_that_only_a_run_knows(flow: Flow) -> None:
    child = ChildFlow(params={"s": item})
    child.step("trim", image="busybox", command=["echo", child.params.s.id])
    flow.step("sample", flow=child, for_each=[{"id": "a"}, {"id": "b"}])
    (trim,) = steps_of(flow)["sample"]["flow"]["flows"]
    assert trim["container"]["command"] == ["echo", "$(params.s.id)"]


def test_a_step_runs_a_child_flow(flow: Flow) -> None:
    child = ChildFlow(params={"site": item}, failure_policy="Abort")
    fetch = child.step("fetch", template="t", env={"SITE": child.params.site})
    child.step("fit", template="t", env={"X": fetch.outputs.x})
    flow.step("site", flow=child, for_each=["a", "b"])
    assert steps_of(flow)["site"]["flow"] == {
        "params": {"site": "$(item)"},
        "failurePolicy": "Abort",
        "flows": [
            {"name": "fetch", "template": "t", "env": {"SITE": "$(params.site)"}},
            {
                "name": "fit",
                "template": "t",
                "env": {"X": "$(steps.fetch.outputs.x)"},
                "dependsOn": {"targets": ["fetch"]},
            },
        ],
    }


def test_metadata_and_outputs() -> None:
    flow = Flow(generate_name="f-", namespace="team", labels={"a": "b"})
    a = flow.step("a", template="t", vars={"x": cel("1 + 1")}, env={"X": var.x})
    flow = Flow("g", labels={"a": "b"}, outputs={"best": a.outputs.x, "n": cel.size(a.items)})
    flow.step("a", template="t")
    assert spec_of(flow)["outputs"] == {
        "best": 'steps["a"].outputs.x',
        "n": 'size(steps["a"].items)',
    }


def test_a_claim_of_the_flow_is_named_by_a_reference() -> None:
    size = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    flow = Flow("f", volume_claims={"data": size, "big-cache": size})
    env = {"A": flow.claims.data, "B": flow.claims["big-cache"]}
    flow.step("a", template=Template("t", JOB), env=env)
    (step,) = spec_of(flow)["flows"]
    assert step["env"] == {"A": "$(flow.claims.data)", "B": "$(flow.claims.big-cache)"}


def test_a_schedule_has_the_spec_of_its_flow() -> None:
    flow = Flow("f", labels={"a": "b"}, params={"n": 1})
    flow.step("a", template=Template("t", JOB), env={"AT": flow.scheduled_time})
    cron = CronFlow("nightly", "30 2 * * *", flow, time_zone="Europe/Berlin", suspend=True)
    template, made = yaml.safe_load_all(cron.yaml())
    assert template["metadata"]["name"] == "t"
    assert made == {
        "apiVersion": "flow.volcano.sh/v1alpha1",
        "kind": "CronJobFlow",
        "metadata": {"name": "nightly"},
        "spec": {
            "schedule": "30 2 * * *",
            "timeZone": "Europe/Berlin",
            "suspend": True,
            "jobFlowTemplate": {
                "metadata": {"labels": {"a": "b"}},
                "spec": spec_of(flow),
            },
        },
    }


def test_several_flows_share_templates() -> None:
    template, flows = Template("t", JOB), [Flow("f"), Flow("g")]
    for flow in flows:
        flow.step("a", template=template)
    names = [each["metadata"]["name"] for each in yaml.safe_load_all(to_yaml(template, *flows))]
    assert names == ["t", "f", "g"]


def test_importing_the_package_imports_nothing_large() -> None:
    """Editors and schedulers import files often. The test counts imports, because a clock is
    unreliable."""
    script = (
        "import sys; import jobflow.authoring\n"
        "heavy = {'fastapi', 'uvicorn', 'kubernetes_asyncio', 'pydantic', 'yaml', 'jsonschema_rs',"
        " 'httpx', 'cryptography', 'msgspec', 'typer', 'rich', 'aiohttp', 'asyncio'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    process = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert process.stdout == "[]\n"
