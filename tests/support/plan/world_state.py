"""The state of a test world: a stored flow, and the cluster as its View shows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

import msgspec

from jobflow.api.flow.jobflow import JobFlow, JobTemplate
from jobflow.api.resources import ObjectMeta
from jobflow.api.volcano.command import Command
from jobflow.api.volcano.job import Job, JobCondition, JobOutline, JobState, JobStatus, TaskState
from jobflow.api.volcano.pod import Pod
from jobflow.core.names import format_attempt_name, format_job_name
from jobflow.core.planning.actions import WantKey
from jobflow.core.planning.observed.steps import FAILURES
from jobflow.core.planning.observed.view import (
    ClaimAnswer,
    CreateError,
    Held,
    Holder,
    PodsRead,
    Refusal,
    View,
)
from jobflow.core.spec.concurrency import Group, GroupName
from support.plan.steps import TEMPLATE_SPEC

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
FLOW_UID = "uid-f"
PHASES_BEFORE = {
    "": (),
    "Pending": ("Pending",),
    "Running": ("Pending", "Running"),
    "Restarting": ("Pending", "Running", "Restarting"),
}


def job_status(phase: str, at: datetime, *, since: datetime | None = None) -> JobStatus:
    """Every phase with its time, a second apart, as Volcano writes it; the last one is at `at`."""
    if not phase:
        return JobStatus()
    phases = PHASES_BEFORE.get(phase, ("Pending", "Running", phase))
    times = [max(since or NOW, at - timedelta(seconds=n)) for n in range(len(phases))][::-1]
    return JobStatus(
        state=JobState(phase=phase, last_transition_time=times[-1]),
        conditions=[
            JobCondition(status=word, last_transition_time=time)
            for word, time in zip(phases, times, strict=True)
        ],
        task_status_count={"t": TaskState(phase={phase: 1})} if phase == "Running" else None,
    )


@dataclass(frozen=True)
class WorldState:
    """A stored flow, the cluster as its View shows it, and the time."""

    flow: JobFlow
    templates: Mapping[str, JobTemplate]
    jobs: Mapping[str, Job] = field(default_factory=dict)
    source: JobFlow | None = None
    """The flow that is reused."""
    source_children: Mapping[str, ObjectMeta] = field(default_factory=dict)
    reused_by: tuple[str, ...] = ()
    """The flows that have not ended and reuse this one."""
    parent: JobFlow | None = None
    deleted: frozenset[str] = frozenset()
    missing: frozenset[str] = frozenset()
    """Names of vcjobs that ReadJob did not find."""
    holders: Mapping[str, Holder] = field(default_factory=dict)
    refusals: Mapping[str, Refusal] = field(default_factory=dict)
    create_errors: Mapping[str, CreateError] = field(default_factory=dict)
    claims: Mapping[str, ClaimAnswer] = field(default_factory=dict)
    """Answers to CreateClaim; None: the claim exists."""
    groups: Mapping[GroupName, Group] = field(default_factory=dict)
    """The other flows of the concurrency groups."""
    cancels: Mapping[str, datetime] = field(default_factory=dict)
    held: Held | None = None
    commands: Mapping[str, Command] | None = field(default_factory=dict)
    aborts: Mapping[str, datetime] = field(default_factory=dict)
    pods: Mapping[str, Mapping[str, Pod]] = field(default_factory=dict)
    """Watched pods, by the UID of their vcjob and by name."""
    gone_pods: Mapping[str, Mapping[str, Pod]] = field(default_factory=dict)
    """Watched pods that were deleted after their end."""
    live: Mapping[str, Mapping[str, Pod]] = field(default_factory=dict)
    """Current pods, which ReadPods finds."""
    read: Mapping[str, PodsRead] = field(default_factory=dict)
    probes: Mapping[WantKey, Any] = field(default_factory=dict)
    failed_pods_read: bool = True
    """Whether the pods of failed vcjobs have been read already. If a test sets none, there are
    none."""
    now: datetime = NOW

    @property
    def view(self) -> View:
        return View(
            templates=self.templates,
            jobs=self.jobs,
            source=self.source,
            source_children=self.source_children,
            reused_by=self.reused_by,
            parent=self.parent,
            deleted=self.deleted | (self.missing - self.jobs.keys()),
            holders=self.holders,
            refusals=self.refusals,
            create_errors=self.create_errors,
            claims=self.claims,
            groups=self.groups,
            cancels=self.cancels,
            held=self.held,
            commands=self.commands,
            aborts=self.aborts,
            pods=self.pods,
            gone_pods=self.gone_pods,
            read={**self._failed_pods_read(), **self.read},
            answers=self.probes,
        )

    def _failed_pods_read(self) -> dict[str, PodsRead]:
        failed = [job.metadata.uid for job in self.jobs.values() if job.phase in FAILURES]
        known = self.live.keys() | self.pods.keys()
        return {uid: PodsRead() for uid in failed if uid not in known and self.failed_pods_read}

    def name_of(self, step: str, run: int = 0, index: int | None = None) -> str:
        return format_attempt_name(format_job_name(self.flow.metadata.name, step, index=index), run)

    def outline(self, step: str) -> JobOutline:
        """Return the part of a vcjob's spec that a View keeps. Patches are ignored."""
        found = self.templates.get(self._template_names.get(step, ""))
        return msgspec.convert(found.spec if found else TEMPLATE_SPEC, JobOutline)

    @cached_property
    def _template_names(self) -> dict[str, str]:
        return {step.name: step.template_for(None) or "" for step in reversed(self.flow.steps)}
