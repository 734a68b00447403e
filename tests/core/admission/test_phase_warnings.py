"""Warnings about comparisons with unknown phases."""

import pytest

from jobflow.core.admission.validate import Known, validate_flow
from jobflow.core.admission.value_warnings import unknown_phases
from jobflow.core.cel.expression import Expression, parse_cached
from support.admission.reviewed import flow_of


def unknown(text: str) -> list[tuple[str, str]]:
    expression = parse_cached(text)
    assert isinstance(expression, Expression)
    return list(unknown_phases(expression.comparisons()))


@pytest.mark.parametrize(
    ("text", "word", "meant"),
    [
        ('steps.a.phase == "Succeeded"', "Succeeded", "Completed"),
        ("steps['a'].phase != 'done'", "done", "Completed"),
        ('steps["a-b"].phase=="completed"', "completed", "Completed"),
        ('"Success" == steps.a.phase', "Success", "Completed"),
        ("'Complete' == steps['a-b'].phase || true", "Complete", "Completed"),
        ("steps.a.items.all(i, i.phase == 'Suceeded')", "Suceeded", ""),
        ("phase == 'Error'", "Error", "Failed"),
        ("flow.phase == 'Succeeded'", "Succeeded", "Succeed"),
        ("flow.phase == 'Completed'", "Completed", ""),
        ("flow.phase != 'failed'", "failed", "Failed"),
        ("steps.a.phase == ''", "", ""),
        ("steps.a.phase == 'Xyz'", "Xyz", ""),
        ("steps.a.phase in ['Completed', 'Succeeded']", "Succeeded", "Completed"),
        ("steps['a']['phase'] == 'Not\\u0020yet'", "Not yet", ""),
    ],
)
def test_unknown_phases_are_found(text: str, word: str, meant: str) -> None:
    assert unknown(text) == [(word, meant)]


@pytest.mark.parametrize(
    "text",
    [
        "steps.a.phase == 'Completed' || steps.a.phase != 'Failed'",
        "'Skipped' == steps.a.phase && phase == 'Waiting'",
        "steps.a.items.exists(i, i.phase == 'Running')",
        "flow.phase == 'Succeed' || flow.phase == 'Failed'",
        "steps.a.outputs.phase == 'green'",
        "item.phase == 'green' && params.phase == 'blue'",
        "'green' == item.phase",
        "steps.a.reason == 'JobFailed' && steps.a.phase == params.x",
        "steps.myphase == 'x'",
        "outputs.text == 'phase == \\'x\\''",
        "'a-' + phase == 'a-x'",
        "outputs.names.exists(phase, phase == 'x')",
    ],
)
def test_phases_and_user_fields_have_no_warning(text: str) -> None:
    assert unknown(text) == []


def test_an_unknown_phase_has_a_warning() -> None:
    step = {"name": "b", "dependsOn": {"targets": ["a"]}}
    flow = flow_of("a", step | {"when": "steps.a.phase == 'Succeeded'"})
    [warning] = validate_flow(flow, Known()).field_warnings
    assert str(warning) == (
        'spec.flows[1].when: "Succeeded" (write "Completed") is no phase, '
        "so no phase ever equals it"
    )
