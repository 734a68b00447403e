"""Builders of flows and templates, and the faults that admission finds, as text."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from jobflow.api.flow.jobflow import JobFlow, JobTemplate
from jobflow.core.admission.analysis.flow_facts import FlowFacts
from jobflow.core.admission.rule import RuleGroup
from jobflow.core.admission.validate import LIMITS, PLAIN_RULES, Known, validate_flow
from jobflow.core.admission.volcano.job import job_violations
from jobflow.core.admission.warnings import FLOW_WARNINGS
from jobflow.core.violations import Verdict

NOTHING_KNOWN = Known()


def flow_of(*steps: Mapping[str, Any] | str, name: str = "f", **spec: Any) -> JobFlow:
    """Return a flow of steps: manifests, or `b: a c` for a step b with targets a and c."""
    flows = [_step(step) if isinstance(step, str) else dict(step) for step in steps]
    return msgspec.convert(
        {"metadata": {"name": name, "namespace": "team"}, "spec": {"flows": flows} | spec}, JobFlow
    )


def _step(text: str) -> dict[str, Any]:
    name, colon, targets = text.partition(":")
    return {"name": name} | ({"dependsOn": {"targets": targets.split()}} if colon else {})


def probing(targets: str = "train", *, strategy: str | None = None, **probe: Any) -> JobFlow:
    """Return a flow with a step `evaluate` that has these targets and this probe."""
    names = list(dict.fromkeys(targets.split()))
    depends_on: dict[str, Any] = {"targets": targets.split(), "probe": probe}
    if strategy is not None:
        depends_on["strategy"] = strategy
    return flow_of(*names[:1], {"name": "evaluate", "dependsOn": depends_on}, *names[1:])


def template_of(name: str, *tasks: str, replicas: int = 1, **spec: Any) -> JobTemplate:
    """Return a template with these tasks, by default `main`."""
    container = {"name": "main", "image": "busybox:1.36"}
    pod = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    spec = {
        "tasks": [
            {"name": task, "replicas": replicas, "template": pod} for task in tasks or ("main",)
        ]
    } | spec
    return msgspec.convert({"metadata": {"name": name}, "spec": spec}, JobTemplate)


def knowing(*templates: JobTemplate, queues: Mapping[str, str] | None = None) -> Known:
    """Return a cluster with these templates and queues."""
    return Known(templates={t.metadata.name: t for t in templates}, queues=queues)


def passed_by(groups: Iterable[RuleGroup[Any]], facts: FlowFacts) -> list[Any]:
    """Return the findings of rules that do not apply to the flow, which should be none."""
    of_plain = (*LIMITS, *PLAIN_RULES, *FLOW_WARNINGS)
    return [
        found
        for group in groups
        if not group.about(facts) or (facts.is_plain and group not in of_plain)
        for rule in group.rules
        for found in rule(facts)
    ]


def reported(verdict: Verdict) -> list[str]:
    """Return the violations as text."""
    return [str(violation) for violation in verdict.violations]


def faults(flow: JobFlow, known: Known = NOTHING_KNOWN) -> list[str]:
    """Return the faults of a new flow."""
    return reported(validate_flow(flow, known))


def job_faults(spec: Any) -> list[str]:
    """Return the faults of a vcjob spec."""
    return [str(violation) for violation in job_violations(spec, "spec")]


_FAULT = re.compile(
    r'(?P<path>\S*): (?P<kind>\w+)(?: \w+)?:.*?(?P<hint>; (?:did you mean .*|"[^"]*" would do))?'
)


def brief(found: Iterable[str]) -> list[str]:
    """Return faults without their sentences, which examples/refused has: `spec.timeout Invalid`
    and the suggestion if there is one."""
    matches = [_FAULT.fullmatch(line, endpos=len(line)) for line in found]
    return [f"{it['path']} {it['kind']}{it['hint'] or ''}" for it in matches if it is not None]


_PARAMS: list[dict[str, Any]] = [
    {"name": "workers", "value": 4},
    {"name": "mode", "value": "fast"},
    {"name": "on", "value": True},
    {"name": "rates", "value": [0.1, 0.2]},
    {"name": "many", "value": [0] * 1001},
    {"name": "map", "value": {"x": {"y": 1}}},
]
AFTER_A: dict[str, Any] = {"name": "b", "dependsOn": {"targets": ["a"]}}


def faults_of_step(**step: Any) -> list[str]:
    """Return the faults of step b, which depends on a; c depends on b, d on nothing, z is last."""
    last: dict[str, Any] = {"finally": [{"name": "z"}]}
    others: list[Any] = ["a", "c: b", "d", "a-b", "e.f", "2a"]
    flow = flow_of(
        others[0],
        AFTER_A | step,
        *others[1:],
        {"name": "all", "forEach": {"count": 2}},
        params=_PARAMS,
        **last,
    )
    return [fault.removeprefix("spec.flows[1].") for fault in faults(flow)]
