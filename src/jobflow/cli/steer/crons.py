"""`jobflow trigger` and `backfill`, and `suspend`, `resume` and `delete` of CronJobFlows."""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from itertools import islice, takewhile
from typing import Any

import msgspec

from jobflow.api.flow.cronjobflow import CronJobFlow
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.labels import SCHEDULED_TIME, SKIP
from jobflow.api.resources import CRONJOBFLOWS, FLOW_GROUP, JOBFLOWS
from jobflow.cli.flags import BackfillOptions, ParamOptions
from jobflow.cli.steer.submit import SubmitOptions, finish, without_faults
from jobflow.client.errors import FAILED, SUCCESS, UNUSABLE, CommandError, Errors, print_error
from jobflow.client.flows.find_cron import FoundCron, find_cron
from jobflow.client.flows.find_flow import connect
from jobflow.client.manifests.flag_values import read_params
from jobflow.client.options import Connection
from jobflow.client.verbs.copy import check_flow, flow_at, manual_flow, schedule_of, send_checked
from jobflow.client.verbs.send_manifests import FIELD_MANAGER
from jobflow.core.admission.changes import cron_is_idle
from jobflow.core.cron import Instantiation, Schedule, belongs_to
from jobflow.core.text import format_count, join_names, printable
from jobflow.display.formats import ObjectOutput
from jobflow.display.objects import name_of, print_objects
from jobflow.kube.client import ApiError, Client

_FIRST = datetime(1970, 1, 1, tzinfo=UTC)


async def trigger_cron(
    name: str, connection: Connection, params: ParamOptions, options: SubmitOptions
) -> int:
    options.check()
    values = read_params(params)
    async with await connect(connection) as client:
        found = await find_cron(client, name)
        report = check_flow(manual_flow(found), values, found.cron.metadata.name)
        without_faults(report)
        return await finish(client, await send_checked(client, report), options)


async def backfill_cron(name: str, connection: Connection, options: BackfillOptions) -> int:
    values = read_params(options)
    for flag, text in (("--from", options.begin), ("--to", options.end)):
        _read(flag, text)  # a wrong time is named without a cluster
    async with await connect(connection) as client:
        found = await find_cron(client, name)
        times = _times(schedule_of(found.cron), options)
        if not times:
            begin, end = options.begin, options.end
            raise CommandError(FAILED, f"the schedule has no time from {begin} to {end}")
        flows = [flow_at(found, time, Instantiation.BACKFILL) for time in times]
        # without values, the flows are those of the schedule, which the webhook has accepted
        if values:
            cron = found.cron.metadata.name
            reports = [check_flow(flow, values, cron) for flow in flows]
            # what one flow of a schedule has, all have
            without_faults(next((each for each in reports if each.faults), reports[0]))
            flows = [report.flows[0].data for report in reports]
        if not options.dry_run:
            return await _create_all(client, found.cron, flows, options.output)
    if options.output is not None:
        print_objects(flows, options.output)
    else:
        print("\n".join(_line(flow, "created (dry run)") for flow in flows))
    return SUCCESS


def _times(schedule: Schedule, options: BackfillOptions) -> list[datetime]:
    now = datetime.now(UTC)
    begin = _moment("--from", options.begin, schedule, last=False)
    end = _moment("--to", options.end, schedule, last=True)
    if _is_date(options.end):  # the rest of today is no fault
        end = min(end, max(now, begin))
    if end > now:
        raise CommandError(UNUSABLE, f"--to {options.end} is in the future: give a past time")
    if begin > end:
        raise CommandError(UNUSABLE, f"--from {options.begin} is after --to {options.end}")
    following = schedule.after(begin - timedelta(seconds=1))  # exclusive, and endless
    times = [*islice(takewhile(lambda time: time <= end, following), options.limit + 1)]
    if len(times) > options.limit:
        most = format_count(options.limit, "flow")
        sentence = f"the schedule has more times than that, and at most {most} are created at once"
        raise CommandError(UNUSABLE, f"{sentence}: shorten the interval, or set --limit")
    # after the limit, because a walk over the minutes of years takes long
    if skipped := [*schedule.left_out(begin, end)]:
        listed = join_names([each.isoformat(timespec="minutes") for each in skipped], shown=10)
        these = "these times" if len(skipped) > 1 else "this time"
        which = f"the clocks of {schedule.zone} skip {these}, as at the beginning of summer time"
        print_error(f"no flow for {listed}: {which}", severity="warning")
    return times


