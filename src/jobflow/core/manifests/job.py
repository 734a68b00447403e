"""Manifest of the vcjob that a step creates from its template. Admission judges it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jobflow.api import labels
from jobflow.api.control import Case, JobDefaults, Patch
from jobflow.api.jobflow import JobFlow, Step
from jobflow.api.jobtemplate import JobTemplate
from jobflow.api.resources import JOBFLOWS, JOBS
from jobflow.core.cel.expression import EvaluationFailure
from jobflow.core.cel.scope import EvaluationScope, resolve_references
from jobflow.core.json_values import copy_json
from jobflow.core.manifests.crd_schema import job_spec_violations
from jobflow.core.manifests.strategic_merge import merge
from jobflow.core.names import qualify_name, to_label_value

_BOOKKEEPING = (
    "kubectl.kubernetes.io/",
    "applyset.kubernetes.io/",
    "meta.helm.sh/",
    "helm.sh/",
    "argocd.argoproj.io/",
    "flow.volcano.sh/",
)
"""Prefixes of labels and annotations of tools that created the template, and of JobFlow. A vcjob
does not inherit them (`kubectl apply --prune` would delete it as a member of the template's apply
set)."""

_CHANGE_CAUSE = "kubernetes.io/change-cause"
_MANAGED_BY = "app.kubernetes.io/managed-by"
_NO_DEFAULTS = JobDefaults()
_POD_LABELS = (labels.CREATED_BY_FLOW, labels.STEP, labels.INDEX, labels.ATTEMPT)
"""Labels of a vcjob that its pods have too."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt of one run of a step, for which a vcjob is created."""

    name: str
    number: int = 1
    """Number of the attempt in its run, from 1."""
    index: int | None = None
    """Index of the item or repeat; None for a plain step."""
    case: Case | None = None
    """The chosen case of `switch`."""
    avoid_nodes: Sequence[str] = ()
    """Nodes that its pods must avoid."""
    target_ends: str = "{}"
    """Value of the annotation on how the targets of the step have ended."""
    seen: EvaluationScope | None = None
    """Values of references in patches; None: references stay."""


def build_job(
    flow: JobFlow, step: Step, template: JobTemplate, attempt: Attempt
) -> dict[str, Any] | EvaluationFailure:
    """Return the manifest of one attempt, or a Failure if a reference in a patch has no value.

    The spec is the template's, with jobDefaults for fields that it does not set, and with the
    patches of the step and its case merged in. `ttlSecondsAfterFinished` becomes an annotation: the
    controller deletes the job, once its result is in the flow's status. The job inherits labels and
    annotations of the template, except bookkeeping, before those of jobDefaults; ours win. Pods get
    the labels of their attempt. The result shares nothing that a caller could change.
    """
    spec = _spec(flow, step, template, attempt)
    if isinstance(spec, EvaluationFailure):
        return spec
    if attempt.avoid_nodes:
        avoid_nodes(spec, attempt.avoid_nodes)
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
    """Return the content of a patch, under either of its names, or None if it is empty."""
    return None if patch is None else patch.job_spec or patch.spec or None


def with_defaults(spec: Mapping[str, Any], defaults: JobDefaults | None) -> dict[str, Any]:
    """Return a spec with jobDefaults for unset fields and plugins. Shares content with `spec`."""
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
) -> dict[str, Any] | EvaluationFailure:
    spec = with_defaults(template.spec, flow.spec.job_defaults)
    merged = valued = False
    for patch in (step.patch, attempt.case.patch if attempt.case is not None else None):
        changes = changes_of(patch)
        if changes and attempt.seen is not None:
            replaced = resolve_references(changes, attempt.seen)
            if isinstance(replaced, EvaluationFailure):
                return replaced
            valued = valued or replaced is not changes
            changes = replaced
        if changes:
            spec, merged = merge(spec, changes), True
    if valued and (fault := next(job_spec_violations(spec, "spec"), None)) is not None:
        return EvaluationFailure(
            f"the values in its patch make no valid job: {fault.path} {fault.detail}"
        )
    return spec if merged else copy_json(spec)


