"""Flags and help of the commands that change flows of a cluster. Each imports its module when
called."""

from __future__ import annotations

from typing import Annotated

import typer

from jobflow.cli.commands.command import Commands, examples
from jobflow.cli.flags import (
    ClusterOptions,
    DryRun,
    FlowName,
    FlowNames,
    Output,
    RetryOptions,
    Wait,
    complete_step,
)
from jobflow.cli.new_flow_flags import FollowOptions, Params
from jobflow.client.options import Connection, FileOptions, Selection
from jobflow.display.formats import ObjectOutput

commands = Commands()

ApprovalStep = Annotated[
    str,
    typer.Argument(
        metavar="STEP[/INDEX]",
        help="The step, or an item of its forEach, from 0.",
        show_default=False,
        autocompletion=complete_step,
    ),
]
Comment = Annotated[
    str,
    typer.Option(
        "-m", "--message", metavar="TEXT", help="Comment for the status.", show_default=False
    ),
]
NewName = Annotated[
    str | None,
    typer.Option("--name", metavar="NAME", help="Name of the new flow.", show_default=False),
]


@commands.command(
    short_help="Check manifests, apply their templates, create their flows.",
    epilog=examples(
        "jobflow submit flow.yaml --watch",
        "jobflow submit flow.yaml --log",
        "jobflow submit flow.yaml --param workers=4 --name train-4 -n team",
        "jobflow submit templates/ flow.yaml --dry-run server",
        "jobflow submit flow.yaml --templates && jobflow retry train",
        "name=$(jobflow submit flow.yaml -o name)",
    ),
)
def submit(
    files: FileOptions,
    connection: Connection,
    *,
    name: Annotated[
        str | None,
        typer.Option(
            "--name",
            metavar="NAME",
            help="Name of the flow, if FILEs contain one.",
            show_default=False,
        ),
    ] = None,
    dry_run: Annotated[
        DryRun | None,
        typer.Option(
            "--dry-run",
            help="client: send nothing, print what would be sent. server: send it, but let the "
            "server store nothing; it warns that new JobTemplates do not exist yet.",
            show_default=False,
        ),
    ] = None,
    templates: Annotated[
        bool, typer.Option("--templates", help="Send only the JobTemplates of FILEs.")
    ] = False,
    follow: FollowOptions,
) -> None:
    """Check FILEs as `jobflow lint` does; if they have no fault, apply their JobTemplates and
    CronJobFlows (server-side, field manager jobflow) and create their JobFlows. A flow that exists
    is not changed, and nothing is sent. With --templates, only JobTemplates are sent: this changes
    the templates of a flow that exists, for its new jobs and for `jobflow retry`.

    Objects of other kinds, such as Queue or Namespace, are not sent, because they often belong to
    somebody else and outlive the flow: a warning names each, and `kubectl apply` creates them.

    With -o only the flows are printed; with --dry-run, or without a flow, the templates too.
    Interrupting --wait, --watch or --log does not stop the flows.

    Exit code: 0 sent, with --wait, --watch or --log: every flow is Succeed; 1 faults, refused, or a
    flow is Failed; 2 a file cannot be read, or no cluster; 130 interrupted.
    """
    from jobflow.cli.run_command import run_command
    from jobflow.cli.steer.submit import SubmitOptions, submit_files

    options = SubmitOptions(follow, name, dry_run, templates)
    raise typer.Exit(run_command(submit_files(files, connection, options)))


@commands.command(
    short_help="Cancel a flow: abort its jobs, skip what has not started.",
    epilog=examples(
        "jobflow cancel train",
        "jobflow cancel train --now --wait -n team",
        "jobflow cancel -l team=vision",
    ),
)
def cancel(
    options: ClusterOptions,
    selection: Selection,
    flows: FlowNames = None,
    now: Annotated[
        bool, typer.Option("--now", help="Cancel the finally steps too, even if they already run.")
    ] = False,
    wait: Wait = False,
) -> None:
    """Cancel a flow: abort the jobs that run, skip the steps that have not started, run finally.
    The flow is Failed (Cancelled) once all jobs have finished. With --now, finally is cancelled
    too.

    An error about one flow does not stop the others; the exit code is the highest.

    Exit code: 0 requested, with --wait: the flow has finished; 1 refused, or the flow has finished
    or is already being cancelled; 2 no such flow, or no cluster; 130 interrupted.
    """
    from jobflow.cli.steer.send_command import send
    from jobflow.client.verbs.lifecycle import CANCEL, CANCEL_NOW

    raise typer.Exit(send(CANCEL_NOW if now else CANCEL, flows, selection, options, wait=wait))


