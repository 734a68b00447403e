"""Names of vcjobs and of their pods, and values of labels. Admission refuses a flow whose planned
names are too long, so only further attempts and label values are shortened."""

import hashlib
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from jobflow.api import labels
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import RunCondition, StepCondition
from jobflow.api.resources import ObjectMeta

MAX_NAME = 63
"""Characters of a label value, and so of the names of vcjobs and pods: pods have the name of their
vcjob as a label, and a DNS label (RFC 1123) has the same limit."""

_RANDOM_SUFFIX = "x" * 5
"""Placeholder for the characters that an API server appends to `generateName`."""
_MAX_GENERATE_NAME = 58
"""Characters of `generateName` that an API server keeps (k8s.io/apiserver/pkg/storage/names)."""
_HASH = 8
_AGAIN = re.compile(r"-r([1-9][0-9]{0,8})$")
_LABEL_VALUE = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?")
_NOT_IN_A_LABEL = re.compile(r"[^-A-Za-z0-9_.]+")


def format_job_name(flow: str, step: str, *, index: int | None = None) -> str:
    """Return the name of the first vcjob of a step, `<flow>-<step>`, or of a run of it,
    `<flow>-<step>-<index>`. It is never shortened."""
    return f"{flow}-{step}" if index is None else f"{flow}-{step}-{index}"


def stored_condition(flow: JobFlow, step: str) -> StepCondition | None:
    """Return the condition of a step in the status of its flow, where its key is the name of the
    first vcjob, or None before the step is decided."""
    return (flow.status.conditions or {}).get(format_job_name(flow.metadata.name, step))


def format_place(step: str, index: int | str | None) -> str:
    """Return `train`, or `train/3` for the run of an item or a repeat."""
    return step if index is None else f"{step}/{index}"


def claim_names(flow: JobFlow) -> dict[str, str]:
    """Return the name of each PersistentVolumeClaim by its name in the flow: `<flow>-<name>`, if
    the status has no other one."""
    names, reused = default_claim_names(flow), flow.status.reused_claims
    return names | {claim: reused[claim] for claim in names if claim in reused} if reused else names


def default_claim_names(flow: JobFlow) -> dict[str, str]:
    """Return `<flow>-<name>` for each PersistentVolumeClaim, by its name in the flow."""
    name = flow.metadata.name
    return {claim: format_job_name(name, claim) for claim in flow.spec.volume_claims or ()}


def moved_claim_names(flow: JobFlow) -> list[str]:
    """Return the PersistentVolumeClaims that have moved to a flow from the one that it reuses and
    have kept a name of that."""
    defaults, uid = default_claim_names(flow), flow.metadata.uid
    names = (flow.status.reused_claims or {}).items()
    return sorted(n for c, n in names if n != format_other_name(defaults.get(c, ""), uid))


def predict_generated_name(prefix: str) -> str:
    """Return a placeholder as long as what an API server makes of `generateName`, or ""."""
    return prefix[:_MAX_GENERATE_NAME] + _RANDOM_SUFFIX if prefix else ""


def format_attempt_name(first: str, again: int, *, room: int = 0) -> str:
    """Return the name of a further vcjob after `first`: `<first>-r<again>`, or `first` for 0. If it
    has more than MAX_NAME - `room` characters, a prefix and a hash replace `first`. `room` is for
    the suffix of pod names (`predict_pod_names`)."""
    if again == 0:
        return first
    tail = f"-r{again}"
    if len(first) + len(tail) + room <= MAX_NAME:
        return first + tail
    return _shorten(first, max(MAX_NAME - room - len(tail), _HASH + 2)) + tail


def format_run_name(key: str, index: int | None) -> str:
    """Return the name of the first vcjob of a run, by that of its step: `<key>[-<index>]`."""
    return key if index is None else f"{key}-{index}"


def format_latest_name(first: str, attempts: int) -> str:
    """Return the name of the last of so many attempts, if no name was in use or too long."""
    return format_attempt_name(first, max(attempts - 1, 0))


def recorded_names(key: str, run: RunCondition) -> tuple[str, ...]:
    """Return the name of the last vcjob of a run, whose end its condition is, by the key of its
    step. A name that was dropped for the status's size follows from the attempt; then the record of
    the first vcjob is gone too, and its name comes first."""
    if name := run.job or run.flow:
        return (name,)
    first = format_run_name(key, run.index)
    return (first, format_latest_name(first, run.attempts))


