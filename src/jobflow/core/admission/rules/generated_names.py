"""The rules of the names that JobFlow and Volcano make for a flow: those of vcjobs and of pods.

They look at names only; whether Volcano would take a vcjob's spec is `patch_rules`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from jobflow.core.admission.analysis.flow_facts import FlowFacts
from jobflow.core.admission.analysis.job_counts import Planned, heads, origins
from jobflow.core.admission.analysis.resolved_specs import ResolvedStep
from jobflow.core.admission.object_names import MAX_OBJECT_NAME
from jobflow.core.admission.rule import Group, Rule, anything
from jobflow.core.names import MAX_NAME, format_job_name
from jobflow.core.pods.names import PodNames
from jobflow.core.violations import Reason, Violation


def jobs_fit(facts: FlowFacts) -> Iterator[Violation]:
    """A vcjob's name is a label of its pods, and Volcano's admission takes no longer one."""
    prefix = len(facts.flow_name) + 1
    room = MAX_NAME - prefix - facts.longest_tail
    if facts.longest_name <= room:
        return
    for i, name in enumerate(facts.names):
        tail = facts.planned[i].longest
        length = len(name) + prefix + len(tail)
        if MAX_NAME < length and len(name) <= MAX_OBJECT_NAME:
            job = _quoted(format_job_name(facts.flow_name, name) + tail)
            yield _too_long(facts.path(i), f"its vcjob {job}", length)


def pods_fit(facts: FlowFacts) -> Iterator[Violation]:
    """Volcano's admission holds `<vcjob>-<task>-<n>` to 63 characters, n counting the tasks
    (validateK8sPodNameLength); with a plugin that makes it a hostname every pod's name has to fit.
    """
    prefix = len(facts.flow_name) + 1
    longest = max((len(kind.pods.longest) for kind in facts.resolved_specs), default=0)
    if prefix + facts.longest_name + facts.longest_tail + longest <= MAX_NAME:
        return
    said = -1
    for use in facts.resolved_steps:
        step, names = use.step, facts.names
        length = len(names[step]) + prefix + len(use.pods.longest)
        if length + facts.longest_tail <= MAX_NAME or step == said:
            continue
        tail = facts.planned[step].longest
        job = len(names[step]) + prefix + len(tail)
        if job <= MAX_NAME < length + len(tail):
            said = step
            pod = format_job_name(facts.flow_name, names[step]) + tail + use.pods.longest
            yield _too_long(facts.path(step), f"its pod {_quoted(pod)}", len(pod))


def _too_long(path: str, what: str, length: int) -> Violation:
    detail = (
        f"{what} would have {length} characters, and Volcano takes at most {MAX_NAME}; "
        f"shorten the name of the step or of the flow by {length - MAX_NAME}"
    )
    return Violation(f"{path}.name", Reason.TOO_LONG, None, detail)


def _quoted(name: str) -> str:
    return f'"{name}"' if len(name) <= 100 else f'"{name[:60]}…{name[-30:]}"'


def hostnames_are_labels(facts: FlowFacts) -> Iterator[Violation]:
    """A hostname has no dots: a pod that is to have one is refused by the API server."""
    if "." not in facts.flow_name and not any("." in name for name in facts.names):
        return
    said = -1
    for use in facts.resolved_steps:
        name = format_job_name(facts.flow_name, facts.names[use.step])
        if "." in name and use.pods.hostname_plugin and use.step != said:
            said = use.step
            detail = (
                f'its vcjob "{name}" has the plugin {use.pods.hostname_plugin}, which makes the '
                'names of its pods their hostnames, and these cannot hold "."; write "-" instead'
            )
            path = f"{facts.path(use.step)}.name"
            yield Violation(path, Reason.INVALID, facts.names[use.step], detail)


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


def jobs_are_unique(facts: FlowFacts) -> Iterator[Violation]:
    """Item 0 of step `a` is the vcjob `<flow>-a-0`, and so is step `a-0`. A step that has a loop
    itself always has more behind its name than another could give it."""
    if not facts.repeats_names:
        return
    position = _positions(facts)
    for i, name in enumerate(facts.names):
        if facts.planned[i].runs is None and len(name) <= MAX_NAME:
            for base, index, retry in origins(name):
                other = position.get(base)
                if other is not None and facts.planned[other].has(index, retry):
                    detail = (
                        f'step "{base}" makes a vcjob of this name too, '
                        f"{_which(index, retry)}; rename one of the steps"
                    )
                    job = format_job_name(facts.flow_name, name)
                    yield Violation(f"{facts.path(i)}.name", Reason.DUPLICATE, job, detail)


def _positions(facts: FlowFacts) -> Mapping[str, int]:
    """Of each step by its name; of several with one name the first."""
    last = len(facts.names) - 1
    return {name: last - i for i, name in enumerate(reversed(facts.names))}


def _which(index: int | None, retry: int) -> str:
    parts = [] if index is None else [f"its run {index}"]
    return ", ".join([*parts, f"retry {retry}"] if retry else parts)


class _Clash(NamedTuple):
    """Tasks of two vcjobs that make pods of one name."""

    shorter: str
    """The task of the vcjob with the shorter name."""
    longer: str


def pods_are_unique(facts: FlowFacts) -> Iterator[Violation]:
    """Step a with task b-c and step a-b with task c make pods of the same names, and Volcano
    takes a pod that exists already for its own. So does step a with task r1-b, once it is tried
    again.

    So one vcjob's name begins with the other's and a dash, and what is left of it begins a task of
    the other.
    """
    pods = {id(kind.pods): kind.pods for kind in facts.resolved_specs}
    if not any("-" in task for each in pods.values() for task in each.tasks):
        return
    search = _Search(facts, pods)
    said = set()
    for use in facts.resolved_steps:
        for violation in search.violations(use):
            if (violation.path, violation.value) not in said:
                said.add((violation.path, violation.value))
                yield violation


class _Attempts(NamedTuple):
    """Tasks of one template that make pods of one name in two attempts of a run."""

    retry: int
    """Which attempt after the first the second of them belongs to."""
    task: str
    again: str


class _Search:
    """For one flow."""

    def __init__(self, facts: FlowFacts, pods: Mapping[int, PodNames]) -> None:
        self._facts = facts
        self._uses: dict[str, list[ResolvedStep]] = {}
        for use in facts.resolved_steps:
            self._uses.setdefault(facts.names[use.step], []).append(use)
        self._rests = {key: _rests(each.tasks) for key, each in pods.items()}
        self._known = frozenset(text for rests in self._rests.values() for text in rests)
        """All that a task begins with."""
        self._headed = facts.repeats_names and any(
            len(list(islice(heads(task), 2))) > 1 for each in pods.values() for task in each.tasks
        )
        """Whether a task begins like what stands behind a step's name."""
        self._tasks = {key: frozenset(each.tasks) for key, each in pods.items()}
        self._attempts = {key: _of_attempts(each.tasks) for key, each in pods.items()}
        self._found: dict[tuple[int, int, str, Planned], _Clash | None] = {}

    def violations(self, longer: ResolvedStep) -> Iterator[Violation]:
        """Of pods that this use makes, and another use whose name is a beginning of its own, or
        the same use at another attempt."""
        name = self._facts.names[longer.step]
        attempts = self._attempts[id(longer.pods)]
        if attempts and attempts.retry <= self._facts.planned[longer.step].retries:
            yield self._told_of_attempts(longer, attempts)
        for at in self._ends(name, longer):
            for other in self._made(name[:at]):  # never the same step: with runs it has more
                clash = self._clash(other, longer, name[at + 1 :])
                if clash is not None:
                    yield self._told(other, longer, clash, name[:at])

    def _ends(self, name: str, use: ResolvedStep) -> list[int]:
        """Where in a step's name another vcjob's may end, so that its tasks can make up the rest;
        behind it too, where only the index is left."""
        ends = [at for at in _dashes(name) if name[at + 1 :] in self._known]
        if self._headed and len(name) <= MAX_NAME:
            if self._facts.planned[use.step].runs is not None:
                ends.append(len(name))
        return ends

    def _made(self, name: str) -> Iterator[ResolvedStep]:
        """The uses that may make a vcjob of this name; the flow's is left out of it."""
        yield from (use for use in self._uses.get(name, ()) if self._has(use, None, 0))
        if self._facts.repeats_names:
            for base, index, retry in origins(name):
                yield from (use for use in self._uses.get(base, ()) if self._has(use, index, retry))

    def _has(self, use: ResolvedStep, index: int | None, retry: int) -> bool:
        return self._facts.planned[use.step].has(index, retry)

    def _clash(self, shorter: ResolvedStep, longer: ResolvedStep, more: str) -> _Clash | None:
        """`more`: what stands behind the one's name in the other's, up to its index or retry."""
        rests = self._rests[id(shorter.pods)].get(more)
        if not rests:
            return None
        planned = self._facts.planned[longer.step]
        key = (id(shorter.pods), id(longer.pods), more, planned)
        if key not in self._found:
            tasks = self._tasks[id(longer.pods)]
            found = (
                _Clash(f"{more}-{rest}" if more else rest, task)
                for rest in rests
                for index, retry, task in heads(rest)
                if task in tasks and planned.has(index, retry)
            )
            self._found[key] = next(found, None)
        return self._found[key]

    def _told_of_attempts(self, use: ResolvedStep, found: _Attempts) -> Violation:
        name = self._facts.names[use.step]
        detail = (
            f'the attempts make pods of one name, the first for its task "{found.task}", '
            f'retry {found.retry} for its task "{found.again}"; rename one of the tasks'
        )
        run = "" if self._facts.planned[use.step].runs is None else "-0"
        pod = f"{format_job_name(self._facts.flow_name, name)}{run}-{found.task}-0"
        return Violation(f"{self._facts.path(use.step)}.name", Reason.DUPLICATE, pod, detail)

    def _told(
        self, shorter: ResolvedStep, longer: ResolvedStep, clash: _Clash, job: str
    ) -> Violation:
        """`job`: the vcjob with the shorter name, without the flow's."""
        names = self._facts.names
        first, second = (shorter.step, clash.shorter), (longer.step, clash.longer)
        if first > second:
            first, second = second, first
        detail = (
            f'a pod of step "{names[first[0]]}" (task "{first[1]}") would have the same name as '
            f'one of this step (task "{second[1]}"); rename one of them'
        )
        pod = f"{format_job_name(self._facts.flow_name, job)}-{clash.shorter}-0"
        return Violation(f"{self._facts.path(second[0])}.name", Reason.DUPLICATE, pod, detail)


def _of_attempts(tasks: Sequence[str]) -> _Attempts | None:
    """The first two that clash: `r1-b`, and `b` once it is tried again."""
    names = frozenset(tasks)
    found = (
        _Attempts(retry, task, again)
        for task in tasks
        for index, retry, again in heads(task)
        if index is None and retry and again in names
    )
    return min(found, default=None)


def _rests(tasks: Sequence[str]) -> Mapping[str, Sequence[str]]:
    """By what tasks begin with, up to a dash, what follows that; by nothing, all of them."""
    rests: dict[str, list[str]] = {"": [*tasks]}
    for task in tasks:
        for at in _dashes(task):
            rests.setdefault(task[:at], []).append(task[at + 1 :])
    return rests


def _dashes(name: str) -> list[int]:
    """Where in a name its dashes are; none in one that is refused for its length."""
    return [i for i, c in enumerate(name) if c == "-"] if len(name) <= MAX_NAME else []


CLASH_RULES = (
    Group[Rule](lambda facts: facts.repeats_names, (jobs_are_unique,)),
    Group[Rule](lambda facts: facts.resolved_specs, (pods_are_unique,)),
)
