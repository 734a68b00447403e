"""Admission of flows and templates, for the webhook, lint and the controller.

A verdict has all faults, at most MAX_FINDINGS. No function raises on an object that decodes.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain, islice
from typing import TypeAlias

import msgspec.inspect

from jobflow.api.jobflow import JobFlow
from jobflow.api.jobtemplate import JobTemplate
from jobflow.core.admission.analysis.flow_facts import FlowFacts
from jobflow.core.admission.analysis.flow_facts import Known as Known
from jobflow.core.admission.changes import Need, flow_has_ended, spec_stays, template_is_not_needed
from jobflow.core.admission.object_names import object_name_violations
from jobflow.core.admission.rule import findings
from jobflow.core.admission.rules.control import CONTROL_RULES
from jobflow.core.admission.rules.expressions import EXPRESSION_RULES, REASON_RULES
from jobflow.core.admission.rules.generated_names import GENERATED_NAME_RULES
from jobflow.core.admission.rules.job_defaults import JOB_DEFAULTS_RULES
from jobflow.core.admission.rules.params import PARAM_RULES
from jobflow.core.admission.rules.patches import PATCH_RULES
from jobflow.core.admission.rules.probes import PROBE_RULES
from jobflow.core.admission.rules.size_limits import STATUS_SIZE_RULES, flow_is_not_too_deep
from jobflow.core.admission.rules.steps import STEP_RULES
from jobflow.core.admission.rules.timeouts_and_retries import TIMEOUT_AND_RETRY_RULES
from jobflow.core.admission.volcano.job import job_violations
from jobflow.core.admission.warnings import (
    FLOW_FIELD_WARNINGS,
    FLOW_WARNINGS,
    queue_warnings,
    template_warnings,
)
from jobflow.core.manifests.unknown_fields import misfits
from jobflow.core.violations import MAX_FINDINGS, Verdict, Violation

PASS = Verdict()

CREATE_RULES = (
    *STEP_RULES,
    *PARAM_RULES,
    *EXPRESSION_RULES,
    *REASON_RULES,
    *CONTROL_RULES,
    *TIMEOUT_AND_RETRY_RULES,
    *PROBE_RULES,
    *JOB_DEFAULTS_RULES,
    *GENERATED_NAME_RULES,
    *STATUS_SIZE_RULES,
    *PATCH_RULES,
)


def validate_flow(flow: JobFlow, known: Known) -> Verdict:
    """Validate a new flow, in time linear in steps and targets. Violations are in field order."""
    return validate_facts(FlowFacts(flow, known))


def validate_facts(facts: FlowFacts) -> Verdict:
    """Validate a new flow by its facts."""
    if facts.steps_with_options or facts.flow.spec.params:
        if too_deep := tuple(flow_is_not_too_deep(facts)):
            return Verdict(too_deep)  # the other rules never meet a deeper value
    violations = findings(CREATE_RULES, facts)
    warnings = findings(FLOW_WARNINGS, facts)
    field_warnings = findings(FLOW_FIELD_WARNINGS, facts)
    if len(violations) > 1:
        violations.sort(key=_position)
    if not (violations or warnings or field_warnings):
        return PASS
    return Verdict(tuple(violations), tuple(warnings), tuple(field_warnings))


def validate_flow_update(old: JobFlow, new: JobFlow) -> Verdict:
    """Validate an update of a flow, whose spec is immutable, even if the flow is invalid."""
    return _verdict(spec_stays(old, new))


def validate_flow_delete(flow: JobFlow, *, namespace_terminating: bool) -> Verdict:
    """Validate the deletion of a flow: refused while it runs, unless the user forces it."""
    return _verdict(flow_has_ended(flow, namespace_terminating=namespace_terminating))


def validate_template(template: JobTemplate, known: Known) -> Verdict:
    """Validate a new spec of a template by Volcano's own rules for a vcjob."""
    of_types = misfits(template.spec, "spec")
    violations = chain(
        object_name_violations(template.metadata),
        job_violations(template.spec, "spec", None),
        of_types.violations,
    )
    field_warnings = chain(of_types.field_warnings, template_warnings(template.spec, "spec"))
    warnings = [] if known.queues is None else queue_warnings([template.spec], known.queues)
    return Verdict(
        tuple(islice(violations, MAX_FINDINGS)),
        tuple(warnings),
        tuple(islice(field_warnings, MAX_FINDINGS)),
    )


def validate_template_delete(
    template: JobTemplate, needed_by: Sequence[Need], *, namespace_terminating: bool
) -> Verdict:
    """Validate the deletion of a template: refused while a flow may still create a job from it
    (`need_of`)."""
    return _verdict(
        template_is_not_needed(template, needed_by, namespace_terminating=namespace_terminating)
    )


def _verdict(violations: Iterator[Violation]) -> Verdict:
    return Verdict(tuple(islice(violations, MAX_FINDINGS)))


_PARTS = re.compile(r"(\w+)|\[(\d+)\]")
_MAX_PARTS = 12
_Fields: TypeAlias = "dict[str, tuple[int, _Fields]]"
"""Field -> its index among the fields of its struct, and the fields below it."""


def _position(violation: Violation) -> tuple[int, ...]:
    """Return the position of a violation in a flow. A free-form field is one position."""
    position = []
    fields = _fields()
    for found in islice(_PARTS.finditer(violation.path), _MAX_PARTS):
        if found[2] is not None:
            position.append(int(found[2][:9]))
        elif found[1] in fields:
            index, fields = fields[found[1]]
            position.append(index)
        else:
            break
    return tuple(position)


@cache
def _fields() -> _Fields:
    return _fields_of(msgspec.inspect.type_info(JobFlow))


def _fields_of(kind: msgspec.inspect.Type) -> _Fields:
    match kind:
        case msgspec.inspect.Metadata(type=inner) | msgspec.inspect.ListType(item_type=inner):
            return _fields_of(inner)
        case msgspec.inspect.UnionType(types=types):
            return next(filter(None, map(_fields_of, types)), {})
        case msgspec.inspect.StructType(fields=fields):
            return {
                field.encode_name: (index, _fields_of(field.type))
                for index, field in enumerate(fields)
            }
    return {}
