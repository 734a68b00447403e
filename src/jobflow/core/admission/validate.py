"""Admission of flows, templates and CronJobFlows, for the webhook, lint and the controller.

A verdict has all faults, at most MAX_FINDINGS. No function raises on an object that decodes.
"""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain, islice

import msgspec

from jobflow.api.flow.cronjobflow import CronJobFlow
from jobflow.api.flow.jobflow import STEP_LISTS, JobFlow, JobTemplate
from jobflow.api.flow.traits import fields_of
from jobflow.core.admission import changes
from jobflow.core.admission.analysis.flow_facts import FlowFacts
from jobflow.core.admission.analysis.flow_facts import Known as Known
from jobflow.core.admission.analysis.tree_budget import CHARACTER, TooMuchEffort, TreeBudget
from jobflow.core.admission.applied_nulls import nulls_are_kept
from jobflow.core.admission.crons import CRON_RULES, TEMPLATE, deadline_is_long_enough
from jobflow.core.admission.object_names import object_name_violations
from jobflow.core.admission.rule import Rules, findings
from jobflow.core.admission.rules import (
    child_flows,
    control,
    expressions,
    fields,
    names_and_targets,
    params,
    probes,
    size_limits,
)
from jobflow.core.admission.rules.jobs import generated_names, patches, volume_claims, work
from jobflow.core.admission.volcano.job import job_violations
from jobflow.core.admission.warnings import (
    FLOW_FIELD_WARNINGS,
    FLOW_WARNINGS,
    queue_warnings,
    template_warnings,
)
from jobflow.core.cron import sample_flow
from jobflow.core.manifests.job_fields import misfits
from jobflow.core.spec.graph import Outline
from jobflow.core.violations import MAX_FINDINGS, FieldWarning, Verdict, Violation

PASS = Verdict()

LIMITS: Rules = (*size_limits.LIMITS, *child_flows.LIMITS)
"""Rules of counts. The other rules, whose work they bound, do not judge what breaks one."""
PLAIN_RULES: Rules = (*names_and_targets.PLAIN_RULES, *generated_names.RULES)
"""Rules that a plain flow can break. Only these judge one, because to ask the groups of all others
takes as long as the rest of a small review."""
CREATE_RULES: Rules = (
    *PLAIN_RULES,
    *names_and_targets.RULES,
    *params.RULES,
    *expressions.RULES,
    *control.RULES,
    *child_flows.RULES,
    *probes.RULES,
    *volume_claims.RULES,
    *work.RULES,
    *fields.RULES,
    *patches.RULES,
)


def validate_flow(flow: JobFlow, known: Known) -> Verdict:
    """Validate a new flow, in time linear in steps and targets. Violations are in field order."""
    return verdict_of_flow(flow, validate_facts(FlowFacts(flow, known)))


def verdict_of_flow(flow: JobFlow, of_facts: Verdict) -> Verdict:
    """Return the verdict on a new flow with that on its facts: also on what its file had."""
    if not (removed := tuple(nulls_are_kept(flow))):
        return of_facts
    violations = sorted((*of_facts.violations, *removed), key=_position)
    return replace(of_facts, violations=tuple(violations[:MAX_FINDINGS]))


def validate_facts(facts: FlowFacts) -> Verdict:
    """Validate a new flow by its facts. Raises TooMuchEffort."""
    _spend_on_reading(facts)
    if beyond := _beyond_limits(facts):
        return Verdict(tuple(beyond))
    # child flows are judged last, so that the outermost faults come before MAX_FINDINGS
    violations = findings(PLAIN_RULES if facts.is_plain else CREATE_RULES, facts)
    warnings = findings(FLOW_WARNINGS, facts)
    field_warnings: list[FieldWarning] = []
    if not facts.is_plain:
        field_warnings = findings(FLOW_FIELD_WARNINGS, facts)
        for child in facts.children:
            of_child = PASS if child.facts is None else validate_facts(child.facts)
            violations += child.own(of_child.violations)
            warnings += of_child.warnings
            field_warnings += child.own(of_child.field_warnings)
        # each child has its own maximum
        del violations[MAX_FINDINGS:], field_warnings[MAX_FINDINGS:]
        # child flows that name the same missing template repeat its warning
        warnings = list(dict.fromkeys(warnings))
        if facts.level == 1 and (unjudged := facts.budget.warning):
            warnings.append(unjudged)
    # rules run by subject, and users read a manifest from its top
    if len(violations) > 1:
        violations.sort(key=_position)
    if not (violations or warnings or field_warnings):
        return PASS
    return Verdict(tuple(violations), tuple(warnings), tuple(field_warnings))


def find_violations(
    flow: JobFlow, outline: Outline | None = None, most: float = math.inf
) -> Sequence[Violation] | None:
    """Return the violations of a flow, whatever objects the cluster has, or None if they take more
    effort than `most`. `outline`: that of `spec.flows`, if it is known."""
    facts = FlowFacts(flow, Known(), outline=outline, budget=TreeBudget(most))
    try:
        if facts.steps_with_flows:
            return validate_facts(facts).violations
        _spend_on_reading(facts)
        found = _beyond_limits(facts) or findings(CREATE_RULES, facts)
    except TooMuchEffort:
        return None
    return sorted(found, key=_position)


