"""The rules of probes: what a flow says of them, held against the tasks of known templates.

Sources: DESIGN §1 and §4, RFC 9110 for what a request may carry, RFC 9112 for the headers that
belong to the connection. Whether a probe holds is decided elsewhere: nothing here looks at a pod.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from urllib.parse import quote

from jobflow.api.jobflow import (
    HTTPGetProbe,
    HTTPHeader,
    Probe,
    Strategy,
    TaskStatusProbe,
    TCPSocketProbe,
)
from jobflow.api.pod import PodPhase
from jobflow.core.admission.analysis.flow_facts import AnyEntry, Entry, FlowFacts
from jobflow.core.admission.analysis.known_tasks import Tasks
from jobflow.core.admission.rule import Group, Rule
from jobflow.core.suggest import Suggester, did_you_mean, list_supported
from jobflow.core.violations import Reason, Violation, some

MAX_ENTRIES = 32
"""Of the three lists of a probe together: each is judged for every target, and a request is sent to
every pod of its task, round after round."""
MAX_TEXT = 2048
"""Characters of a path, of a header's name and of its value; servers read 8 KiB of all together."""
Asked = HTTPGetProbe | TCPSocketProbe | TaskStatusProbe

PHASES = (PodPhase.PENDING, PodPhase.RUNNING, PodPhase.SUCCEEDED, PodPhase.FAILED)
"""What pods can be waited for in."""

_ENDS = frozenset({PodPhase.SUCCEEDED, PodPhase.FAILED})
_MEANT = {"complete": PodPhase.SUCCEEDED, "completed": PodPhase.SUCCEEDED}
"""What a vcjob is called of which the pods have succeeded."""
_GUESSED = 10
"""Templates among whose tasks the one that was meant is looked for."""
_TASK = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
_PATH = re.compile(r"/[!\"$-~]*")
_VISIBLE = "".join(map(chr, range(0x21, 0x7F)))
_TOKEN = re.compile(r"[-!#$%&'*+.^_`|~0-9A-Za-z]+")
_NOT_TOKEN = re.compile(r"[^-!#$%&'*+.^_`|~0-9A-Za-z]+")
_VALUE = re.compile(r"[\t -~]*")
_OF_THE_CONNECTION = frozenset(
    ["connection", "content-length", "expect", "keep-alive", "proxy-connection", "te", "trailer"]
    + ["transfer-encoding", "upgrade"]
)
"""What tells the other end how to read this connection. `Host` is not among them: one pod may serve
several hosts, and whatever it says, the request goes to the pod's own address."""


def probes_have_targets(facts: FlowFacts) -> Iterator[Violation]:
    for i, _ in facts.probes:
        if not facts.steps[i].targets:
            detail = "a probe looks into the jobs of targets; name the steps whose jobs are meant"
            yield Violation(f"spec.flows[{i}].dependsOn.targets", Reason.REQUIRED, None, detail)


def probes_look_into_one_job(facts: FlowFacts) -> Iterator[Violation]:
    """A probe asks the pods of a target's job; a step with items has many at once."""
    looped = {i for i, step in facts.controlled_steps if step.for_each is not None}
    for i, _ in facts.probes if looped else ():
        for at, target in enumerate(facts.steps[i].targets):
            if facts.graph.index.get(target, i) in looped:
                detail = (
                    "has forEach, so it has many jobs at once, and a probe looks into one; wait "
                    "for a condition of it, or put the probe on a step without items"
                )
                path = f"spec.flows[{i}].dependsOn.targets[{at}]"
                yield Violation(path, Reason.INVALID, target, detail)


def probes_are_short(facts: FlowFacts) -> Iterator[Violation]:
    for i, probe in facts.probes:
        if (count := len(_asked(probe))) > MAX_ENTRIES:
            detail = (
                f"{count} entries in its lists, but a probe has at most {MAX_ENTRIES}; leave out "
                "what follows from the others"
            )
            yield Violation(f"spec.flows[{i}].dependsOn.probe", Reason.TOO_MANY, count, detail)


