"""Rules of the names that are generated for vcjobs and pods: length and uniqueness."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from jobflow.core.admission.analysis.flow_facts import FlowFacts
from jobflow.core.admission.analysis.jobs.job_counts import JobCount, origins, prefixes
from jobflow.core.admission.analysis.jobs.resolved_specs import ResolvedStep
from jobflow.core.admission.object_names import MAX_OBJECT_NAME
from jobflow.core.admission.rule import RuleGroup, Rules, every_flow
from jobflow.core.names import MAX_NAME, PodNames, format_job_name
from jobflow.core.violations import Reason, Violation
from jobflow.core.work import may_run_steps


def jobs_fit(facts: FlowFacts) -> Iterator[Violation]:
    # a vcjob's name is a label of its pods, and Volcano's admission accepts no longer one
    prefix = len(facts.flow_name) + 1
    room = MAX_NAME - prefix - facts.longest_suffix
    # nearly every flow ends here: if the longest names fit, all do
    if facts.longest_name <= room:
        return
    for i, name in enumerate(facts.names):
        suffix = facts.job_counts[i].longest_suffix
        length = len(name) + prefix + len(suffix)
        if MAX_NAME < length and len(name) <= MAX_OBJECT_NAME:
            job = _quoted(format_job_name(facts.flow_name, name) + suffix)
            what = "child flow" if may_run_steps(facts.steps[i]) else "vcjob"
            yield _too_long(facts.path(i), f"its {what} {job}", length)


def pods_fit(facts: FlowFacts) -> Iterator[Violation]:
    # Volcano limits `<vcjob>-<task>-<n>`, where n counts the tasks (validateK8sPodNameLength). With
    # a plugin that makes it a hostname, the limit is for every pod
    prefix = len(facts.flow_name) + 1
    longest = max((len(spec.pods.longest) for spec in facts.resolved_specs), default=0)
    if prefix + facts.longest_name + facts.longest_suffix + longest <= MAX_NAME:
        return
    reported = -1
    for use in facts.resolved_steps:
        step, names = use.step, facts.names
        length = len(names[step]) + prefix + len(use.pods.longest)
        if length + facts.longest_suffix <= MAX_NAME or step == reported:
            continue
        suffix = facts.job_counts[step].longest_suffix
        job = len(names[step]) + prefix + len(suffix)
        if job <= MAX_NAME < length + len(suffix):
            reported = step
            pod = format_job_name(facts.flow_name, names[step]) + suffix + use.pods.longest
            yield _too_long(facts.path(step), f"its pod {_quoted(pod)}", len(pod))


def _too_long(path: str, what: str, length: int) -> Violation:
    detail = (
        f"{what} would have {length} characters, and Volcano accepts at most {MAX_NAME}; "
        f"shorten the name of the step or of the flow by {length - MAX_NAME}"
    )
    return Violation(f"{path}.name", Reason.TOO_LONG, None, detail)


def _quoted(name: str) -> str:
    return f'"{name}"' if len(name) <= 100 else f'"{name[:60]}…{name[-30:]}"'


def hostnames_are_labels(facts: FlowFacts) -> Iterator[Violation]:
    # a hostname has no dots: the API server refuses a pod with such a hostname
    if "." not in facts.flow_name and not any("." in name for name in facts.names):
        return
    reported = -1
    for use in facts.resolved_steps:
        name = format_job_name(facts.flow_name, facts.names[use.step])
        if "." in name and use.pods.hostname_plugin and use.step != reported:
            reported = use.step
            detail = (
                f'its vcjob "{name}" has the plugin {use.pods.hostname_plugin}, which makes the '
                'names of its pods their hostnames, and these cannot hold "."; write "-" instead'
            )
            path = f"{facts.path(use.step)}.name"
            yield Violation(path, Reason.INVALID, facts.names[use.step], detail)


def jobs_are_unique(facts: FlowFacts) -> Iterator[Violation]:
    # item 0 of step `a` is the vcjob `<flow>-a-0`, and so is step `a-0`. A step with a loop of its
    # own has a longer suffix than another step could generate for it
    # if two steps have one name, the first is meant
    position = {name: i for i, name in reversed([*enumerate(facts.names)])}
    for i, name in enumerate(facts.names):
        if facts.job_counts[i].runs is None and len(name) <= MAX_NAME:
            for base, index, retry in origins(name):
                other = position.get(base)
                if other is not None and facts.job_counts[other].has(index, retry):
                    run = [] if index is None else [f"its run {index}"]
                    attempt = [f"retry {retry}"] if retry else []
                    detail = (
                        f'step "{base}" makes a vcjob of this name too, '
                        f"{', '.join(run + attempt)}; rename one of the steps"
                    )
                    job = format_job_name(facts.flow_name, name)
                    yield Violation(f"{facts.path(i)}.name", Reason.DUPLICATE, job, detail)


def pods_are_unique(facts: FlowFacts) -> Iterator[Violation]:
    """Step a with task b-c and step a-b with task c generate the same pod names, and so does step a
    with task r1-b when it is retried. Volcano would take the other's pod for its own.

    In a clash, one vcjob's name begins with the other's and a dash, and the remainder begins a task
    of the other.
    """
    pods = {id(spec.pods): spec.pods for spec in facts.resolved_specs}
    # without a dash in a task no remainder can equal one
    if not any("-" in task for each in pods.values() for task in each.tasks):
        return
    search = _ClashSearch(facts, pods)
    reported = set()
    for use in facts.resolved_steps:
        for violation in search.violations(use):
            if (violation.path, violation.value) not in reported:
                reported.add((violation.path, violation.value))
                yield violation


class _ClashSearch:
    def __init__(self, facts: FlowFacts, pods: Mapping[int, PodNames]) -> None:
        self._facts = facts
        self._uses: dict[str, list[ResolvedStep]] = {}
        for use in facts.resolved_steps:
            self._uses.setdefault(facts.names[use.step], []).append(use)
        self._splits = {key: _splits(each.tasks) for key, each in pods.items()}
        self._beginnings = frozenset(text for splits in self._splits.values() for text in splits)
        """Beginnings of all tasks, up to a dash."""
        self._has_numbered_task = facts.has_numbered_jobs and any(
            len(list(islice(prefixes(task), 2))) > 1
            for each in pods.values()
            for task in each.tasks
        )
        """Whether a task begins like the suffix of a job."""
        self._tasks = {key: frozenset(each.tasks) for key, each in pods.items()}
        self._retry_clashes: dict[int, tuple[int, str, str] | None] = {}
        """A retry whose pod gets the name of one of the first attempt: (1, "r1-b", "b")."""
        for key, tasks in self._tasks.items():
            found = (
                (retry, first_task, task)
                for first_task in tasks
                for index, retry, task in prefixes(first_task)
                if index is None and retry and task in tasks
            )
            self._retry_clashes[key] = min(found, default=None)
        self._clashes: dict[tuple[int, int, str, JobCount], tuple[str, str] | None] = {}

    def violations(self, longer: ResolvedStep) -> Iterator[Violation]:
        """Yield the clashes with steps whose name this one's begins with, and of its attempts."""
        facts, i = self._facts, longer.step
        name, count, path = facts.names[i], facts.job_counts[i], f"{facts.path(i)}.name"
        again = self._retry_clashes[id(longer.pods)]
        if again and again[0] <= count.retries:
            retry, first_task, task = again
            detail = (
                f'two attempts generate the same pod name, the first for task "{first_task}", '
                f'retry {retry} for task "{task}"; rename one of the tasks'
            )
            run = "" if count.runs is None else "-0"
            pod = f"{format_job_name(facts.flow_name, name)}{run}-{first_task}-0"
            yield Violation(path, Reason.DUPLICATE, pod, detail)
        # where the name of another vcjob may end, so that its tasks can be the remainder
        ends = [at for at in _dashes(name) if name[at + 1 :] in self._beginnings]
        if self._has_numbered_task and len(name) <= MAX_NAME and count.runs is not None:
            ends.append(len(name))  # the index remains
        for at in ends:
            makers: list[tuple[str, int | None, int]] = [(name[:at], None, 0)]
            if facts.has_numbered_jobs:
                makers += origins(name[:at])
            shorters = (
                use
                for base, index, retry in makers
                for use in self._uses.get(base, ())
                if facts.job_counts[use.step].has(index, retry)
            )
            for shorter in shorters:  # never the same step: its runs have a suffix
                if (clash := self._clash(shorter, longer, name[at + 1 :])) is None:
                    continue
                first, second = sorted([(shorter.step, clash[0]), (i, clash[1])])
                detail = (
                    f'a pod of step "{facts.names[first[0]]}" (task "{first[1]}") would have the '
                    f'same name as one of this step (task "{second[1]}"); rename one of them'
                )
                pod = f"{format_job_name(facts.flow_name, name[:at])}-{clash[0]}-0"
                yield Violation(f"{facts.path(second[0])}.name", Reason.DUPLICATE, pod, detail)

    def _clash(
        self, shorter: ResolvedStep, longer: ResolvedStep, more: str
    ) -> tuple[str, str] | None:
        """Return their tasks whose pods get the same name. `more`: the remainder of the longer
        name, up to its index or retry."""
        rests = self._splits[id(shorter.pods)].get(more)
        if not rests:
            return None
        count = self._facts.job_counts[longer.step]
        key = (id(shorter.pods), id(longer.pods), more, count)
        if key not in self._clashes:
            tasks = self._tasks[id(longer.pods)]
            found = (
                (f"{more}-{rest}" if more else rest, task)
                for rest in rests
                for index, retry, task in prefixes(rest)
                if task in tasks and count.has(index, retry)
            )
            self._clashes[key] = next(found, None)
        return self._clashes[key]


def _splits(tasks: Sequence[str]) -> Mapping[str, Sequence[str]]:
    """Map each beginning of a task, up to a dash, to the remainders; "" to whole tasks."""
    rests: dict[str, list[str]] = {"": [*tasks]}
    for task in tasks:
        for at in _dashes(task):
            rests.setdefault(task[:at], []).append(task[at + 1 :])
    return rests


def _dashes(name: str) -> list[int]:
    """Return the indices of the dashes; none for a name that is refused for its length."""
    return [i for i, c in enumerate(name) if c == "-"] if len(name) <= MAX_NAME else []


RULES: Rules = (
    RuleGroup(every_flow, (jobs_fit, pods_fit, hostnames_are_labels)),
    RuleGroup(lambda facts: facts.has_numbered_jobs, (jobs_are_unique,)),
    RuleGroup(lambda facts: facts.resolved_specs, (pods_are_unique,)),
)
