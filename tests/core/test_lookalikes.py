"""What looks like a reference and is none: it is told, for it will stay as it stands."""

from __future__ import annotations

import pytest

from jobflow.core.lookalikes import A_KEY, A_SUM, LOOKED_AT, MOST, lookalikes
from jobflow.core.validate import Known, validate_flow, validate_template
from reviewed import flow_of, template_of


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("$(param.x)", "$(params.x)"),
        ("$(parms.x)", "$(params.x)"),
        ("--lr $(parameters.lr) --n 3", "$(params.lr)"),
        ("$(inputs.x)", "$(params.x)"),
        ("$(tasks.train.outputs.acc)", "$(steps.train.outputs.acc)"),
        ("$(step.train.outputs.acc)", "$(steps.train.outputs.acc)"),
        ("$(Item.lr)", "$(item.lr)"),
        ("$(items.lr)", "$(item.lr)"),
        ("$( item )", "$(item)"),
        ("$( params.x )", "$(params.x)"),
        ("$(params)", "$(params.NAME)"),
        ("$(steps)", "$(steps.NAME.outputs.KEY)"),
        ("$(flow)", "$(flow.name)"),
        ("$(params['x'])", "$(params.x)"),
        ("${params.x}", "$(params.x)"),
        ("${steps.a.outputs.b}", "$(steps.a.outputs.b)"),
        ("{{item}}", "$(item)"),
        ("{{ params.x }}", "$(params.x)"),
        ("{{inputs.parameters.x}}", "$(params.x)"),
        ("{{item.lr}}", "$(item.lr)"),
        ("{{workflow.name}}", "$(flow.name)"),
        ("$(tasks.train.results.acc)", "$(steps.train.outputs.acc)"),
        ("{{steps.train.outputs.parameters.acc}}", "$(steps.train.outputs.acc)"),
        ("{{tasks.train.outputs.result}}", "$(steps.train.outputs.text)"),
        ("${steps.a.output.b}", "$(steps.a.outputs.b)"),
    ],
)
def test_what_looks_like_a_reference(text: str, meant: str) -> None:
    assert [each for _, each in lookalikes({"a": [text]})] == [f"write {meant}"]


@pytest.mark.parametrize(
    "text",
    [
        "$(params.x)",
        "$(item) $(index)",
        "$$(param.x)",
        "$(POD_NAME)",
        "$(date +%s) $(ls items) $(cat params.txt | wc)",
        "$(hostname) $(nproc) $(date.sh)",
        "${item} ${index} ${HOME} ${#items[@]} ${x%.*}",
        "{item} {index:03d} {'params': 1} {{}} {{ .Values.x }}",
        "for item in $(items); do echo ${item}; done",
        "awk '{print $1}'",
    ],
)
def test_what_is_left_alone(text: str) -> None:
    assert [*lookalikes(text)] == []


@pytest.mark.parametrize(
    "text",
    ["$(params.n + 1)", "x-$(index + 1)", "$(item * 2)", "$( steps.a.outputs.n / 2 )"],
)
def test_a_reference_computes_nothing(text: str) -> None:
    assert [each for _, each in lookalikes(text)] == [A_SUM]


def test_a_key_holds_no_reference() -> None:
    assert [*lookalikes({"labels": {"$(item)": "x"}})] == [("$(item)", A_KEY)]


def test_a_long_patch_is_told_of_in_part() -> None:
    assert len([*lookalikes(["$(param.x)"] * 1000)]) == MOST


def test_the_warning_of_a_flow() -> None:
    flow = flow_of(
        {"name": "a", "patch": {"jobSpec": {"queue": "$(param.q)"}}},
        {"name": "b", "patch": {"spec": {"queue": "{{item}}", "plugins": {"$(item)": []}}}},
    )
    assert validate_flow(flow, Known()).warnings == (
        '"$(param.q)" (write $(params.q)), "{{item}}" (write $(item)), "$(item)" (a key holds '
        "none) in patches look like references and will stay as they stand; $$( says that this "
        "is meant",
    )


def test_references_outside_of_patches_stay() -> None:
    flow = flow_of(
        {"name": "a", "forEach": {"items": [{"x": "$(params.q)"}, "$(date)"]}},
        {"name": "b", "when": "params.q == '$(item)'", "patch": {"spec": {"queue": "$(params.q)"}}},
        params=[{"name": "q", "value": "$(flow.name)-1"}],
        jobDefaults={"annotations": {"run": "$(index)", "shell": "$$(index)"}},
    )
    assert validate_flow(flow, Known()).warnings == (
        '"$(flow.name)", "$(params.q)", "$(index)" in params, forEach.items and jobDefaults stay '
        "as they stand: references are read in the patch of a step only",
    )


def test_a_reference_in_a_template_stays() -> None:
    template = template_of("t", priorityClassName="$(params.priority)")
    assert validate_template(template, Known()).warnings == (
        '"$(params.priority)" in the template stays as it stands: references are read in the patch '
        "of a step only",
    )
    assert validate_template(template_of("t"), Known()).warnings == ()


def test_only_so_many_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr("jobflow.core.lookalikes._meant", lambda found: asked.append(found) or "")
    assert list(lookalikes({"args": ["$(a.b) ${c.d} " * LOOKED_AT, "$(params.x)"]})) == []
    assert len(asked) == LOOKED_AT


def test_only_so_many_patches_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def looked_at(value: object) -> dict[str, str]:
        asked.append(value)
        return {f"$(x.{len(asked)})": "write it otherwise"}

    monkeypatch.setattr("jobflow.core.suspicions.lookalikes", looked_at)
    steps = [
        {"name": f"s{at}", "patch": {"jobSpec": {"queue": f"q{at}"}}} for at in range(3 * MOST)
    ]
    assert any('"$(x.1)"' in said for said in validate_flow(flow_of(*steps), Known()).warnings)
    assert len(asked) == MOST + 1