def entries_are_said_once(facts: FlowFacts) -> Iterator[Violation]:
    seen: dict[tuple[int, object], AnyEntry] = {}
    for entry in facts.entries:
        first = seen.setdefault((entry.step, entry.asked), entry)
        if first is not entry:
            detail = f"the same as {first.place}; take one of them out"
            yield Violation(entry.path, Reason.DUPLICATE, entry.asked, detail)


def entries_name_tasks(facts: FlowFacts) -> Iterator[Violation]:
    """A name that no task can have is told where there is no template to tell it by."""
    for entry in facts.entries:
        name = entry.asked.task_name
        if not name:
            detail = "say which task of the targets' jobs is meant"
            yield Violation(f"{entry.path}.taskName", Reason.REQUIRED, name, detail)
        elif not _TASK.fullmatch(name) and not _groups(facts, entry.step):
            detail = (
                "no task has such a name: at most 63 lower-case letters, digits and "
                '"-", which neither begins nor ends it'
            )
            yield Violation(f"{entry.path}.taskName", Reason.INVALID, name, detail)


class _Group(NamedTuple):
    """Targets of a step whose jobs have the same tasks."""

    targets: list[str]
    tasks: Tasks


def _groups(facts: FlowFacts, step: int) -> list[_Group]:
    """The targets of a step as far as their templates are known."""
    found: dict[int, _Group] = {}
    for target in facts.graph.targets[step]:
        if (tasks := facts.tasks.get(target)) is not None:
            if (group := found.get(id(tasks))) is None:
                group = found[id(tasks)] = _Group([], tasks)
            group.targets.append(facts.names[target])
    return list(found.values())


def targets_have_what_is_asked(facts: FlowFacts) -> Iterator[Violation]:
    """The tasks, and as many pods of them. A target that is not known may have everything, and
    with strategy `any` one that has everything will do."""
    if not facts.probes or not facts.tasks:
        return
    unfit = {
        i: groups
        for i, probe in facts.probes
        if not _suits(facts, i, probe) and (groups := _unfit(facts, i, probe))
    }
    guesses = _Guesses()
    for entry in facts.entries if unfit else ():
        for group in unfit.get(entry.step, ()):
            if entry.asked.task_name and not _fits(entry.asked, group.tasks):
                yield _misfit(entry, entry.asked.task_name, group, guesses)


def _suits(facts: FlowFacts, step: int, probe: Probe) -> bool:
    """Whether every known target has everything: the short way, for most have."""
    asked, last = _asked(probe), None
    for target in facts.graph.targets[step] if len(asked) <= MAX_ENTRIES else ():
        tasks = facts.tasks.get(target)
        if tasks is None or tasks is last:
            continue
        last = tasks
        for each in asked:
            if each.task_name and not _fits(each, tasks):
                return False
    return True


def _unfit(facts: FlowFacts, step: int, probe: Probe) -> list[_Group]:
    """The targets because of which the probe can never hold."""
    groups, asked = _groups(facts, step), _asked(probe)
    unfit = [
        group
        for group in groups
        if not all(_fits(each, group.tasks) for each in asked if each.task_name)
    ]
    depends_on = facts.steps[step].depends_on
    if unfit and depends_on is not None and depends_on.strategy == Strategy.ANY:
        known = sum(len(group.targets) for group in groups)
        if len(unfit) < len(groups) or known < len(set(depends_on.targets or ())):
            return []
    return unfit


def _asked(probe: Probe) -> list[Asked]:
    return [
        *(probe.http_get_list or ()),
        *(probe.tcp_socket_list or ()),
        *(probe.task_status_list or ()),
    ]


def _fits(asked: Asked, tasks: Tasks) -> bool:
    """Whether there is such a task, with as many pods as are asked for."""
    pods = tasks.get(asked.task_name or "", -1)
    return pods is None or _least(asked) <= pods


