"""Volcano's rules of admission for lifecycle policies of jobs and tasks.

Source: pkg/webhooks/admission/jobs/validate/util.go (validatePolicies), which stops at the first
fault.
"""

import re
from collections.abc import Iterator

from jobflow.core.admission.volcano.job_view import JobView, Map, elements, integer, text
from jobflow.core.suggest import list_supported
from jobflow.core.violations import Reason, Violation

ANY_EVENT = "*"
EVENTS = (
    *(ANY_EVENT, "PodPending", "PodFailed", "PodEvicted", "Unknown"),
    *("TaskCompleted", "TaskFailed", "JobUpdated"),
)
_VOLCANOS_EVENTS = frozenset({"PodRunning", "OutOfSync", "CommandIssued"})
ACTIONS = (
    *("AbortJob", "RestartJob", "RestartTask", "RestartPod", "RestartPartition"),
    *("TerminateJob", "CompleteJob", "ResumeJob"),
)
_VOLCANOS_ACTIONS = frozenset({"SyncJob", "EnqueueJob", "SyncQueue", "OpenQueue", "CloseQueue"})

_DURATION = re.compile(r"[-+]?(?:0|(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h))+)")
"""Syntax of Go's time.ParseDuration."""


def policy_violations(job: JobView) -> Iterator[Violation]:
    if job.raw.get("policies"):
        yield from _of_list(job.raw, f"{job.path}.policies")
    for task in job.tasks:
        if task.raw.get("policies"):
            yield from _of_list(task.raw, f"{task.path}.policies")


def duration_violations(raw: Map, key: str, path: str) -> Iterator[Violation]:
    """Yield the fault of a text that Go does not read as a duration."""
    value = text(raw, key)
    if value is not None and not _DURATION.fullmatch(value):
        detail = 'not a duration; write a number and a unit, such as "30s" or "1h30m"'
        yield Violation(f"{path}.{key}", Reason.INVALID, value, detail)


def _of_list(owner: Map, path: str) -> Iterator[Violation]:
    policies = [(f"{path}[{i}]", policy) for i, policy in elements(owner, "policies")]
    for at, policy in policies:
        yield from _of_one(policy, at)
        yield from duration_violations(policy, "timeout", at)
    # Volcano allows one policy to name an event twice
    seen: dict[str | int, str] = {}
    for path, policy in policies:
        written: list[tuple[str, str | int]] = [*_events(policy, path)]
        if (code := integer(policy, "exitCode")) is not None:
            written.append((f"{path}.exitCode", code))
        for at, value in written:
            if (first := seen.setdefault(value, path)) != path:
                word = "event" if isinstance(value, str) else "exit code"
                yield Violation(at, Reason.DUPLICATE, value, f"{first} already has this {word}")
    named = [place for at, policy in policies for place in _events(policy, at)]
    if {event for _, event in named} - {ANY_EVENT}:
        for at in [at for at, event in named if event == ANY_EVENT][:1]:
            detail = '"*" is every event, so no policy may name another; remove it or the others'
            yield Violation(at, Reason.INVALID, ANY_EVENT, detail)


def _of_one(policy: Map, path: str) -> Iterator[Violation]:
    has_event = bool(policy.get("event") or policy.get("events"))
    has_exit_code = policy.get("exitCode") is not None
    if has_event and has_exit_code:
        detail = "a policy has event(s) or exitCode, not both; write two policies"
        yield Violation(f"{path}.exitCode", Reason.FORBIDDEN, policy["exitCode"], detail)
    elif not has_event and not has_exit_code:
        detail = "set when the policy acts: event, events or exitCode"
        yield Violation(f"{path}.event", Reason.REQUIRED, None, detail)
    for at, event in _events(policy, path):
        if event not in EVENTS:
            detail = _supported(event, EVENTS, _VOLCANOS_EVENTS)
            yield Violation(at, Reason.NOT_SUPPORTED, event, detail)
    if integer(policy, "exitCode") == 0:
        detail = (
            "0 is no failure, and a policy acts on exit codes of failures; "
            "for success use event: TaskCompleted"
        )
        yield Violation(f"{path}.exitCode", Reason.INVALID, 0, detail)
    action = policy.get("action")
    # with an exit code, Volcano does not require an action, and ignores an unknown one
    if not action and has_event:
        detail = list_supported(None, ACTIONS)
        yield Violation(f"{path}.action", Reason.REQUIRED, action, detail)
    elif action and isinstance(action, str) and action not in ACTIONS:
        detail = _supported(action, ACTIONS, _VOLCANOS_ACTIONS)
        yield Violation(f"{path}.action", Reason.NOT_SUPPORTED, action, detail)


def _events(policy: Map, path: str) -> Iterator[tuple[str, str]]:
    if event := text(policy, "event"):
        yield f"{path}.event", event
    events = policy.get("events")
    for index, item in enumerate(events if isinstance(events, list) else ()):
        if isinstance(item, str):
            yield f"{path}.events[{index}]", item


def _supported(word: str, words: tuple[str, ...], volcanos: frozenset[str]) -> str:
    if word in volcanos:
        return f"{list_supported(None, words)}; only Volcano itself uses {word}"
    return list_supported(word, words)
