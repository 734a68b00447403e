"""Rules of probes: targets, tasks, requests (RFC 9110, RFC 9112) and phases."""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeVar
from urllib.parse import quote

from jobflow.api.flow.step import HTTPGetProbe, Probe, Strategy, TaskStatusProbe
from jobflow.api.volcano.pod import PodPhase
from jobflow.core.admission.analysis.flow_facts import FlowFacts
from jobflow.core.admission.analysis.jobs.resolved_specs import Tasks
from jobflow.core.admission.analysis.places import Asked, ProbeEntry
from jobflow.core.admission.object_names import DNS_LABEL
from jobflow.core.admission.rule import RuleGroup, Rules
from jobflow.core.spec.readiness import get_strategy
from jobflow.core.suggest import did_you_mean, list_supported
from jobflow.core.text import join_names
from jobflow.core.violations import Reason, Violation
from jobflow.core.work import may_run_steps

A = TypeVar("A", HTTPGetProbe, TaskStatusProbe)
MAX_ENTRIES = 32
"""Entries of a probe's three lists: every round evaluates each for every target, and sends a
request to every pod of its task."""
MAX_TEXT = 2048
"""Characters of a path, and of a header's name and value; servers read 8 KiB of all together."""

PHASES = (PodPhase.PENDING, PodPhase.RUNNING, PodPhase.SUCCEEDED, PodPhase.FAILED)

_FINAL_PHASES = frozenset({PodPhase.SUCCEEDED, PodPhase.FAILED})
_SYNONYMS = {"complete": PodPhase.SUCCEEDED, "completed": PodPhase.SUCCEEDED}
"""Phases of a vcjob -> of its pods."""
_PATH = re.compile(r"/[!\"$-~]*")
_VISIBLE = "".join(map(chr, range(0x21, 0x7F)))
_TOKEN = re.compile(r"[-!#$%&'*+.^_`|~0-9A-Za-z]+")
_NOT_TOKEN = re.compile(r"[^-!#$%&'*+.^_`|~0-9A-Za-z]+")
_VALUE = re.compile(r"[\t -~]*")
_OF_THE_CONNECTION = frozenset(
    ["connection", "content-length", "expect", "keep-alive", "proxy-connection", "te", "trailer"]
    + ["transfer-encoding", "upgrade"]
)
"""Headers of the connection: with others than its own, a probe could not read the answer. `Host` is
allowed: one pod may serve several hosts, and the request goes to the pod's own address anyway."""


def probes_have_targets(facts: FlowFacts) -> Iterator[Violation]:
    for i, _ in facts.probes:
        # Volcano would start the step at once, but its author wants it to wait
        if not facts.steps[i].targets:
            detail = "a probe checks the jobs of targets; name the steps whose jobs are meant"
            yield Violation(f"{facts.path(i)}.dependsOn.targets", Reason.REQUIRED, None, detail)


def probes_check_one_job(facts: FlowFacts) -> Iterator[Violation]:
    details: dict[int, list[str]] = {}
    for i, step in facts.steps_with_options:
        if may_run_steps(step):
            detail = (
                "runs a flow, and a probe checks the pods of a job; wait for a condition, or put "
                "the probe into the flow"
            )
            details.setdefault(i, []).append(detail)
        if step.for_each is not None:
            detail = (
                "has forEach, so it has many jobs at once, and a probe checks one; wait for a "
                "condition, or put the probe on a step without forEach"
            )
            details.setdefault(i, []).append(detail)
    for i, _ in facts.probes if details else ():
        wrong = {facts.names[each]: details[each] for each in facts.targets(i) if each in details}
        for at, target in enumerate(facts.steps[i].targets):
            path = f"{facts.path(i)}.dependsOn.targets[{at}]"
            for detail in wrong.get(target, ()):
                yield Violation(path, Reason.INVALID, target, detail)


def probes_are_short(facts: FlowFacts) -> Iterator[Violation]:
    for i, probe in facts.probes:
        if (count := len(_asked(probe))) > MAX_ENTRIES:
            detail = (
                f"{count} entries in its lists, but a probe has at most {MAX_ENTRIES}; remove "
                "entries that follow from others"
            )
            yield Violation(f"{facts.path(i)}.dependsOn.probe", Reason.TOO_MANY, count, detail)


def entries_are_unique(facts: FlowFacts) -> Iterator[Violation]:
    seen: dict[tuple[int, object], ProbeEntry] = {}
    for entry in facts.probe_entries:
        first = seen.setdefault((entry.step, entry.asked), entry)
        # nearly always a copied line that was not changed
        if first is not entry:
            detail = f"the same as {first.place}; remove one of them"
            yield Violation(entry.path, Reason.DUPLICATE, entry.asked, detail)