def _read(flag: str, text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        example = "write it like 2026-01-31, 2026-01-31T02:00 or 2026-01-31T02:00:00Z"
        raise CommandError(UNUSABLE, f'{flag} "{text}" is not a time: {example}') from None


def _is_date(text: str) -> bool:
    with suppress(ValueError):
        return bool(date.fromisoformat(text))
    return False


def _moment(flag: str, text: str, schedule: Schedule, *, last: bool) -> datetime:
    """Return a moment in UTC. Without a zone, it is in that of the schedule; a date is its first or
    last second."""
    moment = _read(flag, text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=schedule.zone)
    if last and _is_date(text):
        moment += timedelta(days=1, seconds=-1)
    moment = moment.astimezone(UTC)
    if moment < _FIRST:
        raise CommandError(UNUSABLE, f"{flag} {text} is before 1970")
    return moment


async def _create_all(
    client: Client,
    cron: CronJobFlow,
    flows: Sequence[Mapping[str, Any]],
    output: ObjectOutput | None,
) -> int:
    stored: list[Mapping[str, Any]] = []
    code, warned = SUCCESS, set[str]()
    for flow in flows:
        warnings: list[str] = []
        try:
            made, state = await _create(client, cron, flow, warnings)
        except ApiError as error:
            name = flow["metadata"]["name"]
            print_error(printable(f"JobFlow {name} was not created: {error.message}"))
            code = FAILED
            break  # what refuses one flow of a schedule refuses all
        finally:
            for text in dict.fromkeys(warnings):
                if text not in warned:
                    warned.add(text)
                    print_error(printable(text), severity="warning")
        stored.append(made)
        if output is None:
            print(_line(made, state), flush=True)
    if output is not None and stored:
        print_objects(stored, output)
    return code


async def _create(
    client: Client, cron: CronJobFlow, flow: Mapping[str, Any], warnings: list[str]
) -> tuple[Mapping[str, Any], str]:
    """Return the flow as stored, and `created` or `exists`. Raises ApiError, also if the name
    belongs to a flow of something else."""
    namespace, name = cron.metadata.namespace, flow["metadata"]["name"]
    try:
        body = await client.request(
            "POST",
            JOBFLOWS.path(namespace),
            query=[("fieldManager", FIELD_MANAGER)],
            body=msgspec.json.encode(flow),
            warnings=warnings,
        )
        return json.loads(body), "created"
    except ApiError as error:
        if not error.already_exists:
            raise
        # the name is made of the scheduled time, so this time has its flow already
        body = await client.request("GET", JOBFLOWS.path(namespace, name))
        if not belongs_to(msgspec.json.decode(body, type=JobFlow), cron.metadata):
            raise
        return json.loads(body), "exists"


def _line(flow: Mapping[str, Any], state: str) -> str:
    time = (flow["metadata"].get("annotations") or {}).get(SCHEDULED_TIME, "")
    return f"{name_of(flow)} {state}: {time}"


Change = Callable[[Client, FoundCron], Awaitable[str]]
"""Changes a CronJobFlow and returns the line to print. Raises CommandError or ApiError."""


async def change_crons(names: Sequence[str], connection: Connection, change: Change) -> int:
    """Change each CronJobFlow, also after an error about another, and return the worst code."""
    errors = Errors()
    async with await connect(connection) as client:
        for name in names:
            try:
                print(await change(client, await find_cron(client, name)), flush=True)
            except CommandError as error:
                errors.add(error)
            except ApiError as error:
                errors.add(CommandError(FAILED, f"CronJobFlow {name}: {error.message}"))
    return errors.code


async def suspend_crons(names: Sequence[str], connection: Connection, *, suspend: bool) -> int:
    async def change(client: Client, found: FoundCron) -> str:
        meta = found.cron.metadata
        if found.cron.suspended == suspend:
            already = "is already suspended" if suspend else "is not suspended"
            raise CommandError(FAILED, f"CronJobFlow {meta.name} {already}")
        # the UID makes the patch fail for another CronJobFlow of this name
        body = {"metadata": {"uid": meta.uid}, "spec": {"suspend": suspend}}
        await client.patch(CRONJOBFLOWS, meta.namespace, meta.name, json.dumps(body).encode())
        return f"CronJobFlow {meta.name}: {'suspended' if suspend else 'resumed'}"

    return await change_crons(names, connection, change)


async def skip_flow(client: Client, found: FoundCron, tries: int = 5) -> str:
    """Let the schedule go on without the success of the flow for which it waits."""
    meta, name = found.cron.metadata, found.cron.status.waits_for
    if not (found.cron.spec.require_previous_success and name):
        raise CommandError(FAILED, f"CronJobFlow {meta.name} waits for the success of no flow")
    if any(each.name == name for each in found.cron.status.active or ()):
        raise CommandError(FAILED, f"flow {name} of CronJobFlow {meta.name} has not ended yet")
    changed = json.loads(found.raw)
    changed["metadata"].setdefault("annotations", {})[SKIP] = name
    try:
        await client.replace(CRONJOBFLOWS, meta.namespace, meta.name, json.dumps(changed).encode())
    except ApiError as error:
        if not error.conflict or tries == 1:
            raise
        return await skip_flow(client, await find_cron(client, meta.name), tries - 1)
    return f"CronJobFlow {meta.name}: goes on without flow {name}"


async def delete_cron(client: Client, found: FoundCron) -> str:
    meta = found.cron.metadata
    # as the webhook does, which may be off
    for violation in cron_is_idle(found.cron):
        raise CommandError(FAILED, violation.detail)
    await client.delete(CRONJOBFLOWS, meta.namespace, meta.name, uid=meta.uid)
    return f'cronjobflow.{FLOW_GROUP} "{meta.name}" deleted'