def format_other_name(name: str, uid: str) -> str:
    """Return a name for an object of the flow with this UID whose own name is taken."""
    return f"{name}-{_digest(uid)[:5]}"


def split_attempt_name(name: str) -> tuple[str, int]:
    """Return what `format_attempt_name` may have made this name of: the name of the first vcjob,
    or what replaces it, and the number of the repetition; 0 if the name has none."""
    found = _AGAIN.search(name)
    return (name, 0) if found is None else (name[: found.start()], int(found[1]))


def is_attempt_name(name: str, first: str) -> bool:
    """Whether `name` is the name of a further vcjob after `first`, or `first` itself."""
    if name == first:
        return True
    # a long first name was replaced by its start and its hash
    base, again = split_attempt_name(name)
    if not again or base == first:
        return again > 0
    prefix, _, digest = base.rpartition("-")
    return first.startswith(prefix) and digest == _digest(first)


def to_label_value(text: str) -> str:
    """Return `text` if it is a valid label value, else a valid one of its start and its hash."""
    if not text or (len(text) <= MAX_NAME and _LABEL_VALUE.fullmatch(text)):
        return text
    return _shorten(text, MAX_NAME)


def qualify_name(namespace: str, name: str) -> str:
    """Return `<namespace>.<name>`, which is how Volcano's labels name a flow or a template."""
    return f"{namespace}.{name}"


def _shorten(text: str, length: int) -> str:
    """Return a prefix, a dash and a hash of the text, at most `length` (10 or more) characters."""
    digest = _digest(text)
    # a label value begins and ends with a letter or a digit
    prefix = _NOT_IN_A_LABEL.sub("-", text)[: length - _HASH - 1].strip("-_.")
    return f"{prefix}-{digest}" if prefix else digest


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH]


HOSTNAME_PLUGINS = frozenset({"svc", "tensorflow", "pytorch", "mpi", "ray"})
"""Plugins that make each pod's name its hostname, and the vcjob's name its subdomain. All but svc
enable svc too (Volcano pkg/webhooks/admission/jobs/mutate)."""


class PodNames(NamedTuple):
    """The parts after the vcjob's name in the names of its pods."""

    tasks: tuple[str, ...]
    """Tasks with pods."""
    longest: str
    """The longest `-<task>-<n>`."""
    hostname_plugin: str | None
    """The plugin that makes the names hostnames, if the job has one."""


def predict_pod_names(spec: Mapping[str, Any]) -> PodNames:
    """Return the names `<vcjob>-<task>-<n>` (Volcano pkg/controllers/job/helpers, MakePodName) of
    the pods of a vcjob spec, which may be any JSON."""
    plugins = spec.get("plugins")
    named = plugins if isinstance(plugins, dict) else ()
    plugin = next((name for name in named if name in HOSTNAME_PLUGINS), None)
    tasks = spec.get("tasks")
    with_pods: list[str] = []
    longest = ""
    for n, task in enumerate(tasks if isinstance(tasks, list) else ()):
        if not isinstance(task, dict):
            continue
        name = task.get("name")
        if not isinstance(name, str) or not name:
            name = f"default{n}"
        replicas, last = task.get("replicas"), 0
        if isinstance(replicas, int) and replicas > 0:
            with_pods.append(name)
            template = task.get("template")
            pod = template.get("spec") if isinstance(template, dict) else None
            own_hostname = isinstance(pod, dict) and pod.get("hostname")
            # a hostname must fit for the last pod too
            last = 0 if plugin is None or own_hostname else replicas - 1
        # Volcano measures a name with the position of the task (validateK8sPodNameLength)
        suffix = f"-{name}-{max(n, last)}"
        if len(suffix) > len(longest):
            longest = suffix
    return PodNames(tuple(with_pods), longest, plugin)


def root_label(flow: JobFlow) -> str:
    """Return the label value that names the outermost flow of a flow, which may be itself."""
    if flow.is_child:
        return (flow.metadata.labels or {}).get(labels.ROOT, "")
    return to_label_value(flow.metadata.name)


def root_of(flow: JobFlow) -> ObjectMeta:
    """Return name and namespace of the outermost flow of a flow, which is the one to retry."""
    return ObjectMeta(name=root_label(flow), namespace=flow.metadata.namespace)