def _labels(flow: JobFlow, step: Step, template: JobTemplate, attempt: Attempt) -> dict[str, str]:
    namespace = flow.metadata.namespace
    return {
        labels.CREATED_BY_FLOW: to_label_value(qualify_name(namespace, flow.metadata.name)),
        labels.CREATED_BY_TEMPLATE: to_label_value(qualify_name(namespace, template.metadata.name)),
        labels.STEP: to_label_value(step.name),
        labels.ATTEMPT: str(attempt.number),
        **({} if attempt.index is None else {labels.INDEX: str(attempt.index)}),
    }


def _label_pods(spec: dict[str, Any], ours: Mapping[str, str]) -> None:
    """Set the labels of the attempt on the pods of every task of `spec`, in place."""
    for template in _pod_templates(spec):
        metadata = inner(template, "metadata")
        own = inner(metadata, "labels") if metadata is not None else None
        if own is not None:
            for key in _POD_LABELS:
                own.pop(key, None)
            own |= {key: ours[key] for key in _POD_LABELS if key in ours}


def _annotations(
    flow: JobFlow, step: Step, template: JobTemplate, attempt: Attempt
) -> dict[str, str]:
    namespace = flow.metadata.namespace
    annotations = {
        labels.CREATED_BY_FLOW: qualify_name(namespace, flow.metadata.name),
        labels.CREATED_BY_TEMPLATE: qualify_name(namespace, template.metadata.name),
        labels.STEP: step.name,
        labels.TARGET_ENDS: attempt.target_ends,
    }
    if attempt.index is not None:
        annotations[labels.INDEX] = str(attempt.index)
    if template.metadata.generation is not None:
        annotations[labels.TEMPLATE_GENERATION] = str(template.metadata.generation)
    return annotations


def _ttl_taken_out(spec: dict[str, Any]) -> dict[str, str]:
    """Move the ttl to an annotation. If it is no number it stays, and the API server refuses it."""
    ttl = spec.get("ttlSecondsAfterFinished")
    if ttl is not None and (isinstance(ttl, bool) or not isinstance(ttl, int)):
        return {}
    spec.pop("ttlSecondsAfterFinished", None)
    return {} if ttl is None else {labels.TTL_SECONDS: str(ttl)}


def _inherited(own: dict[str, str] | None) -> dict[str, str]:
    """Return labels or annotations without bookkeeping. `app.kubernetes.io/instance` stays: Argo CD
    prunes only objects without an owner, and in a Helm chart the label is the user's own."""
    return {key: value for key, value in (own or {}).items() if is_inherited(key, value)}


def is_inherited(key: str, value: str) -> bool:
    """Whether a vcjob gets this label or annotation: it is no bookkeeping."""
    by_helm = key == _MANAGED_BY and value == "Helm"
    return not (key.startswith(_BOOKKEEPING) or key == _CHANGE_CAUSE or by_helm)


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


def avoid_nodes(spec: dict[str, Any], nodes: Sequence[str]) -> None:
    """Keep the pods of every task off `nodes`. `spec`: a vcjob's, changed in place."""
    for template in _pod_templates(spec):
        if isinstance(pod := template.get("spec"), dict):
            _avoid_nodes(pod, nodes)


def _avoid_nodes(pod: dict[str, Any], nodes: Sequence[str]) -> None:
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
    for term in maps(terms):  # a node needs to match only one, so each must exclude them
        expressions = term.get("matchExpressions") or []
        if term and isinstance(expressions, list):  # an empty term matches no node
            term["matchExpressions"] = [*expressions, dict(avoided)]


def inner(value: dict[str, Any], key: str) -> dict[str, Any] | None:
    """Return the map at a key, created if missing; None if another value is there."""
    if value.get(key) is None:
        value[key] = {}
    found = value[key]
    return found if isinstance(found, dict) else None


def _pod_templates(spec: dict[str, Any]) -> list[dict[str, Any]]:
    return maps([task.get("template") for task in maps(spec.get("tasks"))])


def maps(value: Any) -> list[dict[str, Any]]:
    """Return the maps in a list; empty for any other value."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
