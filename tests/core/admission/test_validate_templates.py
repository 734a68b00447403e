"""New and changed templates, and warnings."""

from typing import Any

import pytest

from jobflow.core.admission.validate import Known, validate_flow, validate_template
from support.admission.reviewed import flow_of, knowing, reported, template_of

OPEN = {"default": "Open", "fresh": ""}


def warnings(flow: Any, known: Known) -> list[str]:
    verdict = validate_flow(flow, known)
    assert verdict.violations == ()
    return list(verdict.warnings)


def test_faults_of_a_template_are_reported():
    template = template_of("A", replicas=-1, queue="Q")
    assert [line.partition(": ")[0] for line in reported(validate_template(template, Known()))] == [
        "metadata.name",
        "spec.tasks[0].replicas",
        "spec.queue",
    ]


MISSING = 'queue "gone" does not exist: Volcano refuses jobs for a queue that does not exist'
CLOSED = 'queue "shut" (Closed) is not Open: Volcano refuses jobs for a queue that is not Open'


@pytest.mark.parametrize(
    ("queue", "warned"),
    [("default", []), ("fresh", []), (None, []), ("", []), ("gone", [MISSING]), ("shut", [CLOSED])],
)
def test_the_queue_of_a_template_is_checked(queue, warned):
    template = template_of("a", queue=queue)
    known = Known(queues=OPEN | {"shut": "Closed"})
    assert list(validate_template(template, known).warnings) == warned
    assert warnings(flow_of("a"), knowing(template, queues=known.queues)) == warned
    assert validate_template(template, Known()).warnings == ()


@pytest.mark.parametrize(("queue", "warned"), [("gone", [MISSING]), ("default", [])])
def test_a_patched_queue_is_checked(queue, warned):
    flow = flow_of({"name": "a", "patch": {"jobSpec": {"queue": queue}}})
    assert warnings(flow, knowing(template_of("a", queue="shut"), queues=OPEN)) == warned
    assert warnings(flow, Known(queues=OPEN)) == warned


def test_many_queues_have_one_warning_of_each_kind():
    names = ["q1", "q2", "q3", "q4", "q5"]
    known = knowing(*(template_of(f"t{q}", queue=q) for q in names), queues={"q1": "Closed"})
    closed = Known(templates=known.templates, queues=dict.fromkeys(names, "Closing"))
    flow = flow_of(*(f"t{q}" for q in names))
    assert warnings(flow, known)[0] == (
        'queues "q2", "q3", "q4" and 1 more do not exist: Volcano refuses jobs for a queue that '
        "does not exist"
    )
    assert warnings(flow, closed) == [
        'queues "q1" (Closing), "q2" (Closing), "q3" (Closing) and 2 more are not '
        "Open: Volcano refuses jobs for a queue that is not Open"
    ]


@pytest.mark.parametrize(
    ("steps", "warned"),
    [
        (("a", "b: a"), []),
        (("a", "x"), ['JobTemplate "x" does not exist yet: its steps wait until it does']),
        (({"name": "y", "template": "z"}, {"name": "x", "template": "z"}),
         ['JobTemplate "z" does not exist yet: its steps wait until it does']),
        (("y", "a", "x"),
         ['JobTemplates "y" and "x" do not exist yet: their steps wait until they do']),
    ],
)  # fmt: skip
def test_missing_templates_have_a_warning(steps, warned):
    assert warnings(flow_of(*steps), knowing(template_of("a"), template_of("b"))) == warned
    assert warnings(flow_of(*steps), Known()) == []


def test_a_condition_without_targets_has_a_warning():
    step = {"name": "cleanup", "dependsOn": {"condition": "Failed"}}
    other = {"name": "b", "dependsOn": {"strategy": "any", "targets": []}}
    tail = "a condition or strategy in dependsOn but no targets: the start waits for nothing"
    assert warnings(flow_of("a", step), Known()) == [f'step "cleanup" has {tail}']
    assert warnings(flow_of(other, step), Known()) == [f'steps "b" and "cleanup" have {tail}']
    assert warnings(flow_of({"name": "a", "dependsOn": {}}), Known()) == []


def test_a_condition_beside_a_probe_has_a_warning():
    probe = {"taskStatusList": [{"taskName": "main", "phase": "Succeeded"}]}
    both = {"targets": ["a"], "condition": "Failed", "probe": probe}
    tail = "a probe, which decides alone: the condition beside it has no effect"
    one = [{"name": "b", "dependsOn": both}]
    two = [*one, {"name": "c", "dependsOn": both}]
    assert warnings(flow_of("a", *one), Known()) == [f'step "b" has {tail}']
    assert warnings(flow_of("a", *two), Known()) == [f'steps "b" and "c" have {tail}']
    empty = {"name": "b", "dependsOn": both | {"probe": {}}}
    assert warnings(flow_of("a", empty), Known()) == []