def entries_name_tasks(facts: FlowFacts) -> Iterator[Violation]:
    # if a template is known, `targets_have_the_tasks` checks the name
    for entry in facts.probe_entries:
        name = entry.asked.task_name
        if name and not DNS_LABEL.fullmatch(name) and not _alike(facts, entry.step):
            detail = (
                'a task\'s name has at most 63 lower-case letters, digits and "-", and begins and '
                "ends with a letter or digit"
            )
            yield Violation(f"{entry.path}.taskName", Reason.INVALID, name, detail)


class _Alike(NamedTuple):
    """Targets of a step whose jobs have the same tasks."""

    targets: list[str]
    tasks: Tasks


def _alike(facts: FlowFacts, step: int) -> list[_Alike]:
    found: dict[int, _Alike] = {}
    for target in facts.targets(step):
        if (tasks := facts.tasks.get(target)) is not None:
            if id(tasks) not in found:
                found[id(tasks)] = _Alike([], tasks)
            found[id(tasks)].targets.append(facts.names[target])
    return list(found.values())


def targets_have_the_tasks(facts: FlowFacts) -> Iterator[Violation]:
    """Checks the tasks and their numbers of pods. An unknown target may have any task, and with
    strategy `any` one target that has all of them is enough."""
    if not facts.probes or not facts.tasks:
        return
    unfit: dict[int, list[_Alike]] = {}
    for i, probe in facts.probes:
        if len(asked := _asked(probe)) > MAX_ENTRIES:
            continue
        named = [each for each in asked if each.task_name]
        groups, step = _alike(facts, i), facts.steps[i]
        wrong = [each for each in groups if not all(_fits(one, each.tasks) for one in named)]
        if wrong and get_strategy(step) is Strategy.ANY:
            known = sum(len(each.targets) for each in groups)
            if len(wrong) < len(groups) or known < len(set(step.targets)):
                continue
        unfit[i] = wrong
    for entry in facts.probe_entries if any(unfit.values()) else ():
        for group in unfit.get(entry.step, ()):
            if entry.asked.task_name and not _fits(entry.asked, group.tasks):
                yield _misfit(facts, entry, entry.asked.task_name, group)


def _asked(probe: Probe) -> list[Asked]:
    return [
        *(probe.http_get_list or ()),
        *(probe.tcp_socket_list or ()),
        *(probe.task_status_list or ()),
    ]


def _fits(asked: Asked, tasks: Tasks) -> bool:
    """Whether the task exists with enough pods: a request needs one."""
    pods = tasks.get(asked.task_name or "", -1)
    needed = (asked.count or 0) if isinstance(asked, TaskStatusProbe) else 1
    return pods is None or needed <= pods


def _misfit(facts: FlowFacts, entry: ProbeEntry, name: str, group: _Alike) -> Violation:
    several = len(group.targets) > 1
    targets = f"{'targets' if several else 'target'} {_join_quoted(group.targets)}"
    path = f"{entry.path}.taskName"
    if name not in group.tasks:
        meant = did_you_mean(facts.tasks.nearest(name, group.tasks))
        if not meant and group.tasks:
            meant = f"; there is {_join_quoted(group.tasks)}"
        detail = f"{targets} {'have' if several else 'has'} no such task{meant}"
        return Violation(path, Reason.INVALID, name, detail)
    pods = group.tasks[name]
    task = f'task "{name}" of {targets} has {pods or "no"} {"pod" if pods == 1 else "pods"}'
    if not isinstance(entry.asked, TaskStatusProbe):
        return Violation(path, Reason.INVALID, name, f"{task}, so no pod can answer")
    detail = f"{task}; leave count out to check all of them"
    return Violation(f"{entry.path}.count", Reason.INVALID, entry.asked.count, detail)


def _join_quoted(names: Iterable[str]) -> str:
    return join_names([f'"{name}"' for name in names])


def ports_are_ports(facts: FlowFacts) -> Iterator[Violation]:
    for entry in facts.probe_entries:
        port = None if isinstance(entry.asked, TaskStatusProbe) else entry.asked.port
        if port is not None and not 1 <= port <= 65535:
            detail = "a port is a number from 1 to 65535"
            yield Violation(f"{entry.path}.port", Reason.INVALID, port, detail)


def _entries(facts: FlowFacts, kind: type[A]) -> Iterator[tuple[ProbeEntry, A]]:
    for entry in facts.probe_entries:
        if isinstance(entry.asked, kind):
            yield entry, entry.asked


