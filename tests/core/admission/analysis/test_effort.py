"""Admission takes time proportional to the size of its input, counted in lines of Python that run.

The webhook judges on the thread that runs the flows, so hostile input must not block it.
"""

from collections.abc import Callable
from typing import Any

import pytest

from jobflow.api.flow.jobflow import JobFlow, JobTemplate
from jobflow.core.admission.validate import Known, validate_flow, validate_template
from support.admission.reviewed import flow_of, knowing, template_of
from support.laws.counted_work import lines_run

pytestmark = pytest.mark.no_cover
"""`lines_run` sets its own trace function."""


def judge(flow: JobFlow, *templates: JobTemplate) -> Callable[[], object]:
    known = knowing(*templates) if templates else Known()
    return lambda: validate_flow(flow, known)


def _patched(patch: dict[str, Any]) -> Callable[[], object]:
    return judge(flow_of({"name": "a", "patch": {"jobSpec": patch}}))


def _task_targets(count: int) -> Callable[[], object]:
    tasks = [
        {"name": f"t{i}", "dependsOn": {"name": [f"t{i}x", f"x{i}"]}, "template": {}}
        for i in range(count)
    ]
    template = template_of("t", tasks=tasks)
    return lambda: validate_template(template, Known())


def _one_task_after_all(count: int) -> Callable[[], object]:
    names = [f"t{i}" for i in range(count)]
    tasks = [*({"name": name} for name in names), {"name": "z", "dependsOn": {"name": names}}]
    template = template_of("t", tasks=tasks)
    return lambda: validate_template(template, Known())


def _steps_with_a_common_prefix(count: int) -> Callable[[], object]:
    names = ["s", *(f"s-{i}" for i in range(count))]
    template = template_of("t", *(f"t-{i}" for i in range(count)))
    return judge(flow_of(*({"name": name, "template": "t"} for name in names)), template)


def _probes(invalid: bool) -> Callable[[int], Callable[[], object]]:
    def of(count: int) -> Callable[[], object]:
        first = count // 10
        names = [f"s{i}" for i in range(first)]
        steps: list[dict[str, Any]] = [
            {"name": name, "template": "t", "patch": {"jobSpec": {"maxRetry": 2}}} for name in names
        ]
        entry = {
            "taskName": "mian" if invalid else "main",
            "path": "a" if invalid else "/a",
            "port": 1,
        }
        for i in range(count):
            probe = {"httpGetList": [entry | {"port": port} for port in (1, 2)]}
            depends_on = {"targets": names if i == 0 else [f"s{i % first}"], "probe": probe}
            steps.append({"name": f"p{i}", "template": "t", "dependsOn": depends_on})
        return judge(flow_of(*steps), template_of("t"))

    return of


def _entries(count: int) -> Callable[[], object]:
    names = [f"s{i}" for i in range(count)]
    steps: list[dict[str, Any]] = [
        {"name": name, "template": "t", "patch": {"jobSpec": {"maxRetry": 2}}} for name in names
    ]
    probe = {"tcpSocketList": [{"taskName": "mian", "port": i} for i in range(count)]}
    return judge(
        flow_of(*steps, {"name": "p", "dependsOn": {"targets": names, "probe": probe}}),
        template_of("t"),
    )


UNTIL = "phase == 'Completed'"


