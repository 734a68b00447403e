"""Simulating runner: pods change their phases by the clock, and nothing is executed.

The annotations of a vcjob under `sandbox.jobflow.volcano.sh/`, or those of the pod template of its
first task, say how. A value that cannot be read is a fault.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from jobflow.api.duration import MAX_SECONDS, parse_duration
from jobflow.api.labels import ATTEMPT, INDEX, SANDBOX_PREFIX
from jobflow.api.volcano.pod import ENDED_POD_PHASES, Pod, PodPhase
from jobflow.core.limits import MAX_MESSAGE_BYTES
from jobflow.core.pods.failure import MAX_FAILURE_REASON
from jobflow.core.pods.outputs import message_limit
from jobflow.core.suggest import Suggester, did_you_mean
from jobflow.sandbox.jobs.objects import Vcjob
from jobflow.sandbox.nodes.runner import Assignment, ContainerProgress, PodProgress, Report

DEFAULT_SECONDS = 1.0
_SIGKILL, _SIGTERM = 128 + 9, 128 + 15
"""Exit codes of containers that are out of memory, and of pods that are evicted."""
_OUT_OF_MEMORY = "OOMKilled"
LISTED_PHASES = (PodPhase.PENDING, PodPhase.RUNNING, PodPhase.SUCCEEDED, PodPhase.FAILED)


@dataclass(frozen=True, slots=True)
class PhaseChange:
    at: float
    phase: PodPhase
    exit_code: int = 0
    message: str = ""
    reason: str = ""
    disrupted: bool = False


Phases = tuple[tuple[PodPhase, float], ...]
"""Phases of a task's pods, and the seconds from the start at which they begin."""


@dataclass(frozen=True, slots=True)
class SimulationScript:
    attempt: int = 1
    index: int | None = None
    """Index of the item or repeat, from 0; None if the step has one run."""
    duration: float | None = None
    exit_code: int = 0
    fail_attempts: int = 0
    failure_reason: str = ""
    disrupt_attempts: int = 0
    outputs: tuple[str, ...] = ()
    phases: Mapping[str, Phases] = field(default_factory=dict)

    def marks(self, task: str) -> tuple[PhaseChange, ...]:
        """Return the phase changes of a task's pods, in order."""
        is_evicted = self.attempt <= self.disrupt_attempts
        fails = self.attempt <= self.fail_attempts
        failing = self.exit_code or (_SIGKILL if self.failure_reason == _OUT_OF_MEMORY else 1)
        # Runs of a loop differ by their index, other runs by their attempt.
        turn = self.attempt - 1 if self.index is None else self.index
        message = self.outputs[min(turn, len(self.outputs) - 1)] if self.outputs else ""

        def end(at: float, code: int) -> PhaseChange:
            if is_evicted:
                return PhaseChange(at, PodPhase.FAILED, _SIGTERM, disrupted=True)
            phase = PodPhase.FAILED if code else PodPhase.SUCCEEDED
            return PhaseChange(at, phase, code, message, self.failure_reason if code else "")

        # Attempts after `fail-attempts` succeed, whatever `exit-code` is.
        code = failing if fails else 0 if self.fail_attempts else self.exit_code
        # A task without listed phases runs from its start to its end.
        if (listed := self.phases.get(task)) is None:
            seconds = DEFAULT_SECONDS if self.duration is None else self.duration
            return (PhaseChange(0.0, PodPhase.RUNNING), end(seconds, code))
        marks = []
        for phase, at in listed:
            if phase is PodPhase.RUNNING:
                marks.append(PhaseChange(at, phase))
            elif phase is not PodPhase.PENDING:
                marks.append(end(at, failing if fails or phase is PodPhase.FAILED else 0))
        if self.duration is None or (marks and marks[-1].phase in ENDED_POD_PHASES):
            return tuple(marks)
        before = [mark for mark in marks if mark.at < self.duration]
        return (*before, end(self.duration, code))


