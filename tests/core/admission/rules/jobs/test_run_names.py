"""Names of runs and retries: their length and uniqueness."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobflow.api.flow.jobflow import JobFlow
from jobflow.core.admission.analysis.flow_facts import FlowFacts
from jobflow.core.admission.analysis.jobs.job_counts import origins, prefixes
from jobflow.core.admission.rules.jobs.generated_names import jobs_are_unique, pods_are_unique
from jobflow.core.admission.validate import Known, validate_flow
from jobflow.core.violations import Reason
from support.admission.reviewed import faults, flow_of, knowing, template_of
from support.laws.effort_of_laws import tries

UNTIL = "phase == 'Completed'"


def step(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "template": "t"} | fields


def each(count: int) -> dict[str, Any]:
    return {"forEach": {"count": count}}


def retry(limit: int) -> dict[str, Any]:
    return {"retry": {"limit": limit}}


def repeat(most: int) -> dict[str, Any]:
    return {"repeat": {"until": UNTIL, "max": most}}


@pytest.mark.parametrize(
    ("fields", "tail"),
    [
        ({}, ""),
        (each(1), "-0"),
        (each(0), ""),
        (each(11), "-10"),
        (each(1000), "-999"),
        ({"forEach": {"items": ["x"] * 101}}, "-100"),
        ({"forEach": {"from": "[1]"}}, "-999"),
        ({"forEach": {"from": "params.few"}}, "-1"),
        ({"forEach": {"from": " params['few'] "}}, "-1"),
        (repeat(10), "-9"),
        (retry(0), ""),
        (retry(9), "-r9"),
        (retry(100), "-r100"),
        (each(1000) | retry(100), "-999-r100"),
        (repeat(3) | retry(3), "-2-r3"),
    ],
    ids=str,
)
def test_the_longest_name_of_a_step_must_fit(fields: dict[str, Any], tail: str) -> None:
    params = [{"name": "few", "value": [1, 2]}]
    for longest, known in (("", Known()), ("-main-0", knowing(template_of("t")))):
        name = "n" * (63 - len("f-") - len(tail) - len(longest))
        assert faults(flow_of(step(name, **fields), params=params), known) == []
        (fault,) = faults(flow_of("a", step(name + "n", **fields), params=params), known)
        subject = f'pod "f-{name}n{tail}{longest}"' if longest else f'vcjob "f-{name}n{tail}"'
        assert fault == (
            f"spec.flows[1].name: Too long: its {subject} would have 64 characters, and Volcano "
            "accepts at most 63; shorten the name of the step or of the flow by 1"
        )


def test_names_of_finally_must_fit() -> None:
    last = [step("n" * 61), step("n" * 60, **retry(1))]
    assert [fault[:40] for fault in faults(flow_of("a", **{"finally": last}))] == [
        "spec.finally[1].name: Too long: its vcjo"
    ]


def test_the_names_of_a_case_are_checked_with_its_template() -> None:
    name = "n" * 49
    cases = [{"when": "true", "template": "t"}, {"template": "longer"}]
    known = knowing(template_of("t"), template_of("longer", "w" * 9))
    assert faults(flow_of({"name": name, "switch": cases}), known) == []
    (fault,) = faults(flow_of({"name": name + "n", "switch": cases}), known)
    assert f'its pod "f-{name}n-{"w" * 9}-0" would have 64 characters' in fault


@pytest.mark.parametrize(
    ("steps", "clash"),
    [
        ([step("a", **each(3)), step("a-0")], "f-a-0"),
        ([step("a-2"), step("a", **each(3))], "f-a-2"),
        ([step("a", **each(3)), step("a-0", **each(3))], None),
        ([step("a", **repeat(3)), step("a-1", **retry(3))], "f-a-1"),
        ([step("a", **retry(2)), step("a-r2")], "f-a-r2"),
        ([step("a", **retry(2)), step("a-r0"), step("a-r3"), step("a-r01")], None),
        ([step("a", **each(3), **retry(2)), step("a-2-r2")], "f-a-2-r2"),
        ([step("a-1", **retry(1)), step("a-1-r1"), step("a", **each(1))], "f-a-1-r1"),
        ([step("a", **each(1000), **retry(100)), step("a-999-r100")], "f-a-999-r100"),
    ],
    ids=lambda it: str(it)[:120],
)
def test_vcjobs_have_unique_names(steps: list[dict[str, Any]], clash: str | None) -> None:
    found = validate_flow(flow_of(*steps), Known()).violations
    assert [(v.reason, v.value) for v in found] == ([(Reason.DUPLICATE, clash)] if clash else [])
    last = flow_of(*steps[:1], **{"finally": steps[1:]})
    found = validate_flow(last, Known()).violations
    assert [(v.reason, v.value) for v in found] == ([(Reason.DUPLICATE, clash)] if clash else [])


@pytest.mark.parametrize(
    ("fields", "tasks", "other", "pod"),
    [
        (each(3), ["x-main"], step("a-1-x"), "f-a-1-x-main-0"),
        (each(3), ["x-main"], step("a-3-x"), None),
        (each(3), ["2-main"], step("a-1", **each(3)), "f-a-1-2-main-0"),
        (retry(1), ["x-main"], step("a-r1-x"), "f-a-r1-x-main-0"),
        ({}, ["x-0-main"], step("a-x", **each(1)), "f-a-x-0-main-0"),
        ({}, ["x-0-r2-main"], step("a-x", **each(1), **retry(2)), "f-a-x-0-r2-main-0"),
        ({}, ["x-r2-main"], step("a-x", **retry(2)), "f-a-x-r2-main-0"),
        (each(2) | retry(1), ["x-0-main"], step("a-1-r1-x", **each(1)), "f-a-1-r1-x-0-main-0"),
    ],
    ids=str,
)
def test_pods_of_different_vcjobs_have_unique_names(
    fields: dict[str, Any], tasks: list[str], other: dict[str, Any], pod: str | None
) -> None:
    known = knowing(template_of("u", *tasks), template_of("t"))
    for steps in ([step("a", **fields), other], [other, step("a", **fields)]):
        steps = [each | {"template": "u"} if each["name"] == "a" else each for each in steps]
        found = validate_flow(flow_of(*steps), known).violations
        assert [v.value for v in found] == ([pod] if pod else [])


def test_a_task_of_a_third_step_makes_no_clash() -> None:
    known = knowing(template_of("t"), template_of("u", "b-x"))
    assert faults(flow_of(step("a"), step("a-b"), {"name": "z", "template": "u"}), known) == []


def test_each_pair_of_steps_of_two_templates_is_reported() -> None:
    known = knowing(template_of("t"), template_of("u", "b-main"))
    steps = [step("a", template="u"), step("a-b"), step("c", template="u"), step("c-b")]
    found = validate_flow(flow_of(*steps), known).violations
    assert [v.value for v in found] == ["f-a-b-main-0", "f-c-b-main-0"]


def test_attempts_of_one_step_have_different_pods() -> None:
    known = knowing(template_of("t", "r1-main", "main"))
    assert faults(flow_of(step("a")), known) == []
    assert len(faults(flow_of(step("a", **retry(1))), known)) == 1
    assert "f-a-0-r1-main-0" in faults(flow_of(step("a", **retry(1), **each(2))), known)[0]


NAMES = st.sampled_from(
    ["a", "a-0", "a-1", "a-0-r1", "a-r1", "a-r1-0", "a-1-r2", "a-b", "a-b-0", "a-0-b"]
)
STEPS = st.builds(
    lambda name, loop, limit: step(name, **loop) | (retry(limit) if limit else {}),
    NAMES,
    st.sampled_from([{}, each(1), each(2), repeat(2)]),
    st.integers(0, 2),
)
TASKS = st.sampled_from(["m", "r1-m", "0-m", "b-m", "b-0-m", "0-r1-m", "b-r1-m", "1-b-m"])


def jobs_of(drawn: dict[str, Any]) -> list[str]:
    loop = drawn.get("forEach", {}).get("count") or drawn.get("repeat", {}).get("max")
    runs = [drawn["name"]] if loop is None else [f"{drawn['name']}-{i}" for i in range(loop)]
    limit = drawn.get("retry", {}).get("limit", 0)
    return [run + (f"-r{n}" if n else "") for run in runs for n in range(limit + 1)]


@tries(200)
@given(st.lists(STEPS, min_size=1, max_size=4, unique_by=lambda drawn: drawn["name"]))
def test_the_rule_finds_duplicate_vcjobs(steps: list[dict[str, Any]]) -> None:
    names = [job for drawn in steps for job in jobs_of(drawn)]
    assert bool(clashes(flow_of(*steps), Known())[0]) == (len(set(names)) < len(names))


@tries(200)
@given(
    st.lists(STEPS, min_size=1, max_size=3, unique_by=lambda drawn: drawn["name"]),
    st.lists(TASKS, min_size=1, max_size=3, unique=True),
)
def test_the_rule_finds_duplicate_pods(steps: list[dict[str, Any]], tasks: list[str]) -> None:
    jobs = [job for drawn in steps for job in jobs_of(drawn)]
    pods = [f"{job}-{task}" for job in dict.fromkeys(jobs) for task in tasks]
    duplicate_jobs, duplicate_pods = clashes(flow_of(*steps), knowing(template_of("t", *tasks)))
    if not duplicate_jobs:
        assert bool(duplicate_pods) == (len(set(pods)) < len(pods))


def clashes(flow: JobFlow, known: Known) -> tuple[list[Any], list[Any]]:
    facts = FlowFacts(flow, known)
    return list(jobs_are_unique(facts)), list(pods_are_unique(facts))


@given(st.text("ar01-", max_size=12))
def test_origins_and_prefixes_reproduce_the_name(name: str) -> None:
    for base, index, attempt in origins(name):
        assert name == base + ("" if index is None else f"-{index}") + (
            f"-r{attempt}" * bool(attempt)
        )
    for index, attempt, suffix in prefixes(name):
        parts = [str(index)] * (index is not None) + [f"r{attempt}"] * bool(attempt)
        assert name == "-".join([*parts, suffix])
