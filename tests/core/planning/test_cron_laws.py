"""Laws of plan_cron over random lives of a CronJobFlow: time passes or goes back, flows end, users
act, and the controller crashes between any two requests."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from jobflow.api.flow.cronjobflow import CronJobFlow
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.labels import SKIP
from jobflow.core.cron import Instantiation, build_flow, is_backfilled, is_scheduled, scheduled_name
from jobflow.core.planning.cron import CreateFlow, ForgetSkip, RemoveFlow, ReplaceFlow, plan_cron

START = datetime(2026, 6, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
PERIOD = 10
"""Minutes between two scheduled times: 12:00, 12:10 …"""


@dataclass
class Life:
    """A CronJobFlow and its flows on an API server that is never wrong."""

    cron: CronJobFlow
    now: datetime = START
    flows: dict[str, JobFlow] = field(default_factory=dict)
    started: list[int] = field(default_factory=list)
    """The scheduled times, in minutes from START, whose flows the plans have created."""
    cancelled: set[str] = field(default_factory=set)

    def plan(self, requests: int) -> None:
        """Plan, and crash after so many requests."""
        plan = plan_cron(self.cron, [*self.flows.values()], self.now)
        stored = self.cron.status
        if plan.status != stored and requests:
            self.cron = replace(self.cron, status=plan.status)
            requests -= 1
        for action in plan.actions[:requests]:
            match action:
                case CreateFlow():
                    self.create(action)
                case ReplaceFlow():
                    assert stored.replacing_for is not None, "the decision was not stored"
                    assert self.cron.spec.concurrency_policy == "Replace"
                    self.cancelled.add(action.name)
                case RemoveFlow():
                    flow = self.flows.pop(action.name)
                    assert flow.final and not is_backfilled(flow)
                    assert action.uid not in [each.uid for each in stored.active or ()]
                    assert action.name != stored.waits_for
                case ForgetSkip():
                    self.annotate({})

    def create(self, action: CreateFlow) -> None:
        spec, active = self.cron.spec, self.active()
        assert not spec.suspend
        assert spec.concurrency_policy == "Allow" or not active
        assert action.name not in self.flows
        self.add(msgspec.convert(action.manifest, JobFlow))
        time = int(action.name.removeprefix("c-")) - int(START.timestamp()) // 60
        assert time % PERIOD == 0 and START + time * MINUTE <= self.now
        assert time not in self.started, "a time has started twice"
        deadline = spec.starting_deadline_seconds
        if deadline is not None and spec.concurrency_policy != "Replace":
            assert self.now - (START + time * MINUTE) < timedelta(seconds=deadline)
        self.started.append(time)

    def add(self, flow: JobFlow) -> None:
        name = flow.metadata.name or f"c-manual-{len(self.flows)}-{self.now:%d%H%M}"
        meta = replace(flow.metadata, name=name, uid=f"uid-{name}", creation_timestamp=self.now)
        self.flows[name] = replace(flow, metadata=meta)

    def annotate(self, annotations: dict[str, str]) -> None:
        meta = replace(self.cron.metadata, annotations=annotations)
        self.cron = replace(self.cron, metadata=meta)

    def active(self) -> list[str]:
        """Return the names of the flows that count for the concurrency policy."""
        return [n for n, flow in self.flows.items() if not flow.final and is_scheduled(flow)]

    def end(self, pick: int) -> None:
        """End a flow that runs, with success or not; a cancelled one fails."""
        running = [name for name, flow in self.flows.items() if not flow.final]
        if running:
            name = running[pick % len(running)]
            failed = pick % 2 or name in self.cancelled
            self.set_phase(name, "Failed" if failed else "Succeed")

    def set_phase(self, name: str, phase: str) -> None:
        status = self.flows[name].status
        end = None if phase == "Running" else self.now
        status = replace(status, state=replace(status.state, phase=phase), completion_time=end)
        self.flows[name] = replace(self.flows[name], status=status)

    def instantiate(self, backfill: bool) -> None:
        """Create a flow as a user does; the backfill is for the time of half an hour ago."""
        minutes = (self.now - START) // MINUTE // PERIOD * PERIOD - 3 * PERIOD
        time = START + minutes * MINUTE if backfill else self.now
        by = Instantiation.BACKFILL if backfill else Instantiation.MANUAL
        flow = msgspec.convert(build_flow(self.cron, time, by), JobFlow)
        if flow.metadata.name not in self.flows:
            self.add(flow)

    def settle(self) -> None:
        """Plan until nothing changes, without a crash."""
        for _ in range(50):
            before = self.cron.status, dict(self.flows), set(self.cancelled)
            self.plan(99)
            if before == (self.cron.status, self.flows, self.cancelled):
                return
        raise AssertionError("it never comes to rest")

    def happen(self, kind: str, value: int) -> None:
        match kind:
            case "plan":
                self.plan(value)
            case "time":
                self.now += value * MINUTE
            case "end":
                self.end(value)
            case "user":
                self.instantiate(bool(value))
            case "suspend":
                changed = replace(self.cron.spec, suspend=bool(value))
                self.cron = replace(self.cron, spec=changed)


EVENTS = (
    st.tuples(st.just("plan"), st.integers(0, 4)),
    st.tuples(st.just("time"), st.integers(-30, 60)),
    st.tuples(st.just("end"), st.integers(0, 9)),
    st.tuples(st.just("user"), st.booleans().map(int)),
    st.tuples(st.just("suspend"), st.booleans().map(int)),
)


def scheduled(**spec: object) -> CronJobFlow:
    template = {"spec": {"flows": [{"name": "a"}]}}
    spec = {"schedule": f"*/{PERIOD} * * * *", "jobFlowTemplate": template, **spec}
    meta = {"name": "c", "namespace": "n", "uid": "u", "creationTimestamp": str(START)}
    return msgspec.convert({"metadata": meta, "spec": spec}, CronJobFlow)


@given(
    st.sampled_from(["Allow", "Forbid", "Replace"]),
    st.sampled_from([None, 60, 1500]),
    st.integers(0, 2),
    st.lists(st.one_of(*EVENTS), max_size=30),
)
def test_each_time_starts_once_and_every_life_comes_to_rest(
    policy: str, deadline: int | None, limit: int, events: list[tuple[str, int]]
) -> None:
    spec = {
        "concurrencyPolicy": policy,
        "startingDeadlineSeconds": deadline,
        "successfulJobsHistoryLimit": limit,
        "failedJobsHistoryLimit": limit,
    }
    life = Life(scheduled(**spec))
    for kind, value in events:
        life.happen(kind, value)
    life.settle()
    for _ in range(len(life.flows)):
        life.end(0)
        life.settle()
    check_rest(life, limit)


def check_rest(life: Life, limit: int) -> None:
    """The status agrees with the flows, the history is within its limits, and the last time has
    started if it may."""
    running = [name for name, flow in life.flows.items() if not flow.final]
    status = life.cron.status
    assert sorted(each.name for each in status.active or ()) == sorted(running)
    for phase in ("Succeed", "Failed"):
        kept = [f for f in life.flows.values() if f.status.state.phase == phase]
        assert sum(not is_backfilled(flow) for flow in kept) <= limit
    last = (life.now - START) // MINUTE // PERIOD * PERIOD
    late = life.now - (START + last * MINUTE)
    deadline = life.cron.spec.starting_deadline_seconds
    in_time = deadline is None or late < timedelta(seconds=deadline)
    if last > 0 and in_time and not life.cron.spec.suspend:
        recorded = status.last_schedule_time
        assert recorded is not None and recorded >= START + last * MINUTE


@dataclass
class Turns(Life):
    """A life with Wait, in which flows also go by their ttl, and users retry, delete and skip."""

    done: set[str] = field(default_factory=set)
    """Flows after which the next one may start."""
    deleted: set[str] = field(default_factory=set)
    """Flows that users have deleted while they were waited for."""

    @property
    def is_strict(self) -> bool:
        return bool(self.cron.spec.require_previous_success)

    def create(self, action: CreateFlow) -> None:
        name = action.name
        assert self.cron.status.waits_for == name, "it was not announced"
        time = START + (int(name.removeprefix("c-")) - int(START.timestamp()) // 60) * MINUTE
        if name in self.deleted:
            self.deleted.remove(name)
            self.started = [each for each in self.started if START + each * MINUTE != time]
        super().create(action)
        before = scheduled_name("c", time - PERIOD * MINUTE)
        assert before in self.done or time == START + PERIOD * MINUTE, "a time was left out"

    def set_phase(self, name: str, phase: str) -> None:
        super().set_phase(name, phase)
        skipped = (self.cron.metadata.annotations or {}).get(SKIP) == name
        if phase == "Succeed" or (phase == "Failed" and (skipped or not self.is_strict)):
            self.done.add(name)

    def happen(self, kind: str, value: int) -> None:
        waits_for = self.cron.status.waits_for
        ended = [name for name, flow in self.flows.items() if flow.final]
        match kind:
            case "ttl":
                for name in ended:
                    if name != waits_for:
                        del self.flows[name]
            case "retry" if ended and self.flows[ended[-1]].status.state.phase == "Failed":
                self.set_phase(ended[-1], "Running")
            case "delete" if self.flows:
                name = [*self.flows][value % len(self.flows)]
                del self.flows[name]
                if name == waits_for:
                    self.deleted.add(name)
                if not self.is_strict:
                    self.done.add(name)
            case "skip" if waits_for is not None:
                self.annotate({SKIP: waits_for})
                if waits_for not in self.active():
                    self.done.add(waits_for)
            case _:
                super().happen(kind, value)


BY_USERS = (
    st.tuples(st.just("ttl"), st.just(0)),
    st.tuples(st.just("retry"), st.just(0)),
    st.tuples(st.just("delete"), st.integers(0, 9)),
    st.tuples(st.just("skip"), st.just(0)),
)


@given(st.booleans(), st.lists(st.one_of(*EVENTS, *BY_USERS), max_size=40))
def test_with_wait_each_time_gets_its_flow_in_order_whatever_crashes(
    is_strict: bool, events: list[tuple[str, int]]
) -> None:
    life = Turns(scheduled(concurrencyPolicy="Wait", requirePreviousSuccess=is_strict))
    for kind, value in events:
        life.happen(kind, value)
    life.settle()
    times = max(0, (life.now - START) // MINUTE) // PERIOD
    for _ in range(2 * times + len(life.flows) + 2):
        life.end(0)
        life.happen("skip", 0)
        life.settle()
    last = life.cron.status.last_schedule_time or START
    assert life.cron.spec.suspend or last >= START + times * PERIOD * MINUTE
    assert life.cron.spec.suspend or life.cron.status.waits_for is None