def annotations_of(own: Mapping[str, str] | None, pod_template: Any) -> dict[str, str]:
    """Return the annotations of a vcjob, with those under our prefix of the pod template of its
    first task, which may be any JSON."""
    metadata = pod_template.get("metadata") if isinstance(pod_template, dict) else None
    of_pods = metadata.get("annotations") if isinstance(metadata, dict) else None
    more = of_pods.items() if isinstance(of_pods, dict) else ()
    ours = {key: text for key, text in more if key.startswith(SANDBOX_PREFIX)}
    return {**(own or {}), **{key: text for key, text in ours.items() if isinstance(text, str)}}


def read_script(
    annotations: Mapping[str, str], labels: Mapping[str, str], tasks: Iterable[str]
) -> tuple[SimulationScript, tuple[str, ...]]:
    """Return the script of a vcjob with these tasks, and all faults in it."""
    names = tuple(tasks)
    readers: dict[str, tuple[str, Callable[[str], Any]]] = {
        "duration": ("duration", parse_duration),
        "exit-code": ("exit_code", lambda text: _count(text, 255, "an exit code")),
        "fail-attempts": ("fail_attempts", _count),
        "failure-reason": ("failure_reason", _reason),
        "disrupt-attempts": ("disrupt_attempts", _count),
        "output": ("outputs", _outputs),
        "task-phases": ("phases", lambda text: _task_phases(text, names)),
    }
    fields: dict[str, Any] = {}
    faults = []
    # In order of names, so that faults are the same each time.
    for key in sorted(annotations):
        if not key.startswith(SANDBOX_PREFIX):
            continue
        word = key.removeprefix(SANDBOX_PREFIX)
        # A misspelt setting would otherwise silently do nothing.
        if word not in readers:
            guess = Suggester(tuple(readers)).nearest(word)
            faults.append(f"annotation {key}: no such setting{did_you_mean(guess)}")
            continue
        name, read = readers[word]
        try:
            fields[name] = read(annotations[key])
        except ValueError as error:
            faults.append(f"annotation {key}: {_quoted(annotations[key])} {error}")
    for name, label in (("attempt", ATTEMPT), ("index", INDEX)):
        try:
            if label in labels:
                fields[name] = _count(labels[label])
            if label == ATTEMPT and fields.get(name) == 0:
                raise ValueError("is not an attempt: attempts count from 1")
        except ValueError as error:
            faults.append(f"label {label}: {_quoted(labels[label])} {error}")
    return SimulationScript(**fields), tuple(faults)


def _quoted(value: str) -> str:
    return f'"{value}"' if len(value) <= 80 else f'"{value[:80]}…"'


def _count(text: str, most: int = 999_999_999, what: str = "a count") -> int:
    if text.isascii() and text.isdigit() and len(text) < 10 and int(text) <= most:
        return int(text)
    limits = "up" if most > 255 else f"to {most}"
    raise ValueError(f"is not {what}: write a whole number from 0 {limits}")


def _reason(text: str) -> str:
    if text.isascii() and text.isalpha() and len(text) <= MAX_FAILURE_REASON:
        return text
    raise ValueError("is not a reason: write one word, such as OOMKilled")


def _outputs(text: str) -> tuple[str, ...]:
    if not text.lstrip().startswith("["):
        return (_message(text),)
    try:
        entries = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        why = f"begins like a list but is not JSON ({error}); put such text into a list"
        raise ValueError(f'{why}: ["…"]') from error
    if not entries:
        raise ValueError("is an empty list: give it one entry for each run")
    return tuple(
        _message(entry if isinstance(entry, str) else msgspec.json.encode(entry).decode())
        for entry in entries
    )


def _message(text: str) -> str:
    if (size := len(text.encode())) > MAX_MESSAGE_BYTES:
        most = f"a termination message holds at most {MAX_MESSAGE_BYTES}"
        raise ValueError(f"is {size} bytes; {most}")
    return text


def _task_phases(text: str, tasks: tuple[str, ...]) -> dict[str, Phases]:
    """Return the listed phases of each task: each later than the one before, and further along."""
    phases: dict[str, Phases] = {}
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise ValueError(f"is not JSON ({error})") from error
    if not isinstance(value, dict):
        raise ValueError('is not a JSON object: write it like {"worker": [["Running", 1]]}')
    for task in value:
        if task not in tasks:
            guess = Suggester(tasks).nearest(task)
            raise ValueError(f'names task "{task}", which this job lacks{did_you_mean(guess)}')
        if not isinstance(value[task], list):
            raise ValueError(f'gives task "{task}" no list: write it like [["Running", 1]]')
        last_at, last_rank = 0.0, -1
        phases[task] = tuple(_row(task, row) for row in value[task])
        for phase, at in phases[task]:
            where, rank = f'has task "{task}" go into {phase}', min(LISTED_PHASES.index(phase), 2)
            if rank <= last_rank:
                raise ValueError(f"{where} too late: phases only go forward")
            if at < last_at:
                raise ValueError(f"{where} before the phase listed ahead")
            last_at, last_rank = at, rank
    return phases


