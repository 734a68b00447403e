"""Laws of admission, for any JSON and for valid flows with one fault."""

import re
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jobflow.api.flow.jobflow import JobFlow, JobFlowSpec, JobTemplate
from jobflow.api.flow.step import DependsOn, Step
from jobflow.api.flow.traits import fields_of, walk
from jobflow.core.admission.analysis.flow_facts import FlowFacts
from jobflow.core.admission.changes import need_of
from jobflow.core.admission.validate import (
    CREATE_RULES,
    LIMITS,
    Known,
    find_violations,
    validate_flow,
    validate_flow_delete,
    validate_flow_update,
    validate_template,
    validate_template_delete,
)
from jobflow.core.admission.warnings import FLOW_FIELD_WARNINGS, FLOW_WARNINGS
from jobflow.core.spec.compiled import compile_flow
from jobflow.core.violations import Verdict, Violation
from support.admission.places import has_place
from support.admission.reviewed import flow_of, knowing, passed_by, template_of
from support.laws.effort_of_laws import tries

WORDS = st.sampled_from(
    ["a", "b", "a-b", "A", "", "“a”", "a.b", "x" * 70, "all", "any", "Completed", "failed",
     "retain", "default", "main", "worker", "a\nb", "*", "PodFailed", "AbortJob", "svc", "30s",
     "Succeeded", "Failed", "Unknown", "/a b", "/a", "Host", "TE", "Abort", "2h", "0s", "1s1",
     "a-0", "a-r1", "$(item)", "$(params.a)", "x-$(steps.a.outputs.b)", "true", "params.a",
     "$(steps.a.failure.exitCode)", "failure.exitCode == 1",
     "$(failure.node)", "$(attempt)", "$(last.outputs.a)", "has(last.outputs)",
     "size(flow.failures) > 0"]
)  # fmt: skip
KEYS = st.sampled_from(
    ["metadata", "name", "generateName", "namespace", "spec", "queue", "tasks", "replicas",
     "minAvailable", "policies", "event", "action", "exitCode", "plugins", "volumes", "mountPath",
     "containers", "status", "state", "phase", "conditions", "annotations", "$patch", "x.io/key",
     "decisions", "case", "runs", *sorted({field.json for _, field in walk(JobFlowSpec)})]
)  # fmt: skip
LEAVES = st.none() | st.booleans() | st.integers(-2, 70_000) | st.floats(allow_nan=False) | WORDS
JSON = st.recursive(
    LEAVES | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=25,
)
OBJECTS = st.dictionaries(KEYS, JSON, max_size=5)


def maybe(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields)


PODS = maybe(spec=maybe(containers=st.lists(maybe(name=WORDS, image=WORDS), max_size=2)) | JSON)
TASKS = st.lists(
    maybe(name=WORDS, replicas=st.integers(-1, 9), minAvailable=st.integers(-1, 9), template=PODS)
    | JSON,
    max_size=3,
)
JOBS = (
    maybe(
        minAvailable=st.integers(-1, 9) | JSON,
        queue=WORDS | JSON,
        tasks=TASKS | JSON,
        plugins=st.dictionaries(WORDS, JSON, max_size=2) | JSON,
        policies=st.lists(maybe(event=WORDS, action=WORDS, exitCode=st.integers(-1, 2)), max_size=2)
        | JSON,
    )
    | OBJECTS
)
COUNTS = st.integers(-1, 3) | st.sampled_from([999, 1001, 2**31 - 1]) | st.none()
SETTINGS = COUNTS | st.sampled_from(["$(params.a)", "$(params.none)", "3", "$(item)"])
PORTS = st.integers(-1, 70_000) | st.none()
PROBES = maybe(
    taskStatusList=st.lists(
        maybe(taskName=WORDS, phase=WORDS, count=st.integers(-1, 12) | st.none()), max_size=3
    ),
    tcpSocketList=st.lists(maybe(taskName=WORDS, port=PORTS), max_size=2),
    httpGetList=st.lists(
        maybe(taskName=WORDS, port=PORTS, path=WORDS, httpHeader=maybe(name=WORDS, value=WORDS)),
        max_size=2,
    )
    | st.none(),
)
WORKS: dict[str, Any] = {
    "jobSpec": JOBS,
    "container": maybe(name=WORDS, image=WORDS, env=st.lists(JSON, max_size=2)) | OBJECTS,
    "volumes": st.lists(maybe(name=WORDS) | JSON, max_size=2),
}


