"""Flags and help of the commands about one flow of a cluster. Each imports its module when
called."""

from __future__ import annotations

from typing import Annotated

import typer

from jobflow.cli.flags import ClusterOptions, FlowName, Wait, examples, expand_options

commands = typer.Typer()


@commands.command(
    short_help="Explain why a flow or a step waits, runs or failed.",
    epilog=examples("jobflow why train", "jobflow why train evaluate -n team -o json"),
)
@expand_options
def why(
    flow: FlowName,
    options: ClusterOptions,
    step: Annotated[
        str | None,
        typer.Argument(metavar="STEP", help="A step of the flow.", show_default=False),
    ] = None,
) -> None:
    """Explain in one paragraph what a flow waits for and how long, what failed, what to do about it
    and what runs next. With STEP, follow its dependencies back to the cause.

    Exit code: 0 answered; 1 no right to read the flow; 2 no such flow or step, or no cluster.
    """
    from jobflow.cli.flows.find_flow import run_command
    from jobflow.cli.flows.why import print_explanation

    raise typer.Exit(run_command(print_explanation(flow, step, options)))


@commands.command(
    short_help="Cancel a flow: abort its jobs, skip what has not started.",
    epilog=examples("jobflow cancel train", "jobflow cancel train --now --wait -n team"),
)
@expand_options
def cancel(
    flow: FlowName,
    options: ClusterOptions,
    now: Annotated[
        bool, typer.Option("--now", help="Cancel the finally steps too, even if they already run.")
    ] = False,
    wait: Wait = False,
) -> None:
    """Cancel a flow: abort the jobs that run, skip the steps that have not started, run finally.
    The flow is Failed (Cancelled) once all jobs have finished. With --now, finally is cancelled
    too.

    Exit code: 0 requested, with --wait: the flow has finished; 1 refused, or the flow has finished
    or is already being cancelled; 2 no such flow, or no cluster; 130 interrupted.
    """
    from jobflow.cli.flows.send_command import send
    from jobflow.cli.flows.verbs import CANCEL, CANCEL_NOW

    raise typer.Exit(send(CANCEL_NOW if now else CANCEL, flow, options, wait=wait))


@commands.command(
    short_help="Suspend a flow: start nothing until it is resumed.",
    epilog=examples("jobflow suspend train", "jobflow suspend train --abort --wait -n team"),
)
@expand_options
def suspend(
    flow: FlowName,
    options: ClusterOptions,
    abort: Annotated[
        bool,
        typer.Option("--abort", help="Abort the jobs that run; resume starts a new attempt."),
    ] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until no job is running; print progress.")
    ] = False,
) -> None:
    """Suspend a flow: no step starts until it is resumed, not even finally. Jobs that run finish;
    with --abort they are aborted.

    Exit code: 0 requested, with --wait: no job is running; 1 refused, the flow has finished or is
    already suspended, or with --wait: it was resumed; 2 no such flow, or no cluster; 130
    interrupted.
    """
    from jobflow.cli.flows.send_command import send
    from jobflow.cli.flows.verbs import SUSPEND, SUSPEND_AND_ABORT

    raise typer.Exit(send(SUSPEND_AND_ABORT if abort else SUSPEND, flow, options, wait=wait))


@commands.command(
    short_help="Resume a suspended flow.",
    epilog=examples("jobflow resume train", "jobflow resume train -n team -o json"),
)
@expand_options
def resume(
    flow: FlowName,
    options: ClusterOptions,
) -> None:
    """Resume a suspended flow, also one that was created with `suspend: true`. Steps whose jobs
    were aborted start a new attempt, which does not count against their retry limit.

    Exit code: 0 requested; 1 refused, or the flow has finished or is not suspended; 2 no such flow,
    or no cluster.
    """
    from jobflow.cli.flows.send_command import send
    from jobflow.cli.flows.verbs import RESUME

    raise typer.Exit(send(RESUME, flow, options))


@commands.command(
    short_help="Retry a failed flow from the steps that failed.",
    epilog=examples("jobflow retry train", "jobflow retry train --wait -n team -o json"),
)
@expand_options
def retry(
    flow: FlowName,
    options: ClusterOptions,
    wait: Wait = False,
) -> None:
    """Retry a Failed flow: steps that failed, or were skipped because of that, run again, and so
    does finally. Completed steps stay as they are. New jobs use the JobTemplates as they are now.

    Exit code: 0 requested, with --wait: the flow is Succeed; 1 refused, the flow has not failed, or
    with --wait: it failed again; 2 no such flow, or no cluster; 130 interrupted.
    """
    from jobflow.cli.flows.send_command import send
    from jobflow.cli.flows.verbs import RETRY

    raise typer.Exit(send(RETRY, flow, options, wait=wait))