def _spend_on_reading(facts: FlowFacts) -> None:
    """Spend the effort of what a plain flow does not have, before any rule reads it."""
    if facts.is_plain:
        return
    budget, spec = facts.budget, facts.flow.spec
    if facts.level == 1:  # child flows are values of their steps
        rest = msgspec.structs.replace(spec, **dict.fromkeys(STEP_LISTS))
        written = [rest, *(step for _, step in facts.with_options[1:])]
        budget.spend_on_values(written, spec.params or ())
    budget.spend(CHARACTER * sum(len(each.text) + 10 for each in facts.written_expressions))


def _beyond_limits(facts: FlowFacts) -> list[Violation]:
    # the other rules would recurse into values that are nested too deep
    return [*size_limits.flow_is_not_too_deep(facts)] or findings(LIMITS, facts)


def validate_flow_update(old: JobFlow, new: JobFlow) -> Verdict:
    """Validate an update of a flow, whose spec is immutable, even if the flow is invalid."""
    return _verdict(changes.spec_stays(old, new))


def validate_flow_delete(flow: JobFlow, reused_by: Sequence[str] = ()) -> Verdict:
    """Validate the deletion of a flow: refused while it runs, or while flows that have not ended
    name it in `spec.reuse`, unless the user forces it."""
    return _verdict(
        chain(changes.flow_has_ended(flow), changes.flow_is_not_reused(flow, reused_by))
    )


def validate_cron(cron: CronJobFlow, known: Known) -> Verdict:
    """Validate a new spec of a CronJobFlow, and its flows by the rules of flows."""
    facts = facts_of_cron(cron, known)
    return verdict_of_cron(cron, validate_facts(facts) if facts is not None else PASS)


def facts_of_cron(cron: CronJobFlow, known: Known, most: float = math.inf) -> FlowFacts | None:
    """Return the facts of a flow of a CronJobFlow, or None if it says nothing about its flows."""
    template = cron.spec.job_flow_template
    if template is None or template.spec is None:
        return None
    return FlowFacts(sample_flow(cron), known, budget=TreeBudget(most))


def verdict_of_cron(cron: CronJobFlow, of_flow: Verdict) -> Verdict:
    """Return the verdict on a CronJobFlow, with that on one of its flows at the paths in it."""
    # a fault of a schedule is read before those of a flow
    own = chain(
        object_name_violations(cron.metadata),
        chain.from_iterable(rule(cron) for rule in CRON_RULES),
        nulls_are_kept(cron),
    )
    flow = (
        replace(each, path=f"{TEMPLATE}.{each.path}")
        for each in of_flow.violations
        if not each.path.startswith("metadata")  # the name of a flow follows from the cron's
    )
    warnings = (replace(each, path=f"{TEMPLATE}.{each.path}") for each in of_flow.field_warnings)
    return Verdict(
        tuple(islice(chain(own, flow), MAX_FINDINGS)),
        of_flow.warnings,
        tuple(islice(chain(deadline_is_long_enough(cron), warnings), MAX_FINDINGS)),
    )


def validate_cron_delete(cron: CronJobFlow) -> Verdict:
    """Validate the deletion of a CronJobFlow: refused while one of its flows runs."""
    return _verdict(changes.cron_is_idle(cron))


def validate_template(template: JobTemplate, known: Known) -> Verdict:
    """Validate a new spec of a template by Volcano's own rules for a vcjob."""
    of_types = misfits(template.spec, "spec")
    violations = chain(
        object_name_violations(template.metadata),
        job_violations(template.spec, "spec"),
        of_types.violations,
    )
    field_warnings = chain(of_types.field_warnings, template_warnings(template.spec))
    warnings = [] if known.queues is None else queue_warnings([template.spec], known.queues)
    return Verdict(
        tuple(islice(violations, MAX_FINDINGS)),
        tuple(warnings),
        tuple(islice(field_warnings, MAX_FINDINGS)),
    )


def validate_template_delete(template: JobTemplate, needed_by: Sequence[changes.Need]) -> Verdict:
    """Validate the deletion of a template: refused while a flow needs it (`need_of`)."""
    return _verdict(changes.template_is_not_needed(template, needed_by))


def _verdict(violations: Iterator[Violation]) -> Verdict:
    return Verdict(tuple(islice(violations, MAX_FINDINGS)))


_PARTS = re.compile(r"(\w+)|\[(\d+)\]")
_MAX_PARTS = 12


def _position(violation: Violation) -> tuple[int, ...]:
    """Return the position of a violation in a flow. A free-form field is one position."""
    position = []
    struct: type[msgspec.Struct] | None = JobFlow
    for found in islice(_PARTS.finditer(violation.path), _MAX_PARTS):
        if found[2] is not None:
            # an index of more digits is no index of a stored object
            position.append(int(found[2][:9]))
        elif struct is not None and found[1] in (places := _places(struct)):
            index, struct = places[found[1]]
            position.append(index)
        else:
            break
    return tuple(position)


@cache
def _places(struct: type[msgspec.Struct]) -> dict[str, tuple[int, type[msgspec.Struct] | None]]:
    """Return the place of each field among those of its type, with the type of its own fields."""
    return {field.json: (at, field.struct) for at, field in enumerate(fields_of(struct))}