def _loops(count: int) -> Callable[[], object]:
    """Steps whose names, tasks and runs have a common prefix."""
    loops: list[dict[str, Any]] = [
        {"forEach": {"count": 1000}, "retry": {"limit": 100}},
        {"repeat": {"until": UNTIL, "max": 1000}},
        {"retry": {"limit": 100, "backoff": {"duration": "x"}}},
        {},
    ]
    steps = [{"name": f"s-{i}", "template": "t"} | loops[i % 4] for i in range(count)]
    tasks = [f"{i}-r1-{i}-t" for i in range(count // 4)]
    return judge(flow_of("s", *steps, {"name": "s-1-r1"}), template_of("t", *tasks))


def _cases(count: int) -> Callable[[], object]:
    """Many steps with invalid patches, each with a short switch because a switch is bounded."""
    patch = {"jobSpec": {"tasks": [{"name": "main", "replicas": -1}], "queue": "$(params.queue)"}}
    switch = [{"when": "true", "patch": patch}, {"patch": patch}, {"template": "T"}]
    names = [f"s{i}" for i in range(count // 8)]
    steps = [{"name": name, "switch": switch, "patch": patch} for name in names]
    flow = flow_of(
        *steps,
        params=[{"name": "queue", "value": "Q"}],
        jobDefaults={"plugins": {"mpi": []}, "labels": {"A b": "c d"}},
        **{"finally": [{"name": name, "dependsOn": {"targets": names[:3]}} for name in names]},
    )
    return judge(flow, *(template_of(name) for name in names))


def _one_switch(count: int) -> Callable[[], object]:
    case = {"when": "true", "patch": {"jobSpec": {"maxRetry": "$(item)"}}}
    return judge(
        flow_of({"name": "a", "template": "t", "switch": [case] * count}),
        template_of("a"),
        template_of("t"),
    )


def _unknown_places(count: int) -> Callable[[], object]:
    tasks = [{"name": f"t{i}", "replicas": "$(item)", "minAvailable": -1} for i in range(count)]
    patch = {"jobSpec": {"tasks": tasks, "plugins": {f"p{i}": ["$(item)"] for i in range(count)}}}
    return judge(flow_of({"name": "a", "patch": patch, "forEach": {"count": 3}}), template_of("a"))


def _values(count: int) -> Callable[[], object]:
    value = [{"name": "t", "replicas": -1}] * count
    patch = {"jobSpec": {"tasks": "$(params.tasks)"}}
    return judge(
        flow_of({"name": "a", "patch": patch}, params=[{"name": "tasks", "value": value}]),
        template_of("a"),
    )


def _expressions(*texts: str, **more: Any) -> Callable[[int], Callable[[], object]]:
    """A chain of steps with these conditions; `{before}` is the step before, `{i}` a number."""

    def of(count: int) -> Callable[[], object]:
        steps: list[dict[str, Any]] = [{"name": "s0"}]
        for i in range(1, count):
            when = [{"when": text.format(before=f"s{i - 1}", i=i)} for text in texts]
            depends_on = {"targets": [f"s{i - 1}"]}
            steps.append({"name": f"s{i}", "dependsOn": depends_on, "switch": when, **more})
        params = [{"name": f"p{i}", "value": [i] * 10} for i in range(50)]
        flow = flow_of(*steps, params=params)
        validate_flow(flow, Known())  # fills the cache of parsed expressions
        return judge(flow)

    return of


def _references(count: int) -> Callable[[], object]:
    items = [{f"k{i}": 1 for i in range(3)}] * (count // 10)
    env = [f"$(item.k{i}) $(params.x) $(index) $(param.x)" for i in range(count)]
    step = {"name": "a", "forEach": {"items": items}, "patch": {"spec": {"plugins": {"env": env}}}}
    return judge(flow_of(step))


def _params(count: int) -> Callable[[], object]:
    params = [{"name": f"p-{i}", "enum": [1, 2], "value": 3} for i in range(count)]
    return judge(flow_of("a", params=params))


CASES: dict[str, Callable[[int], Callable[[], object]]] = {
    "loops and retries": _loops,
    "cases, defaults and finally": _cases,
    "a switch of too many cases": _one_switch,
    "places known only to a run": _unknown_places,
    "a parameter with many faults": _values,
    "expressions": _expressions(
        'steps["{before}"].phase == "Completed"', "steps.s0.outputs.x > {i}", "params.p1.size() > 1"
    ),
    "expressions without a truth value": _expressions("params.p1", "steps.{before}.phase"),
    "expressions that read all params": _expressions("size(params) > {i}"),
    "expressions with unknown names": _expressions(
        "params.q{i} > steps.t{i}.phase", "steps.{before}.ouputs{i}", "foo{i} == 1", "fun{i}(1)"
    ),
    "references": _references,
    "params": _params,
    "probes": _probes(invalid=False),
    "probes of unknown tasks": _probes(invalid=True),
    "a probe of too many entries": _entries,
    "tasks that wait for unknown tasks": _task_targets,
    "a task that waits for all the others": _one_task_after_all,
    "steps of many tasks": _steps_with_a_common_prefix,
    "invalid tasks in a patch": lambda n: _patched(
        {"tasks": [{"name": f"t{i}", "replicas": -1} for i in range(n)]}
    ),
    "invalid tasks of one name": lambda n: _patched({"tasks": [{"name": "t", "maxRetry": -1}] * n}),
    "numbers as tasks in a patch": lambda n: _patched({"tasks": [3] * n}),
    "invalid plugins in a patch": lambda n: _patched({"plugins": {f"p{i}": 1 for i in range(n)}}),
    "invalid policies in a patch": lambda n: _patched({"policies": [{"event": "x"}] * n}),
}


@pytest.mark.sampled(12)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_four_times_the_input_takes_at_most_six_times_the_work(case) -> None:
    assert lines_run(case(800)) < 6 * lines_run(case(200))
