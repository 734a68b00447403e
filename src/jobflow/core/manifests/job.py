"""Builds the vcjob of a step from its template: the whole manifest, ready to send.

It reads nothing but its arguments and does not judge whether Volcano would take the result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jobflow.api import labels
from jobflow.api.control import Case, JobDefaults, Patch
from jobflow.api.jobflow import JobFlow, Step
from jobflow.api.jobtemplate import JobTemplate
from jobflow.api.resources import JOBFLOWS, JOBS
from jobflow.core.cel.expression import Failure
from jobflow.core.cel.scope import EvaluationScope, with_values
from jobflow.core.json_values import copied
from jobflow.core.manifests.crd_schema import job_spec_violations
from jobflow.core.manifests.strategic_merge import merge
from jobflow.core.names import label_value, qualified

_BOOKKEEPING = (
    "kubectl.kubernetes.io/",
    "applyset.kubernetes.io/",
    "meta.helm.sh/",
    "helm.sh/",
    "argocd.argoproj.io/",
    "flow.volcano.sh/",
)
"""Prefixes of labels and annotations that say how the template came to be, or what JobFlow does
with it, and would be untrue of a vcjob (`kubectl apply --prune` would even delete it as a member
of the template's apply set)."""

_CHANGE_CAUSE = "kubernetes.io/change-cause"
_MANAGED_BY = "app.kubernetes.io/managed-by"
_NO_DEFAULTS = JobDefaults()
_OF_PODS = (labels.CREATED_BY_FLOW, labels.STEP, labels.INDEX, labels.ATTEMPT)
"""The labels of a vcjob that its pods have too."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """The vcjob that is to be made: one attempt of one run of a step."""

    name: str
    number: int = 1
    """Which attempt of its run it is, from 1."""
    index: int | None = None
    """Which item or repeat its run is; None for a plain step."""
    case: Case | None = None
    """The case of `switch` that was taken."""
    avoid_nodes: Sequence[str] = ()
    """Nodes that its pods are to keep off."""
    target_ends: str = "{}"
    """How the targets of the step have ended, as the annotation says it (`target_ends`)."""
    seen: EvaluationScope | None = None
    """What references in patches see; None: they stay as they stand."""


def build_job(
    flow: JobFlow, step: Step, template: JobTemplate, attempt: Attempt
) -> dict[str, Any] | Failure:
    """The vcjob of a step for one attempt; a Failure where a reference in a patch has no value.

    The spec is the template's, with the flow's jobDefaults where it says nothing, and with the
    step's patch and its case's merged in. `ttlSecondsAfterFinished` becomes an annotation: the
    controller carries it out, once the job's outcome is in the flow's status. Labels and
    annotations of the template come along except bookkeeping of the tools that applied it; they
    go before those of jobDefaults, and ours before them. Pods carry the labels that say which
    attempt they belong to. The result shares nothing with the arguments that a caller could
    change.
    """
    spec = _spec(flow, step, template, attempt)
    if isinstance(spec, Failure):
        return spec
    if attempt.avoid_nodes:
        keep_off(spec, attempt.avoid_nodes)
    ours = _labels(flow, step, template, attempt)
    _label_pods(spec, ours)
    defaults = flow.spec.job_defaults or _NO_DEFAULTS
    own = template.metadata
    annotations = _inherited(defaults.annotations) | _inherited(own.annotations)
    annotations |= _annotations(flow, step, template, attempt) | _ttl_taken_out(spec)
    return {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "metadata": {
            "name": attempt.name,
            "namespace": flow.metadata.namespace,
            "labels": _inherited(defaults.labels) | _inherited(own.labels) | ours,
            "annotations": annotations,
            "ownerReferences": [_owner(flow)],
        },
        "spec": spec,
    }


def changes_of(patch: Patch | None) -> dict[str, Any] | None:
    """What a patch says by either of its names; None where it says nothing."""
    return None if patch is None else patch.job_spec or patch.spec or None


def with_defaults(spec: Mapping[str, Any], defaults: JobDefaults | None) -> dict[str, Any]:
    """A vcjob spec with the flow's jobDefaults where it says nothing itself; of plugins each by
    its name. Shares with `spec` what is in it."""
    if defaults is None:
        return dict(spec)
    words = {
        "queue": defaults.queue,
        "priorityClassName": defaults.priority_class_name,
        "schedulerName": defaults.scheduler_name,
    }
    filled: dict[str, Any] = {
        key: word for key, word in words.items() if word and not spec.get(key)
    }
    plugins = spec.get("plugins")
    if defaults.plugins and (plugins is None or isinstance(plugins, dict)):
        filled["plugins"] = defaults.plugins | (plugins or {})
    return {**spec, **filled}


def _spec(
    flow: JobFlow, step: Step, template: JobTemplate, attempt: Attempt
) -> dict[str, Any] | Failure:
    spec = with_defaults(template.spec, flow.spec.job_defaults)
    merged = valued = False
    for patch in (step.patch, attempt.case.patch if attempt.case is not None else None):
        changes = changes_of(patch)
        if changes and attempt.seen is not None:
            replaced = with_values(changes, attempt.seen)
            if isinstance(replaced, Failure):
                return replaced
            valued = valued or replaced is not changes
            changes = replaced
        if changes:
            spec, merged = merge(spec, changes), True
    if valued and (wrong := next(job_spec_violations(spec, "spec"), None)) is not None:
        return Failure(f"the values in its patch make no job: {wrong.path} {wrong.detail}")
    return spec if merged else copied(spec)


def _labels(flow: JobFlow, step: Step, template: JobTemplate, attempt: Attempt) -> dict[str, str]:
    namespace = flow.metadata.namespace
    return {
        labels.CREATED_BY_FLOW: label_value(qualified(namespace, flow.metadata.name)),
        labels.CREATED_BY_TEMPLATE: label_value(qualified(namespace, template.metadata.name)),
        labels.STEP: label_value(step.name),
        labels.ATTEMPT: str(attempt.number),
        **_index(attempt),
    }


def _label_pods(spec: dict[str, Any], ours: Mapping[str, str]) -> None:
    """Put those labels of a vcjob that say which attempt it is on the pods of every task of `spec`,
    in place and before the pods' own. The API server refuses in its own words a template that is
    no map."""
    for task in maps(spec.get("tasks")):
        template = task.get("template")
        metadata = inner(template, "metadata") if isinstance(template, dict) else None
        own = inner(metadata, "labels") if metadata is not None else None
        if own is not None:
            for key in _OF_PODS:
                own.pop(key, None)
            own |= {key: ours[key] for key in _OF_PODS if key in ours}


def _index(attempt: Attempt) -> dict[str, str]:
    """Which item or repeat it is, as a label and as an annotation."""
    return {} if attempt.index is None else {labels.INDEX: str(attempt.index)}


def _annotations(
    flow: JobFlow, step: Step, template: JobTemplate, attempt: Attempt
) -> dict[str, str]:
    """The full names behind the labels, which state of the template this is, and on which ends of
    its targets the vcjob starts."""
    namespace = flow.metadata.namespace
    annotations = {
        labels.CREATED_BY_FLOW: qualified(namespace, flow.metadata.name),
        labels.CREATED_BY_TEMPLATE: qualified(namespace, template.metadata.name),
        labels.STEP: step.name,
        labels.TARGET_ENDS: attempt.target_ends,
        **_index(attempt),
    }
    if template.metadata.generation is not None:
        annotations[labels.TEMPLATE_GENERATION] = str(template.metadata.generation)
    return annotations


def _ttl_taken_out(spec: dict[str, Any]) -> dict[str, str]:
    """The ttl of a vcjob spec as an annotation. What is no number stays where it is, for the API
    server to refuse in its own words."""
    ttl = spec.get("ttlSecondsAfterFinished")
    if ttl is not None and (isinstance(ttl, bool) or not isinstance(ttl, int)):
        return {}
    spec.pop("ttlSecondsAfterFinished", None)
    return {} if ttl is None else {labels.TTL_SECONDS: str(ttl)}


def _inherited(own: dict[str, str] | None) -> dict[str, str]:
    """A template's labels or annotations without bookkeeping.

    `app.kubernetes.io/instance` stays, though Argo CD can be set to track by it: it prunes only
    objects that no other object owns, and of a Helm chart the label is the user's own.
    """
    return {key: value for key, value in (own or {}).items() if comes_along(key, value)}


def comes_along(key: str, value: str) -> bool:
    """Whether a label or annotation is none of the bookkeeping that `_BOOKKEEPING` names."""
    helms = key == _MANAGED_BY and value == "Helm"
    return not (key.startswith(_BOOKKEEPING) or key == _CHANGE_CAUSE or helms)


def _owner(flow: JobFlow) -> dict[str, Any]:
    return {
        "apiVersion": JOBFLOWS.api_version,
        "kind": JOBFLOWS.kind,
        "name": flow.metadata.name,
        "uid": flow.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


HOSTNAME = "kubernetes.io/hostname"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def keep_off(spec: dict[str, Any], nodes: Sequence[str]) -> None:
    """Have every task's pods stay off `nodes`. `spec`: a vcjob's, changed in place."""
    for task in maps(spec.get("tasks")):
        template = task.get("template")
        pod = template.get("spec") if isinstance(template, dict) else None
        if isinstance(pod, dict):
            _keep_off(pod, nodes)


def _keep_off(pod: dict[str, Any], nodes: Sequence[str]) -> None:
    affinity = inner(pod, "affinity")
    node = None if affinity is None else inner(affinity, "nodeAffinity")
    required = None if node is None else inner(node, _REQUIRED)
    if required is None:
        return
    if required.get("nodeSelectorTerms") is None:
        required["nodeSelectorTerms"] = []
    terms = required["nodeSelectorTerms"]
    if not isinstance(terms, list):
        return
    avoided = {"key": HOSTNAME, "operator": "NotIn", "values": list(nodes)}
    if not terms:
        terms.append({"matchExpressions": [avoided]})
        return
    for term in maps(terms):  # one of them is enough for a node, so each has to say it
        expressions = term.get("matchExpressions") or []
        if term and isinstance(expressions, list):  # an empty term is no node's
            term["matchExpressions"] = [*expressions, dict(avoided)]


def inner(value: dict[str, Any], key: str) -> dict[str, Any] | None:
    """The map at a key, made where there is none; None where something else is there."""
    if value.get(key) is None:
        value[key] = {}
    found = value[key]
    return found if isinstance(found, dict) else None


def maps(value: Any) -> list[dict[str, Any]]:
    """The maps of a list; none if it is something else."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