def _least(asked: Asked) -> int:
    """How many pods there have to be at least: one to answer a request."""
    return (asked.count or 0) if isinstance(asked, TaskStatusProbe) else 1


class _Guesses:
    """What task was meant, at a cost that is bounded however many templates there are."""

    def __init__(self) -> None:
        self._by_tasks: dict[int, Suggester] = {}

    def nearest(self, name: str, tasks: Tasks) -> str | None:
        """The task whose name is most like this one."""
        if id(tasks) not in self._by_tasks:
            if len(self._by_tasks) == _GUESSED:
                return None
            self._by_tasks[id(tasks)] = Suggester(list(tasks), budget=100)
        return self._by_tasks[id(tasks)].nearest(name)


def _misfit(entry: AnyEntry, name: str, group: _Group, guesses: _Guesses) -> Violation:
    several = len(group.targets) > 1
    targets = f"{'targets' if several else 'target'} {some(_quoted(group.targets))}"
    path = f"{entry.path}.taskName"
    if name not in group.tasks:
        meant = did_you_mean(guesses.nearest(name, group.tasks)) or _instead(group.tasks)
        detail = f"{targets} {'have' if several else 'has'} no such task{meant}"
        return Violation(path, Reason.INVALID, name, detail)
    pods = group.tasks[name]
    task = f'task "{name}" of {targets} has {pods or "no"} {"pod" if pods == 1 else "pods"}'
    if not isinstance(entry.asked, TaskStatusProbe):
        return Violation(path, Reason.INVALID, name, f"{task}, so nobody can answer")
    detail = f"{task}; leave count out to ask for all there are"
    return Violation(f"{entry.path}.count", Reason.INVALID, entry.asked.count, detail)


def _instead(tasks: Tasks) -> str:
    return f"; there is {some(_quoted(tasks))}" if tasks else ""


def _quoted(names: Sequence[str] | Tasks) -> list[str]:
    return [f'"{name}"' for name in names]


def ports_are_ports(facts: FlowFacts) -> Iterator[Violation]:
    asked: list[Entry[HTTPGetProbe] | Entry[TCPSocketProbe]]
    asked = [*facts.requests, *facts.connections]
    for entry in asked:
        port = entry.asked.port
        if port is None:
            detail = "say which port of the pods is meant"
            yield Violation(f"{entry.path}.port", Reason.REQUIRED, None, detail)
        elif not 1 <= port <= 65535:
            detail = "a port is a number from 1 to 65535"
            yield Violation(f"{entry.path}.port", Reason.INVALID, port, detail)


def paths_are_paths(facts: FlowFacts) -> Iterator[Violation]:
    for entry in facts.requests:
        text = entry.asked.path
        if not text:
            detail = 'say what to ask the pods for, such as "/healthz"'
            yield Violation(f"{entry.path}.path", Reason.REQUIRED, text, detail)
        elif len(text) > MAX_TEXT:
            yield _too_long(f"{entry.path}.path", text)
        elif not _PATH.fullmatch(text):
            detail = _what_is_wrong_with_path(text)
            yield Violation(f"{entry.path}.path", Reason.INVALID, text, detail)


def _too_long(path: str, text: str) -> Violation:
    detail = f"{len(text)} characters, and a probe sends at most {MAX_TEXT}"
    return Violation(path, Reason.TOO_LONG, text, detail)


def _what_is_wrong_with_path(text: str) -> str:
    if "://" in text:
        return 'only the path is said, from its "/" on: it is the pods of the task that are asked'
    guess = quote(text.strip().partition("#")[0], safe=_VISIBLE, errors="replace")
    if not text.startswith("/"):
        return f'a path begins with "/"; "/{guess.lstrip("/")}" would do'
    return f'a path holds visible ASCII characters alone, and no "#"; "{guess}" would do'


def headers_can_be_sent(facts: FlowFacts) -> Iterator[Violation]:
    headers = {entry.asked.http_header for entry in facts.requests}
    wrong = {header for header in headers if header is not None and any(_header(header, ""))}
    for entry in facts.requests if wrong else ():
        if (header := entry.asked.http_header) in wrong and header is not None:
            yield from _header(header, f"{entry.path}.httpHeader")