@commands.command(
    short_help="Suspend a flow: start nothing until it is resumed.",
    epilog=examples(
        "jobflow suspend train nightly",
        "jobflow suspend train --abort --wait -n team",
        "jobflow suspend cjf/nightly",
    ),
)
def suspend(
    options: ClusterOptions,
    selection: Selection,
    flows: FlowNames = None,
    abort: Annotated[
        bool,
        typer.Option("--abort", help="Abort the jobs that run; resume starts a new attempt."),
    ] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until no job is running; print progress.")
    ] = False,
) -> None:
    """Suspend a flow: no step starts until it is resumed, not even finally. Jobs that run finish;
    with --abort they are aborted. cjf/NAME suspends the schedule of a CronJobFlow; its flows
    continue.

    An error about one flow does not stop the others; the exit code is the highest.

    Exit code: 0 requested, with --wait: no job is running; 1 refused, the flow has finished or is
    already suspended, or with --wait: it was resumed; 2 no such flow, or no cluster; 130
    interrupted.
    """
    from jobflow.cli.steer.change_crons import only_crons, suspend_crons
    from jobflow.cli.steer.send_command import send
    from jobflow.client.verbs.lifecycle import SUSPEND, SUSPEND_AND_ABORT

    if crons := only_crons(flows, selection, abort or wait or options.as_json):
        raise typer.Exit(suspend_crons(crons, options, True))
    raise typer.Exit(
        send(SUSPEND_AND_ABORT if abort else SUSPEND, flows, selection, options, wait=wait)
    )


@commands.command(
    short_help="Resume a suspended flow.",
    epilog=examples(
        "jobflow resume train",
        "jobflow resume -l team=vision -o json",
        "jobflow resume cjf/nightly",
    ),
)
def resume(
    options: ClusterOptions,
    selection: Selection,
    flows: FlowNames = None,
) -> None:
    """Resume a suspended flow, also one that was created with `suspend: true`. Steps whose jobs
    were aborted start a new attempt, which does not count against their retry limit. cjf/NAME
    resumes the schedule of a CronJobFlow.

    An error about one flow does not stop the others; the exit code is the highest.

    Exit code: 0 requested; 1 refused, or the flow has finished or is not suspended; 2 no such flow,
    or no cluster.
    """
    from jobflow.cli.steer.change_crons import only_crons, suspend_crons
    from jobflow.cli.steer.send_command import send
    from jobflow.client.verbs.lifecycle import RESUME

    if crons := only_crons(flows, selection, options.as_json):
        raise typer.Exit(suspend_crons(crons, options, False))
    raise typer.Exit(send(RESUME, flows, selection, options))


@commands.command(
    short_help="Retry a flow: what failed and all that was made of it.",
    epilog=examples(
        "jobflow retry train",
        "jobflow retry train --dry-run client",
        "jobflow retry train --tolerated --yes",
        "jobflow retry train --wait -n team -o json",
    ),
)
def retry(
    options: ClusterOptions,
    selection: Selection,
    how: RetryOptions,
    flows: FlowNames = None,
) -> None:
    """Retry a Failed flow: steps that failed, or were skipped because of that, run again, with
    whatever depends on them, and so does finally. Other completed steps, tolerated failures and
    approvals that were given stay. New jobs use the JobTemplates as they are now.

    On a terminal, it asks first if completed jobs that ran for more than an hour, all together,
    would run again. An error about one flow does not stop the others; the exit code is the highest.

    Exit code: 0 requested, with --wait: the flow is Succeed; 1 refused, the flow has not failed,
    the question was not answered with y, or with --wait: it failed again; 2 no such flow, or no
    cluster; 130 interrupted.
    """
    from jobflow.cli.steer.retry import retry as retry_flows

    raise typer.Exit(retry_flows(flows, selection, options, how))


