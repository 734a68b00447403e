"""`jobflow get cjf` and `why cjf/NAME`: CronJobFlows listed and explained."""

import sys
from collections.abc import Sequence
from datetime import UTC, datetime

from jobflow.api.flow.cronjobflow import CronJobFlow
from jobflow.api.labels import CRON
from jobflow.api.resources import CRONJOBFLOWS
from jobflow.cli.flags import ClusterOptions
from jobflow.client.errors import SUCCESS, UNUSABLE, CommandError, Errors
from jobflow.client.flows.find_cron import KINDS, FoundCron, find_cron, list_crons, split_names
from jobflow.client.flows.find_flow import check_exclusive, connect, describe_place, find_flows
from jobflow.client.options import Selection
from jobflow.core.cron import belongs_to, format_scheduled_time
from jobflow.core.explain.cron import explain_cron
from jobflow.core.names import to_label_value
from jobflow.core.text import format_duration, printable
from jobflow.display.console import column_sizes, join_cells, make_console, print_sentences
from jobflow.display.formats import GetOutput, print_json
from jobflow.display.objects import print_raw
from jobflow.kube.cache import key_of
from jobflow.kube.client import Client


async def get_crons(
    client: Client, names: Sequence[str], selection: Selection, output: GetOutput | None
) -> int:
    """Print CronJobFlows. `names` are `cjf`, for all of them, or `cjf/NAME`."""
    named = [name for name in names if name not in KINDS]
    flows, crons = split_names(named)
    if flows or (named and len(named) < len(names)):
        raise CommandError(UNUSABLE, "write cjf, cjf/NAME or names of flows, not several of them")
    if output is GetOutput.TREE:
        raise CommandError(UNUSABLE, "-o tree is for flows: a CronJobFlow has no steps")
    check_exclusive(crons, selection)
    errors = Errors()
    found: list[FoundCron] = []
    if not crons:
        found = sorted(await list_crons(client, selection), key=lambda each: key_of(each.cron))
    for name in crons:
        try:
            found.append(await find_cron(client, name))
        except CommandError as error:
            errors.add(error)
    if output in (GetOutput.JSON, GetOutput.YAML):
        if found or len(crons) != 1:
            print_raw([each.raw for each in found], output, single=len(crons) == 1)
    elif not found:
        if not errors.code:
            print(f"no CronJobFlow {describe_place(client, selection)}", file=sys.stderr)
    elif output is GetOutput.NAME:
        for each in found:
            kind = f"{CRONJOBFLOWS.kind.lower()}.{CRONJOBFLOWS.group}"
            print(f"{kind}/{each.cron.metadata.name}")
    else:
        now = datetime.now(UTC)
        columns = ["NAMESPACE"] if selection.all_namespaces else []
        columns += ["NAME", "SCHEDULE", "SUSPEND", "ACTIVE", "LAST SCHEDULE", "AGE"]
        columns += ["TIME ZONE", "LAST SUCCESS"] if output is GetOutput.WIDE else []
        rows = [{name: name for name in columns}, *(_cells(each.cron, now) for each in found)]
        sizes = column_sizes(columns, rows)
        print("\n".join(join_cells(row, sizes) for row in rows))
    return errors.code


def _cells(cron: CronJobFlow, now: datetime) -> dict[str, str]:
    """Return the cells of all columns, by name. `<none>` is kubectl's word."""
    meta, spec, status = cron.metadata, cron.spec, cron.status
    cells = {
        "NAMESPACE": meta.namespace,
        "NAME": meta.name,
        "SCHEDULE": spec.schedule or "",
        "SUSPEND": str(cron.suspended),
        # the list of active flows is cut, the count is missing in old statuses
        "ACTIVE": str(max(status.active_count or 0, len(status.active or ()))),
        "TIME ZONE": spec.time_zone or "UTC",
    }
    times = {
        "LAST SCHEDULE": status.last_schedule_time,
        "AGE": meta.creation_timestamp,
        "LAST SUCCESS": status.last_successful_time,
    }
    for name, time in times.items():
        cells[name] = format_duration(now - time) if time is not None else "<none>"
    return {name: printable(cell) for name, cell in cells.items()}


async def print_cron_explanation(name: str, step: str | None, options: ClusterOptions) -> int:
    if step is not None:
        raise CommandError(UNUSABLE, "a CronJobFlow has no steps: give the name of a flow")
    async with await connect(options) as client:
        cron = (await find_cron(client, name)).cron
        meta = cron.metadata
        # the label narrows the list; names may be cut in it, so owners decide
        labelled = Selection(selector=f"{CRON}={to_label_value(meta.name)}")
        found = await find_flows(client, labelled)
    owned = [flow for flow in found if belongs_to(flow, meta)]
    explanation = explain_cron(cron, owned, datetime.now(UTC))
    if not options.as_json:
        print_sentences(explanation.sentences, make_console())
        return SUCCESS
    print_json(
        {
            "namespace": meta.namespace,
            "cronjobflow": meta.name,
            "next": format_scheduled_time(explanation.next) if explanation.next else None,
            "reasons": list(explanation.reasons),
            "waitsFor": cron.status.waits_for,
            "active": sorted(flow.metadata.name for flow in owned if not flow.final),
            "sentences": list(explanation.sentences),
        }
    )
    return SUCCESS