def _header(header: HTTPHeader, path: str) -> Iterator[Violation]:
    if header.name or header.value:
        yield from _header_name(f"{path}.name", header.name)
        yield from _header_value(f"{path}.value", header.value)


def _header_name(path: str, name: str | None) -> Iterator[Violation]:
    if not name:
        yield Violation(path, Reason.REQUIRED, name, "a header has a name")
    elif len(name) > MAX_TEXT:
        yield _too_long(path, name)
    elif not _TOKEN.fullmatch(name):
        guess = _NOT_TOKEN.sub("", name)
        would = f'; "{guess}" would do' if guess else ""
        detail = f"the name of a header holds no blanks, colons and the like{would}"
        yield Violation(path, Reason.INVALID, name, detail)
    elif name.lower() in _OF_THE_CONNECTION:
        detail = "this header is about the connection, which is the probe's own; take it out"
        yield Violation(path, Reason.INVALID, name, detail)


def _header_value(path: str, value: str | None) -> Iterator[Violation]:
    if value is None:
        yield Violation(path, Reason.REQUIRED, None, 'a header has a value, if only ""')
    elif len(value) > MAX_TEXT:
        yield _too_long(path, value)
    elif not _VALUE.fullmatch(value):
        detail = "the value of a header is one line of ASCII, without control characters"
        yield Violation(path, Reason.INVALID, value, detail)


def phases_are_those_of_pods(facts: FlowFacts) -> Iterator[Violation]:
    for entry in facts.task_statuses:
        phase = entry.asked.phase
        if not phase:
            detail = f"say which phase to wait for: {', '.join(_quoted(PHASES))}"
            yield Violation(f"{entry.path}.phase", Reason.REQUIRED, phase, detail)
        elif phase not in PHASES:
            detail = _known_phases(phase)
            yield Violation(f"{entry.path}.phase", Reason.NOT_SUPPORTED, phase, detail)


def _known_phases(phase: str) -> str:
    detail = list_supported(phase, PHASES)
    if phase == PodPhase.UNKNOWN:
        return f"{detail}; a pod is Unknown while its node is lost, which is nothing to wait for"
    if (meant := _MEANT.get(phase.lower())) is not None:
        return detail + did_you_mean(meant)
    return detail


def phases_go_together(facts: FlowFacts) -> Iterator[Violation]:
    """A pod that has Succeeded does not become Failed, nor the other way round."""
    ends: dict[tuple[int, str], Entry[TaskStatusProbe]] = {}
    for entry in facts.task_statuses:
        if (phase := entry.asked.phase) not in _ENDS:
            continue
        first = ends.setdefault((entry.step, entry.asked.task_name or ""), entry)
        if first.asked.phase != phase and None in (entry.asked.count, first.asked.count):
            detail = (
                f"{first.place} asks for {first.asked.phase} of the same pods, and a pod ends but "
                "once; say in count how many are to end which way"
            )
            yield Violation(f"{entry.path}.phase", Reason.INVALID, phase, detail)


def counts_are_of_pods(facts: FlowFacts) -> Iterator[Violation]:
    for entry in facts.task_statuses:
        if (count := entry.asked.count) is not None and count < 1:
            detail = "must be at least 1; leave count out to ask for every pod of the task"
            yield Violation(f"{entry.path}.count", Reason.INVALID, count, detail)


PROBE_RULES = (
    Group[Rule](
        lambda facts: facts.probes,
        (
            probes_have_targets,
            probes_look_into_one_job,
            probes_are_short,
            entries_are_said_once,
            entries_name_tasks,
            targets_have_what_is_asked,
            ports_are_ports,
            paths_are_paths,
            headers_can_be_sent,
            phases_are_those_of_pods,
            phases_go_together,
            counts_are_of_pods,
        ),
    ),
)
