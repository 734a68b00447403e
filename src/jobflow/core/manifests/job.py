"""Manifests of the vcjob, which admission judges, and of the child flow that a step creates."""

from collections.abc import Sequence
from typing import Any

import msgspec

from jobflow.api import labels
from jobflow.api.flow.control import Case, JobDefaults, Reuse
from jobflow.api.flow.jobflow import JobFlow, JobFlowSpec, JobTemplate
from jobflow.api.flow.step import Step
from jobflow.api.flow.traits import InChild, fields_of
from jobflow.api.resources import JOBFLOWS, JOBS, ObjectMeta
from jobflow.core.cel.expression import EvaluationFailure
from jobflow.core.cel.references import OF_JOB_SPEC
from jobflow.core.cel.scope import EvaluationScope, resolve_references
from jobflow.core.json_values import copy_json, maps
from jobflow.core.manifests.layers import Rank, layers_of, with_defaults, with_log_as_message
from jobflow.core.manifests.volume_claims import with_claims, with_real_names
from jobflow.core.names import claim_names, qualify_name, root_label, to_label_value

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
_NO_METADATA = ObjectMeta()
_POD_LABELS = (labels.CREATED_BY_FLOW, labels.STEP, labels.INDEX, labels.ATTEMPT, labels.ROOT)
"""Labels of a vcjob that its pods have too."""


class Attempt(msgspec.Struct, frozen=True):
    """One attempt of one run of a step, for which a vcjob is created."""

    name: str
    number: int = 1
    """Number of the attempt in its run, from 1."""
    index: int | None = None
    """Index of the item or repeat; None for a plain step."""
    case: Case | None = None
    retried: bool = False
    """Whether a failure counted before."""
    avoid_nodes: Sequence[str] = ()
    target_ends: str = "{}"
    """Value of the annotation on how the targets of the step have ended."""
    seen: EvaluationScope | None = None
    """Values of references; None: references stay."""
    reuse: Reuse | None = None
    """The flow whose results a child flow reuses."""
    log_as_message: bool = False
    """Whether the end of the log of a `container` is its message: nothing names its outputs."""


def build_job(
    flow: JobFlow, step: Step, template: JobTemplate | None, attempt: Attempt
) -> dict[str, Any] | EvaluationFailure:
    """Return the manifest of one attempt, or a Failure if a reference has no value. The spec is the
    template's, or the step's own work if `template` is None. Labels and annotations are ours, else
    those of the template, else those of jobDefaults. The result shares nothing with its source."""
    spec = build_spec(flow, step, template, attempt)
    if isinstance(spec, EvaluationFailure):
        return spec
    # after the layers, so that no patch can remove it
    if attempt.avoid_nodes:
        avoid_nodes(spec, attempt.avoid_nodes)
    meta = flow.metadata
    created_by = {labels.CREATED_BY_FLOW: qualify_name(meta.namespace, meta.name)}
    if template is not None:
        name = qualify_name(meta.namespace, template.metadata.name)
        created_by[labels.CREATED_BY_TEMPLATE] = name
    ours = {key: to_label_value(name) for key, name in created_by.items()}
    ours |= attempt_labels(step, attempt)
    if flow.is_child:
        parents = meta.labels or {}
        ours |= {key: parents[key] for key in (labels.PARENT, labels.ROOT) if key in parents}
    # pods have them too, for selectors; what a template says of them would be wrong
    of_pods = {key: ours[key] for key in _POD_LABELS if key in ours}
    for pod_template in _pod_templates(spec):
        metadata = inner(pod_template, "metadata")
        pod_labels = inner(metadata, "labels") if metadata is not None else None
        if pod_labels is not None:
            for key in _POD_LABELS:
                pod_labels.pop(key, None)
            pod_labels |= of_pods
    defaults = flow.spec.job_defaults or _NO_DEFAULTS
    own = template.metadata if template is not None else _NO_METADATA
    annotations = _inherited(defaults.annotations) | _inherited(own.annotations)
    # names in full, which a label may have shortened
    annotations |= created_by | {
        labels.FLOW_UID: meta.uid,
        labels.STEP: step.name,
        labels.TARGET_ENDS: attempt.target_ends,
    }
    if attempt.index is not None:
        annotations[labels.INDEX] = str(attempt.index)
    if template is not None and template.metadata.generation is not None:
        annotations[labels.TEMPLATE_GENERATION] = str(template.metadata.generation)
    # Volcano would delete the vcjob before its result is in the status, so the controller does it
    ttl = spec.get("ttlSecondsAfterFinished")
    if ttl is None or (isinstance(ttl, int) and not isinstance(ttl, bool)):
        spec.pop("ttlSecondsAfterFinished", None)
        annotations |= {} if ttl is None else {labels.TTL_SECONDS: str(ttl)}
    # a ttl that is no number stays, and the API server refuses it
    return {
        **JOBS.type_meta,
        "metadata": {
            "name": attempt.name,
            "namespace": meta.namespace,
            "labels": _inherited(defaults.labels) | _inherited(own.labels) | ours,
            "annotations": annotations,
            "ownerReferences": [JOBFLOWS.owner_reference(flow.metadata)],
        },
        "spec": spec,
    }


