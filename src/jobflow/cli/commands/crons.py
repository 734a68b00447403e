"""Flags and help of the commands that create flows of a CronJobFlow. Each imports its module when
called."""

from __future__ import annotations

from typing import Annotated

import typer

from jobflow.cli.commands.command import Commands, examples
from jobflow.cli.flags import CronName
from jobflow.cli.new_flow_flags import FollowOptions, Params, SentOutput
from jobflow.client.options import Connection

commands = Commands()


@commands.command(
    short_help="Create a flow of a CronJobFlow now.",
    epilog=examples(
        "jobflow trigger nightly",
        "jobflow trigger nightly --param day=2026-01-31 --watch",
        "name=$(jobflow trigger nightly -o name)",
    ),
)
def trigger(
    cron: CronName,
    connection: Connection,
    *,
    param: Params = None,
    follow: FollowOptions,
) -> None:
    """Create a flow of a CronJobFlow now, also while it is suspended. The flow is named
    <cjf>-manual-<random>, and its scheduled time is the present time. It belongs to the CronJobFlow
    and its history limits, but not to its concurrency policy.

    Exit code: 0 created, with --wait, --watch or --log: the flow is Succeed; 1 faults, refused, or
    the flow is Failed; 2 no such CronJobFlow, or no cluster; 130 interrupted.
    """
    from jobflow.cli.run_command import run_command
    from jobflow.cli.steer.crons import trigger_cron
    from jobflow.cli.steer.submit import SubmitOptions

    options = SubmitOptions(follow)
    raise typer.Exit(run_command(trigger_cron(cron, connection, param or (), options)))


@commands.command(
    short_help="Create the flows of a CronJobFlow for past times.",
    epilog=examples(
        "jobflow backfill nightly --from 2026-01-01 --to 2026-01-31",
        "jobflow backfill nightly --from 2026-01-01T06:00 --to 2026-01-01T18:00Z --dry-run",
        "jobflow backfill hourly --from 2026-01-31 --to 2026-01-31 --limit 1000 -o name",
    ),
)
def backfill(
    cron: CronName,
    connection: Connection,
    begin: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="TIME",
            help="First time, such as 2026-01-01 or 2026-01-01T02:00, in the time zone of the "
            "schedule unless it has one.",
            show_default=False,
        ),
    ],
    end: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="TIME",
            help="Last time; a date includes the whole day.",
            show_default=False,
        ),
    ],
    param: Params = None,
    limit: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=1,
            max=1000,
            help="Refuse to create more flows than this at once.",
        ),
    ] = 100,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Send nothing, print what would be created.")
    ] = False,
    output: SentOutput = None,
) -> None:
    """Create a flow for each time of the schedule in an interval. A flow has the name that the
    schedule would give it, so a time that has a flow gets no second one. All of them start at once.
    Neither the concurrency policy nor the history limits apply to them.

    Exit code: 0 each time has a flow; 1 refused, or the schedule has no time in the interval; 2 no
    such CronJobFlow, a wrong interval, or no cluster.
    """
    from jobflow.cli.run_command import run_command
    from jobflow.cli.steer.crons import BackfillOptions, backfill_cron

    options = BackfillOptions(begin, end, limit, dry_run, output)
    raise typer.Exit(run_command(backfill_cron(cron, connection, param or (), options)))
