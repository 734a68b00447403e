"""Warnings: suspicious parts of a flow or template that admission accepts.

A field warning has a path, and `jobflow lint` makes a fault of it if it has a reason.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import msgspec

from jobflow.api.flow.jobflow import templates_of
from jobflow.core.admission import rule
from jobflow.core.admission.analysis.flow_facts import FlowFacts
from jobflow.core.admission.analysis.jobs.layer_locations import as_written, innermost, locations_of
from jobflow.core.admission.analysis.jobs.resolved_specs import is_open
from jobflow.core.admission.mistaken_references import MAX_MISTAKEN, references_are_spelled_right
from jobflow.core.admission.rules.names_and_targets import awaited_ends
from jobflow.core.admission.value_warnings import VALUE_WARNINGS, steps_behind_optional_ones_run
from jobflow.core.admission.volcano.job_view import job_view
from jobflow.core.cel.references import find_references, walk_texts
from jobflow.core.manifests.volume_claims import mounted_claims, unprovided_volumes
from jobflow.core.names import HOSTNAME_PLUGINS, claim_names
from jobflow.core.spec.compiled import find_left_out
from jobflow.core.spec.concurrency import GroupName, get_limits
from jobflow.core.suggest import Suggester, did_you_mean
from jobflow.core.text import join_names
from jobflow.core.violations import MAX_FINDINGS, FieldWarning, Reason, quote

_TAKES_JOBS = frozenset({"", "Open"})
"""States of a queue; a new one has no state until Volcano opens it."""


def templates_exist(facts: FlowFacts) -> Iterator[str]:
    # a template may be created later: the step waits for it
    templates = facts.known.templates
    if templates is None:
        return
    left_out = find_left_out(facts.graph, len(facts.flows), facts.flow.spec.targets)
    not_needed = {name for i in left_out for name in templates_of(facts.steps[i])}
    # a template that a needed step runs too is needed
    not_needed -= {
        name
        for i, step in (enumerate(facts.steps) if left_out else ())
        if i not in left_out
        for name in templates_of(step)
    }
    missing = [
        f'"{name}"'
        for name in facts.templates
        if name and name not in templates and name not in not_needed
    ]
    if len(missing) == 1:
        yield f"JobTemplate {missing[0]} does not exist yet: its steps wait until it does"
    elif missing:
        yield f"JobTemplates {join_names(missing)} do not exist yet: their steps wait until they do"


def queues_take_jobs(facts: FlowFacts) -> Iterator[str]:
    """Checks the queues that templates, patches and jobDefaults name."""
    if (queues := facts.known.queues) is not None:
        specs: list[Mapping[str, Any]] = [resolved.spec for resolved in facts.resolved_specs]
        specs += [layer.content for layer in facts.resolved_layers]
        if (defaults := facts.flow.spec.job_defaults) is not None and not facts.resolved_specs:
            specs.append({"queue": defaults.queue})
        yield from queue_warnings(specs, queues)


def dependencies_have_targets(facts: FlowFacts) -> Iterator[str]:
    # a condition without targets has no effect
    without = [
        f'"{facts.names[i]}"'
        for i, depends_on in facts.dependencies_with_options
        if (depends_on.condition or depends_on.strategy) and not depends_on.targets
    ]
    if without:
        yield (
            f"{_named(without, 'step has', 'steps have')} a condition or strategy in dependsOn but "
            "no targets: the start waits for nothing"
        )


def probes_leave_conditions_alone(facts: FlowFacts) -> Iterator[str]:
    # a probe replaces the condition
    both = [
        f'"{facts.names[i]}"'
        for i, _ in facts.probes
        if (depends_on := facts.steps[i].depends_on) is not None and depends_on.condition
    ]
    if both:
        yield (
            f"{_named(both, 'step has', 'steps have')} a probe, which decides alone: the condition "
            "beside it has no effect"
        )


def references_stand_in_patches(facts: FlowFacts) -> Iterator[str]:
    # in any other place, a reference is plain text
    spec = facts.flow.spec
    values: list[Any] = []
    if facts.level == 1:  # the params of a child flow are patches of its parent
        values += [param.value for param in spec.params or ()]
    steps = (step for _, step in facts.steps_with_options)
    values += [step.for_each.items for step in steps if step.for_each is not None]
    if spec.job_defaults is not None:
        values.append(msgspec.to_builtins(spec.job_defaults))
    found = dict.fromkeys(
        quote(f"$({reference.path})")
        for value in values
        for _, reference in find_references(value, "")
    )
    if found:
        unchanged = "are left as they are" if len(found) > 1 else "is left as it is"
        yield (
            f"{join_names(found)} in params, forEach.items and jobDefaults {unchanged}, because "
            "references have no meaning there"
        )


def daemons_have_other_steps(facts: FlowFacts) -> Iterator[str]:
    # a daemon is aborted when all other steps have finished
    if facts.flows and all(step.daemon for step in facts.flows):
        yield (
            "every step is a daemon, and daemons are aborted when all other steps have finished: "
            "this flow has no other step"
        )


def groups_have_one_limit(facts: FlowFacts) -> Iterator[str]:
    # each flow keeps its own, so that a change of the limit needs no change of flows that run
    limits: dict[GroupName, set[int]] = {}
    for group, limit in get_limits(facts.flow):
        limits.setdefault(group, {*facts.known.limits(group)}).add(limit)
    for (is_of_steps, name), found in limits.items():
        if len(found) > 1:
            numbers = join_names(f"{each:,}" for each in sorted(found))
            yield (
                f"the concurrency group {quote(name)} of {'steps' if is_of_steps else 'flows'} has "
                f"different limits ({numbers}) in this flow and the flows of its namespace: each "
                "keeps its own"
            )


FLOW_WARNINGS: tuple[rule.RuleGroup[rule.WarningRule], ...] = (
    rule.RuleGroup(rule.every_flow, (templates_exist, queues_take_jobs)),
    rule.RuleGroup(lambda facts: facts.dependencies_with_options, (dependencies_have_targets,)),
    rule.RuleGroup(lambda facts: facts.probes, (probes_leave_conditions_alone,)),
    rule.RuleGroup(
        rule.flow_with_options,
        (references_stand_in_patches, daemons_have_other_steps, groups_have_one_limit),
    ),
)


def queue_warnings(specs: Iterable[Mapping[str, Any]], queues: Mapping[str, str]) -> Iterator[str]:
    named = dict.fromkeys(
        queue
        for spec in specs
        if isinstance(queue := spec.get("queue"), str) and queue and not is_open(queue)
    )
    missing = [f'"{queue}"' for queue in named if queue not in queues]
    closed = [
        f'"{queue}" ({queues[queue]})'
        for queue in named
        if queue in queues and queues[queue] not in _TAKES_JOBS
    ]
    if missing:
        yield (
            f"{_named(missing, 'queue does', 'queues do')} not exist: Volcano refuses jobs for a "
            "queue that does not exist"
        )
    if closed:
        yield (
            f"{_named(closed, 'queue is', 'queues are')} not Open: Volcano refuses jobs for a "
            "queue that is not Open"
        )


def _named(names: list[str], one: str, many: str) -> str:
    """Return `step "a" has`, or `steps "a", "b" have`."""
    noun, verb = (many if len(names) > 1 else one).split()
    return f"{noun} {join_names(names)} {verb}"


_ADDRESS = re.compile(
    r"\$\(steps\.(?P<step>[^()$\s]+)\.job\)-[-a-z0-9]+\.\$\(steps\.(?P=step)\.job\)"
    r"|(?<=://)\$\(steps\.(?P<host>[^()$\s]+)\.job\)(?![-\w])"
)
"""The name of a pod in DNS, `<job>-<task>-<index>.<job>`, and that of a job in a URL."""

MAX_GUESSES = 100
"""Guesses of task and container names for all patches of a flow."""


def fields_of_layers_exist(facts: FlowFacts) -> Iterator[FieldWarning]:
    # Volcano drops a field that it does not know
    for layer, found in facts.misfits:
        for warning in found.field_warnings:
            yield as_written(warning, layer)


def patched_elements_exist(facts: FlowFacts) -> Iterator[FieldWarning]:
    # a task or container with a name that the template does not have is added to the job
    seen: set[str] = set()
    for resolved, patch, (path, word, name, known) in facts.unknown_elements:
        if path in seen or name is None:
            continue
        seen.add(path)
        guess = Suggester(known).nearest(name) if len(seen) <= MAX_GUESSES else None
        detail = (
            f"{resolved.title} has no {word} {quote(name)}, so the patch adds one"
            f"{did_you_mean(guess)}"
        )
        reason = Reason.NOT_FOUND if guess else None
        warning = FieldWarning(f"{path}.name", detail, reason, name)
        yield as_written(warning, patch)


def jobs_have_pods(facts: FlowFacts) -> Iterator[FieldWarning]:
    # the job of a step without a template is checked like a JobTemplate
    for resolved in facts.resolved_specs:
        if resolved.work is not None:
            layers = locations_of(resolved)
            for warning in islice(_pod_warnings(resolved.spec, ""), MAX_FINDINGS):
                yield innermost(layers, warning)


def addresses_have_names(facts: FlowFacts) -> Iterator[FieldWarning]:
    # without Volcano's plugin svc, the pods of a job have no names in DNS
    for layer in facts.references:
        for at, text in walk_texts(layer.written, layer.path) if layer.open else ():
            for found in _ADDRESS.finditer(text) if ".job)" in text else ():
                name = found["step"] or found["host"]
                step = facts.index.get(name)
                own = [each.resolved for each in facts.resolved_steps if each.step == step]
                plugins = [each.spec.get("plugins") or {} for each in own]
                if not own or any(not HOSTNAME_PLUGINS.isdisjoint(each) for each in plugins):
                    continue
                detail = (
                    f"{quote(found.group())} has no entry in DNS, because the job of step "
                    f"{name} has no plugin svc; add plugins: {{svc: []}} to its jobSpec "
                    "or patch.jobSpec, or to spec.jobDefaults"
                )
                yield FieldWarning(layer.written_path(at), detail)


def ends_of_daemons_are_meant(facts: FlowFacts) -> Iterator[FieldWarning]:
    # without a condition, a step waits until its daemon runs
    for each in awaited_ends(facts):
        detail = (
            f"the step waits until the daemon {each.name} has ended, which it does when no step "
            "needs it to run any more; leave the condition out to start when the daemon runs"
        )
        yield FieldWarning(each.path, detail)


def fields_of_child_flows_and_claims_exist(facts: FlowFacts) -> Iterator[FieldWarning]:
    # the API server drops a field that it does not know
    misfits = [child.misfits for child in facts.children]
    for found in (*misfits, *(claim.misfits for claim in facts.claims)):
        yield from found.field_warnings


def claims_are_mounted(facts: FlowFacts) -> Iterator[FieldWarning]:
    # a claim that no container mounts is never created
    templates = facts.known.templates
    # a template that is not known may mount it
    if templates is None or any(name not in templates for name in facts.templates):
        return
    names = claim_names(facts.flow)
    used = {c for spec in facts.resolved_specs for c in mounted_claims(spec.spec, names)}
    for child in facts.children:
        values = [] if child.params is None else child.params.content.values()
        used.update(mounted_claims({"params": [{"value": each} for each in values]}, names))
    for claim in facts.claims:
        if claim.name not in used and not any(spec.open for spec in facts.resolved_specs):
            detail = (
                "no container mounts a volume of this name, so the claim will not be created: add "
                "it to volumeMounts of a template or a patch"
            )
            yield FieldWarning(claim.path, detail)


def mounted_volumes_exist(facts: FlowFacts) -> Iterator[FieldWarning]:
    # the API server refuses such a pod. Without any claim, it says so itself (`dry_run`)
    for step, resolved in facts.resolved_steps:
        for _, names in unprovided_volumes(resolved.spec):
            guess = Suggester([claim.name for claim in facts.claims]).nearest(names[0])
            detail = (
                f"containers of {resolved.title} mount "
                f"{join_names(names)}, which neither its pods nor spec.volumeClaims have"
                f"{did_you_mean(guess)}"
            )
            yield FieldWarning(facts.path(step), detail)
            return


FLOW_FIELD_WARNINGS: tuple[rule.RuleGroup[rule.FieldWarningRule], ...] = (
    rule.RuleGroup(lambda facts: facts.dependencies_with_options, (ends_of_daemons_are_meant,)),
    rule.RuleGroup(lambda facts: facts.steps_with_options, (steps_behind_optional_ones_run,)),
    rule.RuleGroup(
        lambda facts: facts.references,
        (
            *(fields_of_layers_exist, patched_elements_exist, references_are_spelled_right),
            addresses_have_names,
        ),
    ),
    *VALUE_WARNINGS,
    rule.RuleGroup(lambda facts: facts.has_work, (jobs_have_pods,)),
    rule.RuleGroup(
        lambda facts: facts.children or facts.claims, (fields_of_child_flows_and_claims_exist,)
    ),
    rule.RuleGroup(
        lambda facts: facts.flow.spec.volume_claims, (claims_are_mounted, mounted_volumes_exist)
    ),
)


def template_warnings(spec: Any) -> Iterator[FieldWarning]:
    """Yield the warnings about the spec of a JobTemplate, except unknown fields."""
    yield from _pod_warnings(spec, "spec")
    for place, reference in islice(find_references(spec, "spec"), MAX_MISTAKEN):
        text = quote(f"$({reference.path})")
        detail = f"{text} is left as it is, because references have no meaning there"
        yield FieldWarning(place, detail)


def _pod_warnings(spec: Any, path: str) -> Iterator[FieldWarning]:
    job = job_view(spec, path)
    # Volcano reads missing replicas as 0; an explicit 0 is legal beside a task that has pods
    unset = [task for task in job.tasks if task.raw.get("replicas") is None]
    for task in unset:
        detail = "without replicas this task has no pod, and a job without pods never ends"
        yield FieldWarning(f"{task.path}.replicas", detail, Reason.REQUIRED)
    if job.tasks and not unset and all(task.replicas == 0 for task in job.tasks):
        detail = (
            "every task has 0 replicas, and a job without pods never ends; set the replicas of at "
            "least one task"
        )
        yield FieldWarning(f"{job.path}.tasks", detail, Reason.REQUIRED)
    for task in job.tasks:
        if task.pod_spec.get("containers") and not task.pod_spec.get("restartPolicy"):
            detail = (
                "without a restartPolicy, Kubernetes restarts containers whenever they end, so "
                "these pods never finish; set it to Never or OnFailure"
            )
            yield FieldWarning(f"{task.path}.template.spec.restartPolicy", detail)
