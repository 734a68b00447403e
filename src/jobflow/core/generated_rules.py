"""The rules of what JobFlow and Volcano make for a flow: names of vcjobs and pods, and its status.

They look at names and sizes only; whether Volcano would take a vcjob's spec is `patch_rules`.
"""

from __future__ import annotations

from collections.abc import Iterator

from jobflow.api.jobflow import Condition
from jobflow.core.flow_rules import Rule
from jobflow.core.name_rules import MAX_OBJECT_NAME
from jobflow.core.names import MAX_NAME, job_name
from jobflow.core.next_jobs import MOST as MOST_NEXT
from jobflow.core.outline import Outline, Use
from jobflow.core.outputs import MOST_OF_A_FLOW
from jobflow.core.violations import Reason, Violation

MAX_STATUS = 1 << 20
"""Bytes that a flow's status may come to (etcd takes 1.5 MiB for the whole object)."""
FIXED_STATUS = 3072 + MOST_OF_A_FLOW + MOST_NEXT * (MAX_NAME + 3)
"""What a status takes besides its steps: state with reason and message, times, progress, names;
all outputs; nextJobs."""
_TIME = "2026-01-01T12:00:00Z"
STATUS_OF_A_STEP = max(
    len(
        f'"":{{"phase":"Waiting","reason":"CreateRefused","attempts":1,"nextAttemptTime":"{_TIME}"}},'
    ),
    len(f'"":{{"phase":"Terminating","reason":"Cancelled","attempts":1,"abortTime":"{_TIME}"}},'),
    len('"":{"phase":"Failed","reason":"OutputsTooLarge","attempts":1},'),
) + len('"",')
"""What a step takes at least of it (`core.status_size`), in JSON, besides its vcjob's name: its
condition and an entry in one of the …Jobs lists."""
NAMES_OF_A_STEP = 2
"""How often its vcjob's name stands in it: as a key of conditions, and in a list."""
STATUS_OF_A_PROBER = len(
    f'"":{{"phase":"Waiting","reason":"CreateRefused","nextAttemptTime":"{_TIME}","passedTargets":[]}},'
)
"""The same of a step that waits with targets whose probe has passed, besides their names; its own
name stands there once."""


def jobs_fit(outline: Outline) -> Iterator[Violation]:
    """A vcjob's name is a label of its pods, and Volcano's admission takes no longer one."""
    prefix = len(outline.flow_name) + 1
    if not outline.names or max(map(len, outline.names)) + prefix <= MAX_NAME:
        return
    for i, name in enumerate(outline.names):
        length = len(name) + prefix
        if MAX_NAME < length and len(name) <= MAX_OBJECT_NAME:
            yield _too_long(i, f"its vcjob {_quoted(job_name(outline.flow_name, name))}", length)


def pods_fit(outline: Outline) -> Iterator[Violation]:
    """Volcano's admission holds `<vcjob>-<task>-<n>` to 63 characters, n counting the tasks
    (validateK8sPodNameLength); with a plugin that makes it a hostname every pod's name has to fit.
    """
    prefix = len(outline.flow_name) + 1
    for use in outline.uses:
        length = len(outline.names[use.step]) + prefix
        if length <= MAX_NAME < length + len(use.pods.longest):
            pod = job_name(outline.flow_name, outline.names[use.step]) + use.pods.longest
            yield _too_long(use.step, f"its pod {_quoted(pod)}", len(pod))


def _too_long(step: int, what: str, length: int) -> Violation:
    detail = (
        f"{what} would have {length} characters, and Volcano takes at most {MAX_NAME}; "
        f"shorten the name of the step or of the flow by {length - MAX_NAME}"
    )
    return Violation(f"spec.flows[{step}].name", Reason.TOO_LONG, None, detail)


def _quoted(name: str) -> str:
    return f'"{name}"' if len(name) <= 100 else f'"{name[:60]}…{name[-30:]}"'


