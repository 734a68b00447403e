"""The rules of the names that JobFlow and Volcano make for a flow: those of vcjobs and of pods.

They look at names only; whether Volcano would take a vcjob's spec is `patch_rules`.
"""

from __future__ import annotations

from collections.abc import Iterator

from jobflow.core.admission.analysis.flow_facts import Outline
from jobflow.core.admission.object_names import MAX_OBJECT_NAME
from jobflow.core.admission.rule import Group, Rule, anything
from jobflow.core.names import MAX_NAME, job_name
from jobflow.core.violations import Reason, Violation


def jobs_fit(outline: Outline) -> Iterator[Violation]:
    """A vcjob's name is a label of its pods, and Volcano's admission takes no longer one."""
    prefix = len(outline.flow_name) + 1
    room = MAX_NAME - prefix - outline.longest_tail
    if outline.longest_name <= room:
        return
    for i, name in enumerate(outline.names):
        tail = outline.planned[i].longest
        length = len(name) + prefix + len(tail)
        if MAX_NAME < length and len(name) <= MAX_OBJECT_NAME:
            job = _quoted(job_name(outline.flow_name, name) + tail)
            yield _too_long(outline.path(i), f"its vcjob {job}", length)


def pods_fit(outline: Outline) -> Iterator[Violation]:
    """Volcano's admission holds `<vcjob>-<task>-<n>` to 63 characters, n counting the tasks
    (validateK8sPodNameLength); with a plugin that makes it a hostname every pod's name has to fit.
    """
    prefix = len(outline.flow_name) + 1
    longest = max((len(kind.pods.longest) for kind in outline.kinds), default=0)
    if prefix + outline.longest_name + outline.longest_tail + longest <= MAX_NAME:
        return
    said = -1
    for use in outline.uses:
        step, names = use.step, outline.names
        length = len(names[step]) + prefix + len(use.pods.longest)
        if length + outline.longest_tail <= MAX_NAME or step == said:
            continue
        tail = outline.planned[step].longest
        job = len(names[step]) + prefix + len(tail)
        if job <= MAX_NAME < length + len(tail):
            said = step
            pod = job_name(outline.flow_name, names[step]) + tail + use.pods.longest
            yield _too_long(outline.path(step), f"its pod {_quoted(pod)}", len(pod))


def _too_long(path: str, what: str, length: int) -> Violation:
    detail = (
        f"{what} would have {length} characters, and Volcano takes at most {MAX_NAME}; "
        f"shorten the name of the step or of the flow by {length - MAX_NAME}"
    )
    return Violation(f"{path}.name", Reason.TOO_LONG, None, detail)


def _quoted(name: str) -> str:
    return f'"{name}"' if len(name) <= 100 else f'"{name[:60]}…{name[-30:]}"'


def hostnames_are_labels(outline: Outline) -> Iterator[Violation]:
    """A hostname has no dots: a pod that is to have one is refused by the API server."""
    if "." not in outline.flow_name and not any("." in name for name in outline.names):
        return
    said = -1
    for use in outline.uses:
        name = job_name(outline.flow_name, outline.names[use.step])
        if "." in name and use.pods.hostname_plugin and use.step != said:
            said = use.step
            detail = (
                f'its vcjob "{name}" has the plugin {use.pods.hostname_plugin}, which makes the '
                'names of its pods their hostnames, and these cannot hold "."; write "-" instead'
            )
            path = f"{outline.path(use.step)}.name"
            yield Violation(path, Reason.INVALID, outline.names[use.step], detail)


GENERATED_RULES = (
    Group[Rule](
        anything,
        (
            jobs_fit,
            pods_fit,
            hostnames_are_labels,
        ),
    ),
)
