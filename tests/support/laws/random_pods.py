"""Pods inside the vcjobs of a random walk, and what a probe may conclude from them.

Pods change, are watched late or never, and answer or not; `PodHistory` records what anybody could
have observed. The meaning of a probe is implemented here again, from docs/reference.md, Probes.
"""

from collections import Counter, defaultdict
from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import Any

import msgspec
from hypothesis import strategies as st

from jobflow.api import labels
from jobflow.api.flow.step import Probe, Step
from jobflow.api.volcano.job import Job
from jobflow.api.volcano.pod import Pod
from jobflow.core.planning.actions import JobProbe, Plan, ProbeResult, ReadPods
from jobflow.core.planning.observed.view import PodsRead
from support.plan.plan_pods import pods_of
from support.plan.plan_world import World
from support.sandbox.containers import ended, with_containers

_CONTAINER = {"name": "c", "resources": {"requests": {"cpu": "500"}}}
SPEC: dict[str, Any] = {
    "minAvailable": 1,
    "tasks": [
        {"name": name, "replicas": replicas, "template": {"spec": {"containers": [_CONTAINER]}}}
        for name, replicas in (("t", 1), ("w", 2))
    ],
}
SIZES = {"t": 1, "w": 2}
MESSAGES = ("", "words", '{"n": 1, "m": null}', "caf\udce9", "x" * 4000, "x" * 5000)
"""Termination messages; the longest is too large."""
PODS = ("Pending", "Running", "Running", "Succeeded", "Succeeded", "Failed")
REACHED = {
    "Pending": {"Pending", "Running", "Succeeded", "Failed"},
    "Running": {"Running", "Succeeded", "Failed"},
    "Succeeded": {"Succeeded"},
    "Failed": {"Failed"},
}
_ALL = {"taskName": "w", "phase": "Succeeded"}
_ONE = {"taskName": "w", "phase": "Running", "count": 1}
_BAD = {"taskName": "t", "phase": "Failed"}
_NONE = {"taskName": "zzz", "phase": "Running"}
_GET = {"taskName": "t", "path": "/", "port": 80}
_KINDS: tuple[dict[str, Any], ...] = (
    {"taskStatusList": [_ALL]},
    {"taskStatusList": [_ONE]},
    {"taskStatusList": [_ONE, _BAD]},
    {"taskStatusList": [_NONE]},
    {"httpGetList": [_GET]},
    {"httpGetList": [_GET], "taskStatusList": [_ALL]},
)
probes = st.sampled_from([*[None] * len(_KINDS), *(msgspec.convert(k, Probe) for k in _KINDS)])
"""As many steps have a probe as have none."""


