"""`jobflow get cjf`: a table of CronJobFlows, or objects for programs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import chain

from rich.cells import cell_len

from jobflow.api.flow.cronjobflow import CronJobFlow
from jobflow.api.resources import CRONJOBFLOWS
from jobflow.cli.flags import GetOutput
from jobflow.cli.show.objects import print_objects
from jobflow.client.errors import UNUSABLE, CommandError, Errors
from jobflow.client.flows.find_cron import KINDS, FoundCron, find_cron, list_crons, split_names
from jobflow.client.flows.find_flow import check_exclusive, describe_place
from jobflow.client.options import Selection
from jobflow.core.text import format_duration, printable
from jobflow.kube.cache import key_of
from jobflow.kube.client import Client

_GAP = "   "


async def get_crons(
    client: Client, names: Sequence[str], selection: Selection, output: GetOutput | None
) -> int:
    """Print CronJobFlows and return the exit code. `names` are `cjf`, for all of them, or
    `cjf/NAME`. Raises CommandError."""
    named = [name for name in names if name not in KINDS]
    flows, crons = split_names(named)
    if flows or (named and len(named) < len(names)):
        raise CommandError(UNUSABLE, "write cjf, cjf/NAME or names of flows, not several of them")
    if output is GetOutput.TREE:
        raise CommandError(UNUSABLE, "-o tree is for flows: a CronJobFlow has no steps")
    check_exclusive(crons, selection)
    errors = Errors()
    found = await _find(client, crons, selection, errors)
    if output in (GetOutput.JSON, GetOutput.YAML):
        if found or len(crons) != 1:
            print_objects([each.raw for each in found], output, single=len(crons) == 1)
    elif found:
        print("\n".join(_lines([each.cron for each in found], selection, output)))
    elif not errors.code:
        print(f"no CronJobFlow {describe_place(client, selection)}", file=sys.stderr)
    return errors.code


async def _find(
    client: Client, names: Sequence[str], selection: Selection, errors: Errors
) -> list[FoundCron]:
    if not names:
        return sorted(await list_crons(client, selection), key=lambda each: key_of(each.cron))
    found: list[FoundCron] = []
    for name in names:
        try:
            found.append(await find_cron(client, name))
        except CommandError as error:
            errors.add(error)
    return found


def _lines(
    crons: Sequence[CronJobFlow], selection: Selection, output: GetOutput | None
) -> list[str]:
    if output is GetOutput.NAME:
        kind = f"{CRONJOBFLOWS.kind.lower()}.{CRONJOBFLOWS.group}"
        return [f"{kind}/{cron.metadata.name}" for cron in crons]
    return _table(crons, selection.all_namespaces, output is GetOutput.WIDE)


def _table(crons: Sequence[CronJobFlow], namespaces: bool, wide: bool) -> list[str]:
    now = datetime.now(UTC)
    names = ["NAME", "SCHEDULE", "SUSPEND", "ACTIVE", "LAST SCHEDULE", "AGE"]
    names = [*(["NAMESPACE"] if namespaces else []), *names]
    names += ["TIME ZONE", "LAST SUCCESS"] if wide else []
    rows = [_cells(cron, namespaces, wide, now) for cron in crons]
    sizes = [max(map(cell_len, column)) for column in zip(names, *rows, strict=True)]
    return [
        _GAP.join(
            cell + " " * (size - cell_len(cell)) for cell, size in zip(row, sizes, strict=True)
        ).rstrip()
        for row in chain([names], rows)
    ]


def _cells(cron: CronJobFlow, namespaces: bool, wide: bool, now: datetime) -> list[str]:
    meta, spec, status = cron.metadata, cron.spec, cron.status
    cells = [
        *([meta.namespace] if namespaces else []),
        meta.name,
        spec.schedule or "",
        str(cron.suspended),
        str(max(status.active_count or 0, len(status.active or ()))),
        _since(status.last_schedule_time, now),
        _since(meta.creation_timestamp, now),
    ]
    if wide:
        cells += [spec.time_zone or "UTC", _since(status.last_successful_time, now)]
    return [printable(cell) for cell in cells]


def _since(time: datetime | None, now: datetime) -> str:
    return format_duration(now - time) if time is not None else "<none>"