def paths_are_paths(facts: FlowFacts) -> Iterator[Violation]:
    for entry, request in _entries(facts, HTTPGetProbe):
        path, text = f"{entry.path}.path", request.path
        if not text:
            continue  # the path is Required
        if len(text) > MAX_TEXT:
            yield _too_long(path, text)
        elif not _PATH.fullmatch(text):
            guess = quote(text.strip().partition("#")[0], safe=_VISIBLE, errors="replace")
            if "://" in text:
                detail = (
                    'set only the path, from its "/" on: the request goes to the pods of the task'
                )
            elif not text.startswith("/"):
                detail = f'a path begins with "/"; "/{guess.lstrip("/")}" would do'
            else:
                detail = (
                    f'a path holds only visible ASCII characters, and no "#"; "{guess}" would do'
                )
            yield Violation(path, Reason.INVALID, text, detail)


def _too_long(path: str, text: str) -> Violation:
    detail = f"{len(text)} characters, and a probe sends at most {MAX_TEXT}"
    return Violation(path, Reason.TOO_LONG, text, detail)


def headers_can_be_sent(facts: FlowFacts) -> Iterator[Violation]:
    for entry, request in _entries(facts, HTTPGetProbe):
        header = request.http_header
        # a probe sends no header that has neither
        if header is None or not (header.name or header.value):
            continue
        path, name = f"{entry.path}.httpHeader.name", header.name
        if not name:
            yield Violation(path, Reason.REQUIRED, name, "a header has a name")
        elif len(name) > MAX_TEXT:
            yield _too_long(path, name)
        elif not _TOKEN.fullmatch(name):
            guess = _NOT_TOKEN.sub("", name)
            hint = f'; "{guess}" would do' if guess else ""
            detail = f"the name of a header holds no spaces, colons or similar characters{hint}"
            yield Violation(path, Reason.INVALID, name, detail)
        elif name.lower() in _OF_THE_CONNECTION:
            detail = "this header belongs to the connection, which is the probe's own; remove it"
            yield Violation(path, Reason.INVALID, name, detail)
        path, value = f"{entry.path}.httpHeader.value", header.value
        if value is None:
            yield Violation(path, Reason.REQUIRED, None, 'a header has a value; it may be ""')
        elif len(value) > MAX_TEXT:
            yield _too_long(path, value)
        elif not _VALUE.fullmatch(value):
            detail = "the value of a header is one line of ASCII, without control characters"
            yield Violation(path, Reason.INVALID, value, detail)


def phases_are_of_pods(facts: FlowFacts) -> Iterator[Violation]:
    for entry, asked in _entries(facts, TaskStatusProbe):
        phase = asked.phase
        if not phase or phase in PHASES:
            continue  # the phase is Required
        detail = list_supported(phase, PHASES)
        if phase == PodPhase.UNKNOWN:
            detail += "; a pod is Unknown while its node is lost, so it is no phase to wait for"
        elif (meant := _SYNONYMS.get(phase.lower())) is not None:
            detail += did_you_mean(meant)
        yield Violation(f"{entry.path}.phase", Reason.NOT_SUPPORTED, phase, detail)


def phases_go_together(facts: FlowFacts) -> Iterator[Violation]:
    # a pod that has Succeeded does not become Failed, and vice versa
    final: dict[tuple[int, str], tuple[ProbeEntry, TaskStatusProbe]] = {}
    for entry, asked in _entries(facts, TaskStatusProbe):
        if asked.phase not in _FINAL_PHASES:
            continue
        key = entry.step, asked.task_name or ""
        first, other = final.setdefault(key, (entry, asked))
        if other.phase != asked.phase and None in (asked.count, other.count):
            detail = (
                f"{first.place} asks for {other.phase} of the same pods, and a pod ends only "
                "once; set count to the number of pods for each phase"
            )
            yield Violation(f"{entry.path}.phase", Reason.INVALID, asked.phase, detail)


def counts_are_positive(facts: FlowFacts) -> Iterator[Violation]:
    for entry, asked in _entries(facts, TaskStatusProbe):
        if (count := asked.count) is not None and count < 1:
            detail = "must be at least 1; leave count out to check every pod of the task"
            yield Violation(f"{entry.path}.count", Reason.INVALID, count, detail)


RULES: Rules = (
    RuleGroup(
        lambda facts: facts.probes,
        (
            probes_have_targets,
            probes_check_one_job,
            probes_are_short,
            entries_are_unique,
            entries_name_tasks,
            targets_have_the_tasks,
            ports_are_ports,
            paths_are_paths,
            headers_can_be_sent,
            phases_are_of_pods,
            phases_go_together,
            counts_are_positive,
        ),
    ),
)
