"""What must hold after the chaos, each as a function that yields violations as text."""

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from chaos.records import Attempt, Records, Run
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import RunCondition
from jobflow.api.volcano.job import Job
from support.cluster.audit import Asked

TOLERANCE_SECONDS = 0.5
"""Two jobs that a list shows at once, one deleted and one new, did not run together."""
PHASES = {"Completed": {"Completed"}, "Failed": {"Failed", "Aborted", "Terminated"}}
"""Of jobs, by those of steps that have ended."""


def no_run_twice(records: Records) -> Iterator[str]:
    """No run of a step has two jobs at the same time."""
    for first, second in _pairs(records):
        if first.gone_at > second.seen_at + TOLERANCE_SECONDS:
            yield f"{second.name} began while {first.name} ran: {first}, {second}"


def no_completed_step_again(records: Records) -> Iterator[str]:
    """A run that has completed does not run again, unless somebody has retried its flow."""
    for first, second in _pairs(records):
        retries = records.retried_at[second.outermost]
        retried = any(first.completed_at < moment < second.seen_at for moment in retries)
        again = first.completed_at < second.seen_at and not first.deleted_by_user
        if again and not retried:
            yield f"{second.name} began after {first.name} had completed: {first}, {second}"


def _pairs(records: Records) -> Iterator[tuple[Attempt, Attempt]]:
    """Return all attempts of the same run, in pairs, the earlier one first."""
    runs: defaultdict[Run, list[Attempt]] = defaultdict(list)
    for attempt in sorted(records.attempts.values(), key=lambda each: each.seen_at):
        runs[attempt.run].append(attempt)
    for attempts in runs.values():
        yield from itertools.combinations(attempts, 2)


def flows_succeed(flows: Iterable[JobFlow], jobs: Iterable[Job], records: Records) -> Iterator[str]:
    """Every flow has succeeded, unless somebody has cancelled it, or has written over its status
    before it had a job: then nothing shows that it is JobFlow's."""
    begun = {records.see(job).outermost for job in jobs}
    may_fail = records.cancelled | (records.overwritten - begun)
    for flow in flows:
        if not flow.is_child and flow.metadata.name not in may_fail:
            if flow.status.state.phase != "Succeed":
                yield f"{flow.metadata.name} has not succeeded: {flow.status}"


def statuses_agree(flows: Sequence[JobFlow], jobs: Mapping[str, Job]) -> Iterator[str]:
    """Flows that have finished have no running job, and say of each job how it ended."""
    for flow in flows:
        for name, phase in _ends(flow):
            job = jobs.get(name)
            if job is not None and job.phase not in PHASES.get(phase, {phase}):
                yield f"{name} is {job.phase}, {flow.metadata.name} says {phase}: {flow.status}"
    kept = {flow.metadata.uid for flow in flows}
    for job in jobs.values():
        owner = job.metadata.controller
        if not job.ended:
            yield f"{job.metadata.name} still runs: {job}"
        elif owner is not None and owner.uid not in kept:
            yield f"{job.metadata.name} has outlived its flow: {job}"


def _ends(flow: JobFlow) -> Iterator[tuple[str, str]]:
    """Yield the jobs of a status, each with the phase that it says."""
    for record in flow.status.job_status_list or ():
        yield record.name, record.state
    for condition in (flow.status.conditions or {}).values():
        runs: Sequence[RunCondition] = condition.runs or (condition,)
        for run in runs:
            if run.job and run.phase in PHASES:
                yield run.job, run.phase


def one_leader_writes(asked: Sequence[Asked]) -> Iterator[str]:
    """Every write of a replica begins after its last claim of the Lease, and before the API server
    has stored a claim of the other one."""
    writes = [call for call in asked if call.writes]
    claims = [call for call in writes if call.resource == "leases"]
    for write in writes:
        if write.resource == "leases":
            continue
        before = [claim for claim in claims if claim.answered <= write.came]
        pending = {claim.user for claim in claims if claim.came <= write.came <= claim.answered}
        if before and before[-1].user != write.user and write.user not in pending:
            yield f"{write} although {before[-1]}"