def hostnames_are_labels(outline: Outline) -> Iterator[Violation]:
    """A hostname has no dots: a pod that is to have one is refused by the API server."""
    if "." not in outline.flow_name and not any("." in name for name in outline.names):
        return
    for use in outline.uses:
        name = job_name(outline.flow_name, outline.names[use.step])
        if "." in name and use.pods.hostname_plugin:
            detail = (
                f'its vcjob "{name}" has the plugin {use.pods.hostname_plugin}, which makes the '
                'names of its pods their hostnames, and these cannot hold "."; write "-" instead'
            )
            path = f"spec.flows[{use.step}].name"
            yield Violation(path, Reason.INVALID, outline.names[use.step], detail)


def pods_are_unique(outline: Outline) -> Iterator[Violation]:
    """Step a with task b-c and step a-b with task c make pods of the same names, and Volcano
    takes a pod that exists already for its own.

    So one step's name begins with the other's and a dash, and what is left of it begins a task of
    the other: both are looked up, for 5,000 steps may have 5,000 tasks each.
    """
    by_step = {outline.names[use.step]: use for use in outline.uses}
    beginnings: dict[int, frozenset[str]] = {}
    said = set()
    for longer, use in by_step.items():
        for at in _dashes(longer):
            other = by_step.get(longer[:at])
            if other is None:
                continue
            key = id(other.pods)
            if key not in beginnings:
                beginnings[key] = frozenset(t[:i] for t in other.pods.tasks for i in _dashes(t))
            if longer[at + 1 :] in beginnings[key]:
                for violation in _pods_used_twice(outline, other, use):
                    if (violation.path, violation.value) not in said:
                        said.add((violation.path, violation.value))
                        yield violation


def _dashes(name: str) -> list[int]:
    """Where in a name its dashes are; none in one that is refused for its length."""
    return [i for i, c in enumerate(name) if c == "-"] if len(name) <= MAX_NAME else []


def _pods_used_twice(outline: Outline, shorter: Use, longer: Use) -> Iterator[Violation]:
    """`longer` has the name of `shorter`, a dash and more."""
    names = outline.names
    more = names[longer.step].removeprefix(f"{names[shorter.step]}-")
    tasks = frozenset(shorter.pods.tasks)
    for task in longer.pods.tasks:
        if (whole := f"{more}-{task}") not in tasks:
            continue
        first, second = (shorter.step, whole), (longer.step, task)
        if first > second:
            first, second = second, first
        detail = (
            f'a pod of step "{names[first[0]]}" (task "{first[1]}") would have the same name as '
            f'one of this step (task "{second[1]}"); rename one of them'
        )
        pod = f"{job_name(outline.flow_name, names[longer.step])}-{task}-0"
        yield Violation(f"spec.flows[{second[0]}].name", Reason.DUPLICATE, pod, detail)


def status_fits(outline: Outline) -> Iterator[Violation]:
    """What the status comes to when all that may be left out of it is left out."""
    steps = len(outline.names)
    size = least_status(outline)
    if size > MAX_STATUS:
        room = (MAX_STATUS - FIXED_STATUS) * steps // (size - FIXED_STATUS)
        detail = (
            f"{steps} steps, but the status of a flow has room for about {room} with names of "
            "this length (1 MiB); split the flow or shorten the names of the flow and its steps"
        )
        yield Violation("spec.flows", Reason.TOO_MANY, steps, detail)


def least_status(outline: Outline) -> int:
    """Bytes of the largest status that cannot be made smaller (`core.status_size`)."""
    steps = len(outline.names)
    characters = sum(map(len, outline.names)) + steps * (len(outline.flow_name) + 1)
    return (
        FIXED_STATUS
        + steps * STATUS_OF_A_STEP
        + NAMES_OF_A_STEP * characters
        + sum(
            _passed_targets(outline, step)
            for step, depends_on in outline.dependencies
            if depends_on.probe is not None or depends_on.condition == Condition.RUNNING
        )
    )


def _passed_targets(outline: Outline, step: int) -> int:
    """What a step may take more than others as long as it has not begun."""
    name = len(outline.flow_name) + 1 + len(outline.names[step])
    targets = sum(len(outline.names[target]) + len('"",') for target in outline.graph.targets[step])
    begun = STATUS_OF_A_STEP + NAMES_OF_A_STEP * name
    return max(STATUS_OF_A_PROBER + name + targets - begun, 0)


GENERATED_RULES: tuple[Rule, ...] = (
    jobs_fit,
    pods_fit,
    hostnames_are_labels,
    pods_are_unique,
    status_fits,
)
