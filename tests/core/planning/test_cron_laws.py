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
from jobflow.core.cron import Instantiation, build_flow, is_backfilled, is_scheduled
from jobflow.core.planning.cron import CreateFlow, RemoveFlow, ReplaceFlow, plan_cron

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

    def active(self) -> list[str]:
        """Return the names of the flows that count for the concurrency policy."""
        return [n for n, flow in self.flows.items() if not flow.final and is_scheduled(flow)]

    def end(self, pick: int) -> None:
        """End a flow that runs, with success or not; a cancelled one fails."""
        running = [name for name, flow in self.flows.items() if not flow.final]
        if running:
            name = running[pick % len(running)]
            failed = pick % 2 or name in self.cancelled
            state = replace(self.flows[name].status.state, phase="Failed" if failed else "Succeed")
            status = replace(self.flows[name].status, state=state, completion_time=self.now)
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


EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("plan"), st.integers(0, 4)),
        st.tuples(st.just("time"), st.integers(-30, 60)),
        st.tuples(st.just("end"), st.integers(0, 9)),
        st.tuples(st.just("user"), st.booleans().map(int)),
        st.tuples(st.just("suspend"), st.booleans().map(int)),
    ),
    max_size=30,
)


@given(
    st.sampled_from(["Allow", "Forbid", "Replace"]),
    st.sampled_from([None, 60, 1500]),
    st.integers(0, 2),
    EVENTS,
)
def test_each_time_starts_once_and_every_life_comes_to_rest(
    policy: str, deadline: int | None, limit: int, events: list[tuple[str, int]]
) -> None:
    template = {"spec": {"flows": [{"name": "a"}]}}
    spec = {
        "schedule": f"*/{PERIOD} * * * *",
        "concurrencyPolicy": policy,
        "startingDeadlineSeconds": deadline,
        "jobFlowTemplate": template,
        "successfulJobsHistoryLimit": limit,
        "failedJobsHistoryLimit": limit,
    }
    meta = {"name": "c", "namespace": "n", "uid": "u", "creationTimestamp": str(START)}
    life = Life(msgspec.convert({"metadata": meta, "spec": spec}, CronJobFlow))
    for kind, value in events:
        match kind:
            case "plan":
                life.plan(value)
            case "time":
                life.now += value * MINUTE
            case "end":
                life.end(value)
            case "user":
                life.instantiate(bool(value))
            case "suspend":
                changed = replace(life.cron.spec, suspend=bool(value))
                life.cron = replace(life.cron, spec=changed)
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