def values_of(hint: Any) -> st.SearchStrategy[Any]:
    """Return values that a type can decode."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return values_of(args[0])
    if origin in (Union, UnionType):
        return st.one_of(*map(values_of, args))
    if origin is list:
        return st.lists(values_of(args[0]), max_size=2)
    if origin is dict:
        return st.dictionaries(WORDS, values_of(args[1]), max_size=2)
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return maybe(**all_fields(hint))
    return {
        NoneType: st.none(), str: WORDS, int: COUNTS, float: st.floats(allow_nan=False),
        bool: st.booleans(), Any: JSON,
    }[hint]  # fmt: skip


def all_fields(struct: type[msgspec.Struct]) -> dict[str, st.SearchStrategy[Any]]:
    """Return values for each field of a type, such as a new one, by its name in JSON."""
    hints = get_type_hints(struct, include_extras=True)
    return {each.json: values_of(hints[each.name]) for each in fields_of(struct)}


STEPS = st.fixed_dictionaries(
    {"name": WORDS},
    optional={name: values for name, values in all_fields(Step).items() if name != "name"}
    | {
        "dependsOn": maybe(
            targets=st.lists(WORDS, max_size=4),
            strategy=WORDS,
            condition=WORDS,
            conditions=st.dictionaries(WORDS, WORDS, max_size=2),
            items=WORDS | st.just("Matching"),
            probe=PROBES | st.none(),
        ),
        **WORKS,
        "env": st.dictionaries(WORDS, JSON | maybe(valueFrom=OBJECTS), max_size=3),
        "command": st.lists(JSON, max_size=2) | JSON,
        "args": st.lists(JSON, max_size=2) | JSON,
        "resources": maybe(requests=OBJECTS, limits=OBJECTS) | JSON,
        "patch": maybe(jobSpec=JOBS, spec=JOBS),
        "flow": maybe(
            flows=st.lists(maybe(name=WORDS, template=WORDS, when=WORDS) | JSON, max_size=2),
            params=st.dictionaries(WORDS, JSON, max_size=2) | JSON,
            outputs=st.dictionaries(WORDS, WORDS, max_size=2) | JSON,
            parallelism=COUNTS | JSON,
            timeout=WORDS | JSON,
        )
        | OBJECTS,
        "switch": st.lists(
            maybe(when=WORDS, template=WORDS, patch=maybe(jobSpec=JOBS, spec=JOBS), **WORKS),
            max_size=3,
        ),
        "forEach": maybe(
            **{"from": WORDS},
            items=st.lists(JSON, max_size=3),
            count=SETTINGS,
            parallelism=SETTINGS,
        ),
        "retry": maybe(
            limit=SETTINGS,
            when=WORDS,
            disruptions=COUNTS,
            patch=maybe(jobSpec=JOBS, spec=JOBS),
            backoff=maybe(
                duration=WORDS, max=WORDS, factor=st.floats(allow_nan=False) | st.integers(-1, 9)
            ),
        ),
    },
)
FLOWS = st.fixed_dictionaries(
    {
        "metadata": maybe(name=WORDS, generateName=WORDS, namespace=WORDS),
        "spec": maybe(
            **all_fields(JobFlowSpec)
            | {
                "finally": st.lists(STEPS, max_size=3),
                "flows": st.lists(STEPS, max_size=5),
                "volumeClaims": st.dictionaries(WORDS, OBJECTS | JSON, max_size=2),
            }
        ),
    },
    optional={
        "status": maybe(
            state=maybe(phase=WORDS),
            conditions=st.dictionaries(
                WORDS, maybe(phase=WORDS, decisions=maybe(case=COUNTS)), max_size=2
            ),
        )
    },
)
TEMPLATES = st.fixed_dictionaries({"metadata": maybe(name=WORDS), "spec": JOBS})
CLUSTERS = st.builds(
    Known,
    templates=st.none() | st.dictionaries(WORDS, st.builds(JobTemplate, spec=JOBS), max_size=4),
    queues=st.none() | st.dictionaries(WORDS, WORDS, max_size=2),
)


def decoded(obj: Any, type_: type[Any]) -> Any:
    try:
        return msgspec.json.decode(msgspec.json.encode(obj), type=type_)
    except msgspec.ValidationError:
        return None


@tries(100)
@given(FLOWS | OBJECTS | JSON, FLOWS | OBJECTS, CLUSTERS)
@example(
    {
        "metadata": {"name": "f"},
        "spec": {
            "flows": [
                {
                    "name": "a",
                    "jobSpec": {},
                    "patch": {"jobSpec": {"tasks": [False]}},
                    "retry": {"limit": 1, "patch": {"jobSpec": {"tasks": [{}]}}},
                }
            ]
        },
    },
    {},
    Known(),
)
def test_no_rule_of_flows_raises(first: Any, second: Any, known: Known):
    flow, other = decoded(first, JobFlow), decoded(second, JobFlow)
    if flow is None:
        return
    verdicts = [
        validate_flow(flow, known),
        validate_flow_delete(flow),
        validate_flow_update(flow, flow if other is None else other),
    ]
    assert all(len(str(violation)) for verdict in verdicts for violation in verdict.violations)


@tries(70)
@given(TEMPLATES | OBJECTS | JSON, FLOWS, CLUSTERS)
def test_no_rule_of_templates_raises(drawn: Any, flow: Any, known: Known):
    template = decoded(drawn, JobTemplate)
    if template is None:
        return
    need = need_of(decoded(flow, JobFlow), template.metadata.name)
    verdicts = [
        validate_template(template, known),
        validate_template_delete(template, [need] if need else []),
    ]
    assert all(len(str(violation)) for verdict in verdicts for violation in verdict.violations)


@given(FLOWS, CLUSTERS)
def test_equal_flows_get_equal_verdicts(obj: Any, known: Known):
    assert validate_flow(decoded(obj, JobFlow), known) == validate_flow(
        decoded(obj, JobFlow), known
    )


FEW_WORDS = st.fixed_dictionaries(
    {
        "metadata": st.just({"name": "f"}),
        "spec": st.fixed_dictionaries(
            {"flows": st.lists(st.fixed_dictionaries({"name": WORDS}), max_size=3)}
        ),
    }
)
"""Flows without primitives."""


@st.composite
def flows_of_one_primitive(draw: st.DrawFn) -> Any:
    plain, rich = draw(FEW_WORDS), draw(FLOWS)
    steps = [step for step in rich["spec"].get("flows") or () if len(step) > 1]
    if steps and plain["spec"]["flows"]:
        step = draw(st.sampled_from(steps))
        field = draw(st.sampled_from(sorted(step)))
        plain["spec"]["flows"][-1][field] = step[field]
    if rich["spec"]:
        field = draw(st.sampled_from(sorted(rich["spec"])))
        plain["spec"].setdefault(field, rich["spec"][field])
    return plain


@pytest.mark.parametrize("known", [Known(), knowing(template_of("a"), template_of("b"))])
def test_skipped_rules_would_find_nothing(known: Known):
    flow = flow_of("a", "b: a")
    assert passed_by((*LIMITS, *CREATE_RULES), FlowFacts(flow, known)) == []
    assert passed_by(FLOW_WARNINGS, FlowFacts(flow, known)) == []
    assert passed_by(FLOW_FIELD_WARNINGS, FlowFacts(flow, known)) == []


@tries(100)
@given(FLOWS | flows_of_one_primitive(), CLUSTERS)
def test_skipped_rules_would_find_nothing_in_any_flow(obj: Any, known: Known):
    flow = decoded(obj, JobFlow)
    assert passed_by((*LIMITS, *CREATE_RULES), FlowFacts(flow, known)) == []
    assert passed_by(FLOW_WARNINGS, FlowFacts(flow, known)) == []
    assert passed_by(FLOW_FIELD_WARNINGS, FlowFacts(flow, known)) == []


@tries(100)
@given(FLOWS)
def test_the_planner_finds_the_violations_that_admission_finds(obj: Any):
    flow = decoded(obj, JobFlow)
    violations = validate_flow(flow, Known()).violations
    assert tuple(find_violations(flow)) == violations
    assert tuple(find_violations(flow, compile_flow(flow).outline_of_flows)) == violations


@tries(100)
@given(FLOWS, CLUSTERS)
def test_every_reported_place_or_its_parent_exists(obj: Any, known: Known):
    for violation in validate_flow(decoded(obj, JobFlow), known).violations:
        assert has_place(obj, violation.path), violation


def _kinds(violations: tuple[Violation, ...]) -> list[tuple[str, str]]:
    return [(violation.path, violation.reason) for violation in violations]


@tries(70)
@given(FLOWS, CLUSTERS, st.booleans())
def test_an_independent_valid_step_changes_no_violation(obj: Any, known: Known, first: bool):
    flow = decoded(obj, JobFlow)
    if not flow.steps or len(flow.metadata.name or flow.metadata.generate_name) > 60:
        return
    good = Step(name="z")
    steps = [good, *flow.steps] if first else [*flow.steps, good]
    longer = msgspec.structs.replace(flow, spec=msgspec.structs.replace(flow.spec, flows=steps))
    before, after = (_kinds(validate_flow(it, known).violations) for it in (flow, longer))
    if first:
        before = [(_moved(path), reason) for path, reason in before]
    assert sorted(after) == sorted(before)


def _moved(path: str) -> str:
    return re.sub(r"^spec\.flows\[(\d+)\]", lambda m: f"spec.flows[{int(m[1]) + 1}]", path)


@st.composite
def good_flows(draw: st.DrawFn) -> JobFlow:
    """Draw a flow without cycles whose steps are listed in any order."""
    count = draw(st.integers(1, 8))
    steps = []
    for i in range(count):
        targets = draw(st.lists(st.integers(0, i - 1), max_size=3)) if i else []
        depends_on = DependsOn(targets=[f"s{t}" for t in targets]) if targets else None
        steps.append(Step(name=f"s{i}", template="t", depends_on=depends_on))
    shuffled = draw(st.permutations(steps))
    empty = flow_of()
    return msgspec.structs.replace(empty, spec=msgspec.structs.replace(empty.spec, flows=shuffled))


@given(good_flows())
def test_a_flow_that_can_succeed_is_admitted(flow: JobFlow):
    known = Known(templates={"t": template_of("t")}, queues={"default": "Open"})
    assert validate_flow(flow, known) == Verdict()


@given(good_flows(), st.data())
def test_one_unknown_target_is_one_violation_at_its_place(flow: JobFlow, data: st.DataObject):
    at = data.draw(st.integers(0, len(flow.steps) - 1))
    step = flow.steps[at]
    targets = [*step.targets, "nobody"]
    changed = msgspec.structs.replace(step, depends_on=DependsOn(targets=targets))
    steps = [*flow.steps[:at], changed, *flow.steps[at + 1 :]]
    flow = msgspec.structs.replace(flow, spec=msgspec.structs.replace(flow.spec, flows=steps))
    (violation,) = validate_flow(flow, Known()).violations
    assert violation.path == f"spec.flows[{at}].dependsOn.targets[{len(targets) - 1}]"