@commands.command(
    short_help="Approve a step that waits for approval.",
    epilog=examples(
        "jobflow approve train evaluate",
        'jobflow approve train sweep/2 --output percent=10 -m "only a few users" -n team',
    ),
)
def approve(
    flow: FlowName,
    step: ApprovalStep,
    connection: Connection,
    outputs: Annotated[
        list[str] | None,
        typer.Option(
            "--output",
            metavar="NAME=VALUE",
            help="Set an output of the step; VALUE is JSON or else text. May be repeated.",
            show_default=False,
        ),
    ] = None,
    message: Comment = "",
    output: Annotated[Output, typer.Option("-o", help="Text, or one JSON object.")] = Output.TEXT,
) -> None:
    """Approve a step that waits for approval (reason WaitingForApproval), or an item of its
    forEach: it is Completed, and the steps that depend on it start. The flow's status
    keeps who approved it and when.

    You need the right to approve JobFlows (verb approve on jobflows.flow.volcano.sh), and to create
    Commands.

    Exit code: 0 requested; 1 refused, or the step does not wait for approval; 2 no such flow or
    step, a fault in a flag, or no cluster.
    """
    from jobflow.cli.run_command import run_command
    from jobflow.cli.steer.answer import send_answer
    from jobflow.client.verbs.answer import APPROVE, Answer

    answer = Answer(APPROVE, step, message, tuple(outputs or ()), output is Output.JSON)
    raise typer.Exit(run_command(send_answer(flow, connection, answer)))


@commands.command(
    short_help="Reject a step that waits for approval.",
    epilog=examples(
        "jobflow reject train evaluate",
        'jobflow reject train evaluate -m "the accuracy is too low" -o json',
    ),
)
def reject(
    flow: FlowName,
    step: ApprovalStep,
    options: ClusterOptions,
    message: Comment = "",
) -> None:
    """Reject a step that waits for approval (reason WaitingForApproval), or an item of its forEach:
    it is Failed (Rejected). `jobflow retry` of the failed flow asks again.

    You need the right to approve JobFlows (verb approve on jobflows.flow.volcano.sh), and to create
    Commands.

    Exit code: 0 requested; 1 refused, or the step does not wait for approval; 2 no such flow or
    step, or no cluster.
    """
    from jobflow.cli.run_command import run_command
    from jobflow.cli.steer.answer import send_answer
    from jobflow.client.verbs.answer import REJECT, Answer

    answer = Answer(REJECT, step, message, as_json=options.as_json)
    raise typer.Exit(run_command(send_answer(flow, options, answer)))


@commands.command(
    short_help="Create a new flow with the spec of another.",
    epilog=examples(
        "jobflow resubmit train",
        "jobflow resubmit train --param workers=8 --name train-8 --watch",
    ),
)
def resubmit(
    flow: FlowName,
    connection: Connection,
    *,
    param: Params = None,
    name: NewName = None,
    follow: FollowOptions,
) -> None:
    """Create a flow with the spec, labels and annotations of an existing one, in its namespace. It
    runs from the beginning, with the JobTemplates as they are now. Without --name it gets the old
    name and a random suffix. `jobflow retry` instead runs only what failed.

    Exit code: 0 created, with --wait, --watch or --log: the flow is Succeed; 1 faults, refused, or
    the flow is Failed; 2 no such flow, or no cluster; 130 interrupted.
    """
    from jobflow.cli.run_command import run_command
    from jobflow.cli.steer.resubmit import resubmit_flow
    from jobflow.cli.steer.submit import SubmitOptions

    options = SubmitOptions(follow, name)
    raise typer.Exit(run_command(resubmit_flow(flow, connection, param or (), options)))


@commands.command(
    short_help="Delete flows and their jobs.",
    epilog=examples(
        "jobflow delete train",
        "jobflow delete train evaluate --cancel --wait",
        "jobflow delete -l team=vision -n team -o name",
        "jobflow delete cjf/nightly",
    ),
)
def delete(
    connection: Connection,
    selection: Selection,
    flows: FlowNames = None,
    cancel: Annotated[
        bool, typer.Option("--cancel", help="Cancel flows that have not ended, then delete them.")
    ] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the flows are gone.")] = False,
    output: Annotated[
        ObjectOutput | None,
        typer.Option(
            "-o",
            "--output",
            help="Print the deleted flows as they were, instead of one line each.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Delete flows that have ended, with their jobs and pods. A flow that has not ended is refused,
    as the API server refuses it; with --cancel it is cancelled first, and its finally runs. An
    error about one flow does not stop the others. cjf/NAME deletes a CronJobFlow and its flows, if
    none of them is active.

    Exit code: 0 deleted; 1 a flow was refused; 2 no such flow, or no cluster; 130 interrupted.
    """
    from jobflow.cli.run_command import run_command
    from jobflow.cli.steer.change_crons import change_crons, delete_cron, only_crons
    from jobflow.cli.steer.delete import DeleteOptions, delete_flows

    options = DeleteOptions(cancel, wait, output)
    if crons := only_crons(flows, selection, options != DeleteOptions()):
        raise typer.Exit(run_command(change_crons(crons, connection, delete_cron)))
    work = delete_flows(flows or (), selection, connection, options)
    raise typer.Exit(run_command(work))
