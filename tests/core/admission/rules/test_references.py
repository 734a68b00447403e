"""Admission of references in patches: faults, their places and messages."""

from typing import Any

import pytest

from support.admission.reviewed import faults, faults_of_step, flow_of


def faults_of_text(text: str, **step: Any) -> list[str]:
    found = faults_of_step(patch={"jobSpec": {"plugins": {"env": [text]}}}, **step)
    path = "patch.jobSpec.plugins.env[0]: Invalid value: "
    assert all(each.startswith(path) for each in found)
    return [each.removeprefix(path) for each in found]


@pytest.mark.parametrize(
    "text",
    [
        "$(params.mode)",
        "q-$(params.workers)-$(params.map.x.y)-$(params.rates.0)",
        "$(steps.a.outputs.queue)",
        "$(steps.a.outputs)",
        "$(steps.a.failure) $(steps.a.failure.exitCode)",
        "$(steps.a.phase)-$(steps.a.reason)-$(steps.a.job)",
        "$(flow.name)-$(flow.namespace)",
        "$$(params.x)",
        "$(POD_NAME)",
    ],
)
def test_a_valid_reference_is_admitted(text: str) -> None:
    assert faults_of_text(text) == []


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ("$(params.mod)", 'there is no parameter "mod"; did you mean "mode"?'),
        ("q$(params.map.z)", "there is no 'z' in params.map"),
        ("$(params.rates.7)", "there is no '7' in params.rates"),
        ("$(params.)", 'there is no parameter ""'),
        ("$(item)", "only the patch, vars, compute, fail, forEach.when and the retry.when of a "
         "step with forEach have an item"),
        ("$(flow.uid)", 'a flow has no "uid"; it has name, namespace'),
        ("$(flow.phase)", 'only steps of finally and outputs of the flow have flow.phase'),
        ("$(flow.claims.data)", 'only flows with volumeClaims have flow.claims'),
        ("$(flow.name.x)", 'a flow has no "name.x"; did you mean "name"?'),
        ("$(steps.a.failure.code)", 'a failure has no "code"; did you mean "node"?'),
        ("$(steps.a.failure.step)", 'only the failure of a step that runs a flow has "step"'),
        ("$(steps.a)", "write $(steps.NAME.outputs.KEY) for a step's output, or end with one of "
          ".phase, .reason, .job, .failure"),
        ("$(steps.a.output.x)", 'a reference to a step has no "output"; did you mean "outputs"?'),
        ("$(steps.a.job.x)", "job has no fields; write $(steps.a.job)"),
        ("$(steps.x.outputs.y)", 'no such step as "x"'),
        ("$(steps.d.outputs.y)", 'step "b" does not depend on "d"; add it to dependsOn.targets'),
    ],
)  # fmt: skip
def test_an_invalid_reference_is_refused(text: str, detail: str) -> None:
    reference = text.removeprefix("q")
    assert faults_of_text(text) == [f'"{reference}": {detail}']


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ("$(flow.claims.data) $(flow.claims.big-cache)", None),
        ("$(flow.claims.dat)", 'spec.volumeClaims has no "dat"; did you mean "data"?'),
        ("$(flow.claims.data.x)", 'spec.volumeClaims has no "data.x"; did you mean "data"?'),
        ("$(flow.claims)", "write which field of spec.volumeClaims is meant: data, big-cache"),
    ],
)
def test_a_reference_to_a_claim_names_one_of_the_flow(text: str, detail: str | None) -> None:
    size = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    step = {"name": "a", "container": {"image": "x", "args": [text]}}
    found = faults(flow_of(step, volumeClaims={"data": size, "big-cache": size}))
    assert [each.partition('": ')[2] for each in found] == ([] if detail is None else [detail])


def test_the_names_of_claims_are_not_known_before_the_start() -> None:
    size = {"accessModes": ["$(flow.claims.data)"], "resources": {"requests": {"storage": "1Gi"}}}
    group = {"group": "$(flow.claims.data)"}
    found = faults(flow_of("a", volumeClaims={"data": size}, concurrency=group))
    assert len([each for each in found if "are not known before the flow starts" in each]) == 2


def test_references_in_loops_are_checked() -> None:
    items = {"items": [{"q": "x"}, {"p": "y"}]}
    assert faults_of_text("q-$(index)", forEach=items) == []
    assert faults_of_text("q-$(index)", repeat={"max": 2, "until": "outputs.x == 1"}) == []
    assert faults_of_text("q-$(item)", repeat={"max": 2, "until": "outputs.x == 1"}) != []
    assert faults_of_text("$(item.q)", forEach={"items": [{"q": "x"}]}) == []
    assert faults_of_text("$(item.q)", forEach=items) == ['"$(item.q)": items[1] has no "q"']
    assert faults_of_text("$(item.q)", forEach={"from": "params.rates"}) == []
    assert faults_of_text("q-$(item)", forEach={"count": 2}) == []
    assert faults_of_text("$(item.q)", forEach={"count": 2}) == [
        '"$(item.q)": with count, an item is a number without fields; write $(item)'
    ]


def test_the_size_of_referenced_values_is_limited() -> None:
    large = [{"name": "x", "value": "x" * 60_000}]
    env = ["$(params.x)"] * 20
    steps = [{"name": f"s{i}", "patch": {"spec": {"plugins": {"env": env}}}} for i in range(8)]
    (found,) = faults(flow_of(*steps, params=large))
    assert found == (
        "spec.flows[6].patch.spec: Too long: the values of its references, and of "
        "those before it in the flow, have more than 8,388,608 bytes; put large "
        "values into a ConfigMap or a volume"
    )


def test_steps_of_finally_may_refer_to_every_step_and_to_the_phase_of_the_flow() -> None:
    def reported(text: str) -> list[str]:
        last = [{"name": "y"}, {"name": "z", "patch": {"spec": {"plugins": {"env": [text]}}}}]
        return faults(flow_of("a", "b: a", **{"finally": last}))

    assert reported("$(flow.phase) $(steps.a.outputs.x) $(steps.b.outputs.x)") == []
    assert reported("$(flow.failures) $(flow.failures.0.failure.node)") == []
    assert len(reported("$(flow.failures.0.node)")) == 1
    assert len(reported("$(steps.y.outputs.x)")) == 1


def test_a_step_with_items_has_no_job_of_its_own() -> None:
    patch = {"spec": {"queue": "$(steps.a.job)"}}
    items = {"name": "a", "forEach": {"count": 2}}
    (found,) = faults(
        flow_of(items, {"name": "b", "dependsOn": {"targets": ["a"]}, "patch": patch})
    )
    assert found.endswith('"$(steps.a.job)": "a" has forEach, and so a job for each item')


def test_references_in_patches_of_cases_are_checked() -> None:
    case = {"patch": {"spec": {"queue": "$(params.x)"}}}
    assert faults_of_step(switch=[case]) == [
        'switch[0].patch.spec.queue: Invalid value: "$(params.x)": there is no parameter "x"'
    ]


def test_a_fault_of_a_reference_has_its_path_in_the_patch() -> None:
    labels = {"x.io/y": "$(index)"}
    patch = {"tasks": [{"name": "t", "template": {"metadata": {"labels": labels}}}]}
    (found,) = faults_of_step(patch={"jobSpec": patch})
    path = "patch.jobSpec.tasks[0].template.metadata.labels[x.io/y]"
    assert found.startswith(f'{path}: Invalid value: "$(index)": only the patch, vars, compute, ')
