"""Warnings about texts that look like references but are not."""

from typing import Any

import pytest

from jobflow.core.admission.mistaken_references import (
    IS_KEY,
    IS_SUM,
    MAX_CANDIDATES,
    MAX_MISTAKEN,
    NO_EQUAL,
    mistaken_references,
)
from jobflow.core.admission.validate import Known, validate_flow, validate_template
from jobflow.core.cel.references import replace_references
from support.admission.reviewed import flow_of, template_of


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
        ("$(inputs.parameters.x)", "$(params.x)"),
        ("$(inputs.params.x)", "$(params.x)"),
        ("$(inputs.parameters)", "$(params.parameters)"),
        ("$(items.parameters.x)", "$(item.parameters.x)"),
        ("$(task.a.outputs.params.x)", "$(steps.a.outputs.params.x)"),
        ("{{item.lr}}", "$(item.lr)"),
        ("{{workflow.name}}", "$(flow.name)"),
        ("$(tasks.train.results.acc)", "$(steps.train.outputs.acc)"),
        ("{{steps.train.outputs.parameters.acc}}", "$(steps.train.outputs.acc)"),
        ("{{tasks.train.outputs.result}}", "$(steps.train.outputs.text)"),
        ("${steps.a.output.b}", "$(steps.a.outputs.b)"),
    ],
)
def test_mistaken_references_are_found(text: str, meant: str) -> None:
    (found,) = mistaken_references({"a": [text]}, "p")
    assert (found.path, found.advice) == ("p.a[0]", f"write {meant}")


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
def test_other_texts_are_not_mistaken_references(text: str) -> None:
    assert [*mistaken_references(text, "p")] == []


@pytest.mark.parametrize("text", ["$(param.x)", "$( item )", "$(params.n + 1)"])
def test_a_text_that_is_meant_as_it_is_can_be_written_without_a_warning(text: str) -> None:
    (found,) = mistaken_references(text, "p")
    written = text.replace("$(", "$$(")
    assert found.can_be_escaped and [*mistaken_references(written, "p")] == []
    assert replace_references(written, str) == text


@pytest.mark.parametrize("text", ["{{item}}", "${params.x}", {"$(item)": 1}])
def test_other_texts_are_not_escaped(text: Any) -> None:
    (found,) = mistaken_references(text, "p")
    assert not found.can_be_escaped


@pytest.mark.parametrize(
    "text", ["$(params.n + 1)", "x-$(index + 1)", "$(item * 2)", "$( steps.a.outputs.n / 2 )"]
)
def test_a_reference_cannot_compute_a_value(text: str) -> None:
    assert [found.advice for found in mistaken_references(text, "p")] == [IS_SUM]


def test_a_key_cannot_be_a_reference() -> None:
    assert [*mistaken_references({"labels": {"$(item)": "x"}}, "p")] == [
        ("p.labels[$(item)]", "$(item)", IS_KEY, False)
    ]


def test_mistaken_references_of_a_patch_are_limited() -> None:
    assert len([*mistaken_references(["$(param.x)"] * 1000, "p")]) == MAX_MISTAKEN


@pytest.mark.parametrize(
    ("text", "meant"),
    [("$(attempts)", "attempt"), ("{{retries}}", "retries"), ("$(retryCount)", "retries")],
)
def test_the_number_of_an_attempt_has_a_reference(text: str, meant: str) -> None:
    assert [found.advice for found in mistaken_references(text, "p")] == [f"write $({meant})"]
    assert [*mistaken_references(f"$({meant})", "p")] == []


def test_a_declared_environment_variable_is_no_mistaken_reference() -> None:
    env = [{"name": "attempts", "value": "1"}, {"name": "param.x", "value": "2"}, 7]
    container = {"env": env, "args": ["$(attempts)", "$(param.x)", "$(param.y)"]}
    assert [found.text for found in mistaken_references(container, "p")] == ["$(param.y)"]


def test_each_mistaken_reference_of_a_flow_has_a_warning() -> None:
    flow = flow_of(
        {"name": "a", "patch": {"jobSpec": {"queue": "$(param.q)"}}},
        {
            "name": "b",
            "forEach": {"items": ["x"]},
            "patch": {"spec": {"queue": "{{item}}", "plugins": {"$(item)": []}}},
        },
        {"name": "c", "patch": {"jobSpec": {"queue": "$(param.none)"}}},
        params=[{"name": "q", "value": "x"}],
    )
    looks = "looks like a reference but is not one, so it is left as it is"
    meant = "if that is intended, write $$( instead of $("
    assert validate_flow(flow, Known()).all_warnings == (
        f'spec.flows[0].patch.jobSpec.queue: "$(param.q)" {looks} (write $(params.q)); {meant}',
        f'spec.flows[1].patch.spec.queue: "{{{{item}}}}" {looks} (write $(item))',
        'spec.flows[1].patch.spec.plugins[$(item)]: "$(item)" '
        f"{looks} (a key cannot be a reference)",
        f'spec.flows[2].patch.jobSpec.queue: "$(param.none)" {looks} ({NO_EQUAL}); {meant}',
    )


def test_references_outside_of_patches_are_left_as_they_are() -> None:
    flow = flow_of(
        {"name": "a", "forEach": {"items": [{"x": "$(params.q)"}, "$(date)"]}},
        {"name": "b", "when": "params.q == '$(item)'", "patch": {"spec": {"queue": "$(params.q)"}}},
        params=[{"name": "q", "value": "$(flow.name)-1"}],
        jobDefaults={"annotations": {"run": "$(index)", "shell": "$$(index)"}},
    )
    assert validate_flow(flow, Known()).warnings == (
        '"$(flow.name)", "$(params.q)" and "$(index)" in params, forEach.items and jobDefaults are '
        "left as they are, because references have no meaning there",
    )


def test_a_reference_in_a_template_is_left_as_it_is() -> None:
    template = template_of("t", priorityClassName="$(params.priority)")
    assert validate_template(template, Known()).all_warnings == (
        'spec.priorityClassName: "$(params.priority)" is left as it is, because '
        "references have no meaning there",
    )
    assert validate_template(template_of("t"), Known()).all_warnings == ()


def test_the_number_of_candidates_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    candidates = []
    monkeypatch.setattr(
        "jobflow.core.admission.mistaken_references._meant",
        lambda found: candidates.append(found) or "",
    )
    assert (
        list(mistaken_references({"args": ["$(a.b) ${c.d} " * MAX_CANDIDATES, "$(params.x)"]}, "p"))
        == []
    )
    assert len(candidates) == MAX_CANDIDATES


def test_mistaken_references_of_a_flow_are_limited() -> None:
    steps = [{"name": f"s{at}", "patch": {"jobSpec": {"queue": "$(param.q)"}}} for at in range(300)]
    verdict = validate_flow(flow_of(*steps), Known())
    assert len(verdict.field_warnings) == MAX_MISTAKEN
    assert verdict.all_warnings[-1] == "and 84 more like these"