def build_spec(
    flow: JobFlow, step: Step, template: JobTemplate | None, attempt: Attempt
) -> dict[str, Any] | EvaluationFailure:
    """Return the spec of the vcjob of an attempt, before the nodes that it avoids, or a Failure."""
    defaults = flow.spec.job_defaults
    spec = with_defaults(template.spec if template is not None else {}, defaults)
    has_values = False
    for layer in layers_of(step, attempt.case, retried=attempt.retried):
        content = layer.content
        if attempt.seen is not None:
            content = resolve_references(content, attempt.seen, OF_JOB_SPEC)
            if isinstance(content, EvaluationFailure):
                return content
            # without values, admission has checked the result
            has_values = has_values or content is not layer.content
        if (reason := layer.fault(spec, content)) is not None:
            return EvaluationFailure(reason)
        if layer.rank is Rank.WORK:
            if layer.field == "container" and attempt.log_as_message:
                content = with_log_as_message(content)
            # a step with work of its own has no template, so jobDefaults fill its gaps
            spec = with_defaults(layer.merge({}, content), defaults)
        else:
            spec = layer.merge(spec, content)
    if has_values:
        from jobflow.core.manifests.crd_schema import job_spec_violations  # `why` needs no schemas

        if (fault := next(job_spec_violations(spec, "spec"), None)) is not None:
            why = "the values of its references make no valid job"
            return EvaluationFailure(f"{why}: {fault.path} {fault.detail}")
    if flow.status.reused_claims:
        spec = with_real_names(spec, flow)
    return copy_json(with_claims(spec, claim_names(flow)))


def attempt_labels(step: Step, attempt: Attempt) -> dict[str, str]:
    """Return the labels of a vcjob or child flow that say what it is an attempt of."""
    found = {labels.STEP: to_label_value(step.name), labels.ATTEMPT: str(attempt.number)}
    return found if attempt.index is None else found | {labels.INDEX: str(attempt.index)}


def _inherited(own: dict[str, str] | None) -> dict[str, str]:
    # app.kubernetes.io/instance stays: Argo CD prunes only objects without an owner, and in a Helm
    # chart the label is the user's own
    return {key: value for key, value in (own or {}).items() if is_inherited(key, value)}


def is_inherited(key: str, value: str) -> bool:
    """Whether a vcjob gets this label or annotation: it is no bookkeeping."""
    by_helm = key == _MANAGED_BY and value == "Helm"
    return not (key.startswith(_BOOKKEEPING) or key == _CHANGE_CAUSE or by_helm)


HOSTNAME = "kubernetes.io/hostname"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def avoid_nodes(spec: dict[str, Any], nodes: Sequence[str]) -> None:
    """Keep the pods of every task off `nodes`. `spec`: a vcjob's, changed in place."""
    avoided = {"key": HOSTNAME, "operator": "NotIn", "values": list(nodes)}
    for template in _pod_templates(spec):
        required: Any = template.get("spec")
        for key in ("affinity", "nodeAffinity", _REQUIRED):
            required = inner(required, key) if isinstance(required, dict) else None
        # something else than a map is there, which the API server refuses
        if required is None:
            continue
        terms = required.get("nodeSelectorTerms")
        if terms is None or terms == []:
            required["nodeSelectorTerms"] = [{"matchExpressions": [dict(avoided)]}]
            continue
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


INHERITED = {
    field.name: field.json
    for field in fields_of(JobFlowSpec)
    if field.get(InChild) == InChild(inherited=True)
}
"""Fields of the parent's spec that a child without them has too: Python names -> JSON names."""


def build_child(
    flow: JobFlow, step: Step, raw: dict[str, Any], attempt: Attempt
) -> dict[str, Any] | EvaluationFailure:
    """Return the manifest of a child flow, or a Failure if a reference in its params has no value.
    `raw`: the field `flow` of the step or of its case."""
    # only params have references to the parent; the rest is the child's own
    params = raw.get("params") or {}
    if attempt.seen is not None:
        params = resolve_references(params, attempt.seen)
        if isinstance(params, EvaluationFailure):
            return params
    annotations = {labels.STEP: step.name, labels.TARGET_ENDS: attempt.target_ends}
    if attempt.index is not None:
        annotations[labels.INDEX] = str(attempt.index)
    # a copy, so that the manifest does not change the parent's spec
    spec = copy_json({key: value for key, value in raw.items() if key != "params"})
    if params:
        spec["params"] = [{"name": name, "value": value} for name, value in params.items()]
    if attempt.reuse is not None:
        spec["reuse"] = msgspec.to_builtins(attempt.reuse)
    values = ((json, getattr(flow.spec, name)) for name, json in INHERITED.items())
    # beneath the child's own fields, which win
    inherited = {json: msgspec.to_builtins(each) for json, each in values if each is not None}
    return {
        **JOBFLOWS.type_meta,
        "metadata": {
            "name": attempt.name,
            "namespace": flow.metadata.namespace,
            "labels": {
                labels.PARENT: to_label_value(flow.metadata.name),
                labels.ROOT: root_label(flow),
                **attempt_labels(step, attempt),
            },
            "annotations": annotations,
            "ownerReferences": [JOBFLOWS.owner_reference(flow.metadata)],
        },
        "spec": inherited | spec,
    }
