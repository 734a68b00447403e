"""Admission: what is wrong with a flow or a template, all at once. Pure; the same for webhook,
lint and controller.

A policy is a list of rules, a rule a generator of violations (`…_rules`). Here are only the
policies, one a kind and operation. None of these functions raises on anything that decodes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain, islice

from jobflow.api.jobflow import JobFlow
from jobflow.api.jobtemplate import JobTemplate
from jobflow.core.admission.analysis.flow_facts import FlowFacts, Known
from jobflow.core.admission.changes import Need, flow_has_ended, spec_stays, template_is_not_needed
from jobflow.core.admission.object_names import object_name_violations
from jobflow.core.admission.rule import findings
from jobflow.core.admission.rules.control import CONTROL_RULES
from jobflow.core.admission.rules.depth import flow_is_not_too_deep
from jobflow.core.admission.rules.expressions import EXPRESSION_RULES, REASON_RULES
from jobflow.core.admission.rules.generated_names import CLASH_RULES, GENERATED_RULES
from jobflow.core.admission.rules.job_defaults import DEFAULT_RULES
from jobflow.core.admission.rules.params import PARAM_RULES
from jobflow.core.admission.rules.patches import PATCH_RULES
from jobflow.core.admission.rules.probes import PROBE_RULES
from jobflow.core.admission.rules.status_size import STATUS_RULES
from jobflow.core.admission.rules.steps import FLOW_RULES
from jobflow.core.admission.volcano.job import job_violations
from jobflow.core.admission.warnings import (
    FLOW_DOUBTS,
    FLOW_SUSPICIONS,
    queue_warnings,
    template_doubts,
)
from jobflow.core.json_values import is_same_json
from jobflow.core.manifests.unknown_fields import misfits
from jobflow.core.violations import MAX_FINDINGS, Verdict, Violation

__all__ = [
    "Known",
    "validate_flow",
    "validate_flow_delete",
    "validate_flow_update",
    "validate_facts",
    "validate_template",
    "validate_template_delete",
    "validate_template_update",
]

PASS = Verdict()

CREATE_RULES = (
    *FLOW_RULES,
    *PARAM_RULES,
    *EXPRESSION_RULES,
    *REASON_RULES,
    *CONTROL_RULES,
    *PROBE_RULES,
    *DEFAULT_RULES,
    *GENERATED_RULES,
    *CLASH_RULES,
    *STATUS_RULES,
    *PATCH_RULES,
)


def validate_flow(flow: JobFlow, known: Known) -> Verdict:
    """JobFlow CREATE, lint, and the controller's own look at a flow that nobody admitted.

    Linear in steps and targets. Violations are in the order of the object, MAX_FINDINGS at most.
    """
    return validate_facts(FlowFacts(flow, known))


def validate_facts(facts: FlowFacts) -> Verdict:
    """`validate_flow` for a flow whose facts there is already."""
    if facts.steps_with_options or facts.flow.spec.params:
        if too_deep := tuple(flow_is_not_too_deep(facts)):
            return Verdict(too_deep)
    violations = findings(CREATE_RULES, facts)
    warnings = findings(FLOW_SUSPICIONS, facts)
    doubts = findings(FLOW_DOUBTS, facts)
    if len(violations) > 1:
        violations.sort(key=_position)
    if not (violations or warnings or doubts):
        return PASS
    return Verdict(tuple(violations), tuple(warnings), tuple(doubts))


def validate_flow_update(old: JobFlow, new: JobFlow) -> Verdict:
    """JobFlow UPDATE: the spec stays. What was invalid before may still be labelled."""
    return _verdict(spec_stays(old, new))


def validate_flow_delete(flow: JobFlow, *, namespace_terminating: bool) -> Verdict:
    """JobFlow DELETE: not while it runs, unless somebody says so."""
    return _verdict(flow_has_ended(flow, namespace_terminating=namespace_terminating))


def validate_template(template: JobTemplate, known: Known) -> Verdict:
    """JobTemplate CREATE and lint: Volcano's own rules for a vcjob."""
    found = misfits(template.spec, "spec")
    violations = chain(
        object_name_violations(template.metadata),
        job_violations(template.spec, "spec", None),
        found.violations,
    )
    doubts = chain(found.doubts, template_doubts(template.spec, "spec"))
    warnings = [] if known.queues is None else queue_warnings([template.spec], known.queues)
    return Verdict(
        tuple(islice(violations, MAX_FINDINGS)),
        tuple(warnings),
        tuple(islice(doubts, MAX_FINDINGS)),
    )


def validate_template_update(old: JobTemplate, new: JobTemplate, known: Known) -> Verdict:
    """JobTemplate UPDATE: as CREATE, where the spec changed; vcjobs that exist stay as they are."""
    return PASS if is_same_json(old.spec, new.spec) else validate_template(new, known)


def validate_template_delete(
    template: JobTemplate, needed_by: Sequence[Need], *, namespace_terminating: bool
) -> Verdict:
    """JobTemplate DELETE: not while a flow still has a step to start from it.

    `needed_by`: each flow of the template's namespace that still needs it (`need_of`).
    """
    return _verdict(
        template_is_not_needed(template, needed_by, namespace_terminating=namespace_terminating)
    )


def _verdict(violations: Iterator[Violation]) -> Verdict:
    return Verdict(tuple(islice(violations, MAX_FINDINGS)))


_PARTS = re.compile(r"(\w+)|\[(\d+)\]")
_MOST_PARTS = 12
_FIELDS = {
    field: rank
    for rank, field in enumerate(
        ["metadata", "spec", "flows", "name", "template", "dependsOn", "targets", "strategy"]
        + ["condition", "probe", "httpGetList", "tcpSocketList", "taskStatusList", "taskName"]
        + ["path", "port", "httpHeader", "phase", "patch", "jobSpec", "when", "switch", "forEach"]
        + ["items", "from", "count", "repeat", "until", "max", "retry", "limit", "backoff"]
        + ["duration", "factor", "jobRetainPolicy", "params", "value", "enum", "jobDefaults"]
        + ["queue", "priorityClassName", "schedulerName", "plugins", "labels", "annotations"]
        + ["parallelism", "timeout", "daemon", "continueOnFailure", "failurePolicy", "finally"]
        + ["ttlSecondsAfterFinished", "suspend"]
    )
}


def _position(violation: Violation) -> tuple[int, ...]:
    """Where a violation stands in a flow; what is below a field that is not ours, as in a patch,
    counts as equal."""
    places = []
    for found in islice(_PARTS.finditer(violation.path), _MOST_PARTS):
        if found[2] is None and found[1] not in _FIELDS:
            break
        places.append(_FIELDS[found[1]] if found[2] is None else int(found[2][:9]))
    return tuple(places)