def _row(task: str, row: Any) -> tuple[PodPhase, float]:
    match row:
        case [str(word), (int() | float()) as at] if not isinstance(at, bool):
            pass
        case _:
            fault = f'gives task "{task}" an entry that is not a pair like ["Running", 1]'
            raise ValueError(f"{fault}: {msgspec.json.encode(row).decode()}")
    if word not in LISTED_PHASES:
        guess = did_you_mean(Suggester(LISTED_PHASES).nearest(word))
        raise ValueError(f'names a phase "{word}" for task "{task}" that pods do not have{guess}')
    if not 0 <= at <= MAX_SECONDS:
        raise ValueError(f'gives task "{task}" a time that is not a number of seconds from 0: {at}')
    return PodPhase(word), float(at)


Clock = Callable[[], datetime]


def utc_now() -> datetime:
    return datetime.now(UTC)


class SimulateRunner:
    """Runs pods as their vcjob's annotations say, `speed` times as fast. Infinite speed ends pods
    immediately and skips Running."""

    graceful = False

    def __init__(self, speed: float = 1.0, *, clock: Clock = utc_now) -> None:
        self._speed = speed
        self._clock = clock

    def faults(self, job: Vcjob) -> Sequence[str]:
        return _script(job)[1]

    async def run(self, assignment: Assignment, report: Report) -> None:
        """Report each phase when it is due; of several that are due, only the last."""
        script, _ = _script(assignment.job)
        began: datetime | None = assignment.pod.status.start_time
        task, is_running = assignment.pod.task, assignment.pod.phase == PodPhase.RUNNING
        # A task with listed phases counts from the job's start, any other from its pod's own.
        start = assignment.job_started if task in script.phases else assignment.started
        due = [
            (start + timedelta(seconds=mark.at / self._speed), mark)
            for mark in script.marks(task)
            if not (is_running and mark.phase is PodPhase.RUNNING)
        ]
        while due:
            wait = (due[0][0] - self._clock()).total_seconds()
            # Compared again afterwards, because this clock is not that of the event loop.
            if wait > 0:
                await asyncio.sleep(wait)
                continue
            # A controller that was down missed these phases, as it would in a cluster.
            while len(due) > 1 and due[1][0] <= self._clock():
                due.pop(0)
            at, mark = due.pop(0)
            began = began or at
            await report(progress_of(assignment.pod, mark, min(began, at), at))

    async def end(self, pod: Pod) -> None:
        """Do nothing, because nothing runs."""

    def log(self, pod_uid: str, container: str, run: int) -> None:
        """Return None, because nothing writes a log."""


def progress_of(pod: Pod, change: PhaseChange, began: datetime, at: datetime) -> PodProgress:
    """Return the progress of a simulated pod: its containers follow its phase, and the first of
    them writes the message."""
    init, main = len(pod.spec.init_containers or ()), len(pod.spec.containers or ())
    message = change.message.encode()[: message_limit(init + main)].decode(errors="replace")
    end = None if change.phase is PodPhase.RUNNING else at
    others = ContainerProgress(began, end, change.exit_code, change.reason)
    return PodProgress(
        change.phase,
        began,
        end,
        containers=[replace(others, message=message), *[others] * main][:main],
        init_containers=[ContainerProgress(began, began)] * init,
        disrupted=change.disrupted,
    )


def _script(job: Vcjob) -> tuple[SimulationScript, tuple[str, ...]]:
    meta = job.metadata
    tasks = job.spec.tasks or []
    annotations = annotations_of(meta.annotations, tasks[0].template if tasks else None)
    return read_script(annotations, meta.labels or {}, (task.name or "" for task in tasks))