class PodHistory:
    """The phases that pods have reached, and the probes that they have answered."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.most: Counter[tuple[str, str, str]] = Counter()
        """Most pods that had reached a phase at once, by vcjob UID, task and phase."""
        self.answered: set[tuple[str, str]] = set()
        """Steps and UIDs of vcjobs whose pods have answered the step's requests."""
        self.uids: defaultdict[str, set[str]] = defaultdict(set)
        """UIDs of all vcjobs that a step ever had."""

    # ------------------------------------------------------------------ what happens

    def move(self, world: World, job: Job) -> World:
        """Give a job other pods, or none; a watch may show them later."""
        phases = {
            task: " ".join(self.random.choices(PODS, k=self.random.randint(0, size)))
            for task, size in SIZES.items()
        }
        pods = {name: self.with_end(pod) for name, pod in pods_of(job, **phases).items()}
        world = replace(world, live={**world.live, job.metadata.uid: pods})
        self.record(world, job)
        return self.watch(world) if self.random.random() < 0.5 else world

    def with_end(self, pod: Pod) -> Pod:
        """Return the pod with an ended container, in most cases, if the pod has ended."""
        if not pod.ended or self.random.random() < 0.2:
            return pod
        code = 0 if pod.phase == "Succeeded" else 3
        return with_containers(pod, ended(code, message=self.random.choice(MESSAGES)), node="n")

    def watch(self, world: World) -> World:
        return replace(world, pods=world.live)

    def record(self, world: World, job: Job) -> None:
        """Record the phases of the job's pods, and Volcano's counts."""
        uid = job.metadata.uid
        self.uids[(job.metadata.annotations or {})[labels.STEP]].add(uid)
        pods = world.live.get(uid, {}).values()
        observed: dict[str, Counter[str]] = {
            task: Counter(pod.phase for pod in pods if pod.task == task) for task in SIZES
        }
        counted = (job.status.task_status_count or {}).items()
        for task, counts in (*observed.items(), *((t, Counter(s.phase or {})) for t, s in counted)):
            for phase, reached in REACHED.items():
                key = uid, task, phase
                self.most[key] = max(self.most[key], sum(counts[p] for p in reached))

    def answer(self, world: World) -> World:
        """Let pods answer a planned probe, or fail it."""
        requests = [want for want in world.plan().plan.wants if isinstance(want, JobProbe)]
        if not requests:
            return world
        probe = self.random.choice(requests)
        key = probe.key
        if world.probes.get(key, ProbeResult()).passed:
            return world
        passed = self.random.random() < 0.5
        if passed:
            self.record(world, world.jobs[probe.job])
            self.answered.add(key)
        result = ProbeResult(passed, "" if passed else self.random.choice(("503", "refused")))
        return replace(world, probes={**world.probes, key: result})

    def read(self, world: World, action: ReadPods) -> World:
        """Read the pods; some reads fail, temporarily or permanently."""
        if self.random.random() < 0.8:
            return world.apply_action(action)
        later = self.random.choice((None, world.now, world.now + timedelta(seconds=2)))
        answer = PodsRead(trouble="no", retry_at=later)
        return replace(world, read={**world.read, action.uid: answer})

    def planned(self, world: World, plan: Plan) -> World:
        """Drop results of probes that are not planned, and reads of vcjobs that have not ended."""
        wanted = {want.key for want in plan.wants}
        ended = {job.metadata.uid for job in world.jobs.values() if job.ended}
        return replace(
            world,
            probes={key: result for key, result in world.probes.items() if key in wanted},
            read={uid: pods for uid, pods in world.read.items() if uid in ended},
        )

    # ------------------------------------------------------------------------ the laws

    def may_have_passed(self, step: Step, target: str) -> bool:
        """Return whether a target may have passed the step's probe."""
        return any(
            self._phases(step, uid, self.most)
            and (not _has_requests(step) or (step.name, uid) in self.answered)
            for uid in self.uids[target]
        )

    def check_unsatisfiable(self, step: Step, world: World) -> None:
        """Check that no probe fails while the pods of an ended vcjob, once read, would pass it."""
        results = [self._passes_now(step, target, world) for target in step.targets]
        assert step.depends_on is not None
        passes = any(results) if step.depends_on.strategy == "any" else all(results)
        assert not passes, f"{step.name} was given up too early"

    def _passes_now(self, step: Step, target: str, world: World) -> bool:
        job = _latest(world, target)
        if job is None or not job.ended or _has_requests(step):
            return False
        uid = job.metadata.uid
        answer = world.read.get(uid)
        trouble = answer is not None and answer.trouble and answer.retry_at is None
        now = PodHistory(self.random)
        now.record(world, job)
        return not trouble and now._phases(step, uid, now.most)

    def _phases(self, step: Step, uid: str, most: Counter[tuple[str, str, str]]) -> bool:
        assert step.depends_on is not None and step.depends_on.probe is not None
        return all(
            entry.task_name in SIZES
            and most[uid, entry.task_name, entry.phase or ""]
            >= (entry.count or SIZES[entry.task_name])
            for entry in step.depends_on.probe.task_status_list or ()
        )


def _latest(world: World, step: str) -> Job | None:
    """Return the job of a step's last attempt since the last RestartJob, if it exists."""
    condition = (world.flow.status.conditions or {}).get(world.name_of(step))
    if condition is None:
        return world.jobs.get(world.name_of(step))
    if condition.attempts <= condition.past_attempts:
        return None
    return world.jobs.get(world.name_of(step, condition.attempts - 1))


def _has_requests(step: Step) -> bool:
    probe = step.depends_on.probe if step.depends_on else None
    return probe is not None and bool(probe.http_get_list)
