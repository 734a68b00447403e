"""Flags and help of the commands that change flows. Each imports its module when called."""

from collections.abc import Sequence
from typing import Annotated

import typer

from jobflow.cli import flags
from jobflow.cli.commands.command import Commands, Work
from jobflow.client.options import Connection, FileOptions, Selection

commands = Commands()


def only_crons(
    names: Sequence[str] | None, selection: Selection, has_flow_flags: bool
) -> list[str]:
    """Return the names of CronJobFlows, given as cjf/NAME. Raises BadParameter if flows or their
    flags are given too."""
    from jobflow.client.flows.find_cron import split_names

    # `suspend train cjf/nightly` would mean two things by one verb
    flows, crons = split_names(names or ())
    if crons and (flows or selection != Selection()):
        raise typer.BadParameter("write names of flows or cjf/NAME, not both")
    if crons and has_flow_flags:
        raise typer.BadParameter("cjf/NAME takes no flags but those of the connection")
    return crons


def only_flow(names: Sequence[str] | None, selection: Selection) -> str:
    """Return the flow whose steps --step names. Raises BadParameter unless there is exactly one."""
    if selection != Selection():
        raise typer.BadParameter("--step is for one flow: give its name, without -l and -A")
    if not names:
        raise typer.BadParameter("--step is for one flow: give its name")
    if len(names) > 1:
        several = ", ".join(names)
        raise typer.BadParameter(
            f"--step is for one flow, not for {several}: name one, and each step with a --step"
        )
    return names[0]


def then_wait(flow: str) -> str:
    """Return what waits for a flow after a Command on its steps."""
    return f"afterwards, `jobflow wait {flow}` waits for the end of the flow"


@commands.add(
    "Check manifests, apply their templates, create their flows.",
    "jobflow submit flow.yaml --watch",
    "jobflow submit flow.yaml --log",
    "jobflow submit flow.yaml --param workers=4 --name train-4 -n team",
    "jobflow submit flow.yaml --param-file params.yaml --param workers=8",
    "jobflow submit templates/ flow.yaml --dry-run server",
    "jobflow submit flow.yaml --templates && jobflow retry train",
    "jobflow submit flow.yaml --reuse train --dry-run client",
    "name=$(jobflow submit flow.yaml -o name)",
)
def submit(
    files: FileOptions,
    connection: Connection,
    *,
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="NAME", help="Name of the flow, if FILEs contain one."),
    ] = None,
    dry_run: Annotated[
        flags.DryRun | None,
        typer.Option(
            "--dry-run",
            help="client: send nothing, print what would be sent, with --reuse also which steps "
            "run and why. server: send it, but let the server store nothing; it warns that new "
            "JobTemplates do not exist yet.",
        ),
    ] = None,
    templates: Annotated[
        bool, typer.Option("--templates", help="Send only the JobTemplates of FILEs.")
    ] = False,
    reuse: Annotated[
        str | None,
        typer.Option(
            "--reuse",
            metavar="FLOW",
            help="Run only what has changed since this flow, which has ended, and what depends on "
            "it; take the results of the rest.",
        ),
    ] = None,
    rerun: flags.Rerun = None,
    follow: flags.FollowOptions,
) -> Work:
    """Check FILEs as `jobflow lint` does; if they have no fault, apply their JobTemplates and
    CronJobFlows (server-side, field manager jobflow) and create their JobFlows. A flow that exists
    is not changed, and nothing is sent. With --templates, only JobTemplates are sent: this changes
    the templates of a flow that exists, for its new jobs and for `jobflow retry`.

    With --reuse, the JobFlow of FILEs runs only what has changed since FLOW. If its name is taken,
    it gets that name and a random suffix.

    Objects of other kinds, such as Queue or Namespace, are not sent, because they often belong to
    somebody else and outlive the flow: a warning names each, and `kubectl apply` creates them.

    With -o only the flows are printed; with --dry-run, or without a flow, the templates too.
    Interrupting --wait, --watch or --log does not stop the flows.

    Exit code: 0 sent, with --wait, --watch or --log: every flow is Succeed; 1 faults, refused, or a
    flow is Failed; 2 a file cannot be read, or no cluster; 130 interrupted.
    """
    from jobflow.cli.steer.submit import SubmitOptions, submit_files

    options = SubmitOptions(follow, name, dry_run, templates, reuse, rerun or ())
    return submit_files(files, connection, options)


@commands.add(
    "Cancel a flow: abort its jobs, skip what has not started.",
    "jobflow cancel train",
    "jobflow cancel train --now --wait -n team",
    "jobflow cancel -l team=vision",
    "jobflow cancel train --step sweep/2 --step report -m 'it hangs'",
)
def cancel(
    options: flags.ClusterOptions,
    selection: Selection,
    how: flags.StepOptions,
    flows: flags.FlowNames = None,
    step: flags.Steps = None,
    now: Annotated[
        bool, typer.Option("--now", help="Cancel the finally steps too, even if they already run.")
    ] = False,
    wait: flags.Wait = False,
) -> Work:
    """Cancel a flow: abort the jobs that run, skip the steps that have not started, run finally.
    The flow is Failed (Cancelled) once all jobs have finished. With --now, finally is cancelled
    too.

    With --step, only these steps and items are given up: their jobs are aborted, they are Failed
    (CancelledByUser) without another attempt, and the rest of the flow goes on by its own rules.
    --dry-run and -m are for --step.

    An error about one flow does not stop the others; the exit code is the highest.

    Exit code: 0 requested, with --wait: the flow has finished; 1 refused, or the flow has finished
    or is already being cancelled; 2 no such flow, step or item, or no cluster; 130 interrupted.
    """
    if step:
        only, as_json = only_flow(flows, selection), options.as_json
        if now or wait:
            raise typer.BadParameter(f"--step takes neither --now nor --wait; {then_wait(only)}")
        from jobflow.cli.steer.by_hand import steer_steps
        from jobflow.client.verbs.by_hand import CANCEL_STEP

        return steer_steps(only, CANCEL_STEP, step, options, how, as_json=as_json)
    if how != flags.StepOptions():
        raise typer.BadParameter("--dry-run and -m need --step")
    from jobflow.cli.steer.send_command import send_and_wait
    from jobflow.client.verbs.command import CANCEL, CANCEL_NOW

    verb = CANCEL_NOW if now else CANCEL
    return send_and_wait(verb, flows or (), selection, options, wait=wait)


@commands.add(
    "Suspend a flow: start nothing until it is resumed.",
    "jobflow suspend train nightly",
    "jobflow suspend train --abort --wait -n team",
    "jobflow suspend cjf/nightly",
)
def suspend(
    options: flags.ClusterOptions,
    selection: Selection,
    flows: flags.FlowNames = None,
    abort: Annotated[
        bool, typer.Option("--abort", help="Abort the jobs that run; resume starts a new attempt.")
    ] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until no job is running; print progress.")
    ] = False,
) -> Work:
    """Suspend a flow: no step starts until it is resumed, not even finally. Jobs that run finish;
    with --abort they are aborted. cjf/NAME suspends the schedule of a CronJobFlow; its flows
    continue.

    An error about one flow does not stop the others; the exit code is the highest.

    Exit code: 0 requested, with --wait: no job is running; 1 refused, the flow has finished or is
    already suspended, or with --wait: it was resumed; 2 no such flow, or no cluster; 130
    interrupted.
    """
    if crons := only_crons(flows, selection, abort or wait or options.as_json):
        from jobflow.cli.steer.crons import suspend_crons

        return suspend_crons(crons, options, suspend=True)
    from jobflow.cli.steer.send_command import send_and_wait
    from jobflow.client.verbs.command import SUSPEND, SUSPEND_AND_ABORT

    verb = SUSPEND_AND_ABORT if abort else SUSPEND
    return send_and_wait(verb, flows or (), selection, options, wait=wait)


@commands.add(
    "Resume a suspended flow.",
    "jobflow resume train",
    "jobflow resume -l team=vision -o json",
    "jobflow resume cjf/nightly",
)
def resume(
    options: flags.ClusterOptions, selection: Selection, flows: flags.FlowNames = None
) -> Work:
    """Resume a suspended flow, also one that was created with `suspend: true`. Steps whose jobs
    were aborted start a new attempt, which does not count against their retry limit. cjf/NAME
    resumes the schedule of a CronJobFlow.

    An error about one flow does not stop the others; the exit code is the highest.

    Exit code: 0 requested; 1 refused, or the flow has finished or is not suspended; 2 no such flow,
    or no cluster.
    """
    if crons := only_crons(flows, selection, options.as_json):
        from jobflow.cli.steer.crons import suspend_crons

        return suspend_crons(crons, options, suspend=False)
    from jobflow.cli.steer.send_command import send_and_wait
    from jobflow.client.verbs.command import RESUME

    return send_and_wait(RESUME, flows or (), selection, options)


@commands.add(
    "Create a new flow with the spec of another.",
    "jobflow resubmit train",
    "jobflow resubmit train --param workers=8 --name train-8 --watch",
    "jobflow resubmit train --param rate=0.1 --reuse --dry-run client",
    "jobflow resubmit train --reuse --rerun evaluate",
)
def resubmit(
    flow: flags.FlowName,
    connection: Connection,
    params: flags.ParamOptions,
    *,
    name: flags.NewName = None,
    reuse: Annotated[
        bool,
        typer.Option(
            "--reuse",
            help="Run only what has changed since FLOW, which has ended, and what depends on it; "
            "take the results of the rest.",
        ),
    ] = False,
    rerun: flags.Rerun = None,
    dry_run: flags.SentDryRun = None,
    follow: flags.FollowOptions,
) -> Work:
    """Create a flow with the spec, labels and annotations of an existing one, in its namespace. It
    runs from the beginning, with the JobTemplates as they are now. Without --name it gets the old
    name and a random suffix. With --reuse, steps that completed in FLOW and have not changed are
    not run again: the new flow takes their results. `jobflow retry` instead runs what failed of the
    same flow, with the same spec.

    Exit code: 0 created, with --wait, --watch or --log: the flow is Succeed; 1 faults, refused, or
    the flow is Failed; 2 no such flow, or no cluster; 130 interrupted.
    """
    from jobflow.cli.steer.submit import SubmitOptions, resubmit_flow

    options = SubmitOptions(follow, name, dry_run, reuse=flow if reuse else None, rerun=rerun or ())
    return resubmit_flow(flow, connection, params, options)


@commands.add(
    "Delete flows and their jobs.",
    "jobflow delete train",
    "jobflow delete train evaluate --cancel --wait",
    "jobflow delete -l team=vision -n team -o name",
    "jobflow delete cjf/nightly",
)
def delete(
    connection: Connection,
    selection: Selection,
    options: flags.DeleteOptions,
    flows: flags.FlowNames = None,
) -> Work:
    """Delete flows that have ended, with their jobs and pods. A flow that has not ended is refused,
    as the API server refuses it; with --cancel it is cancelled first, and its finally runs. An
    error about one flow does not stop the others. cjf/NAME deletes a CronJobFlow and its flows, if
    none of them is active.

    Exit code: 0 deleted; 1 a flow was refused; 2 no such flow, or no cluster; 130 interrupted.
    """
    if crons := only_crons(flows, selection, options != flags.DeleteOptions()):
        from jobflow.cli.steer.crons import change_crons, delete_cron

        return change_crons(crons, connection, delete_cron)
    from jobflow.cli.steer.delete import delete_flows

    return delete_flows(flows or (), selection, connection, options)


@commands.add(
    "Create a flow of a CronJobFlow now.",
    "jobflow trigger nightly",
    "jobflow trigger nightly --param day=2026-01-31 --watch",
    "name=$(jobflow trigger nightly -o name)",
)
def trigger(
    cron: flags.CronName,
    connection: Connection,
    params: flags.ParamOptions,
    *,
    follow: flags.FollowOptions,
) -> Work:
    """Create a flow of a CronJobFlow now, also while it is suspended. The flow is named
    <cjf>-manual-<random>, and its scheduled time is the present time. It belongs to the CronJobFlow
    and its history limits, but not to its concurrency policy.

    Exit code: 0 created, with --wait, --watch or --log: the flow is Succeed; 1 faults, refused, or
    the flow is Failed; 2 no such CronJobFlow, or no cluster; 130 interrupted.
    """
    from jobflow.cli.steer.crons import trigger_cron
    from jobflow.cli.steer.submit import SubmitOptions

    return trigger_cron(cron, connection, params, SubmitOptions(follow))


@commands.add(
    "Create the flows of a CronJobFlow for past times.",
    "jobflow backfill nightly --from 2026-01-01 --to 2026-01-31",
    "jobflow backfill nightly --from 2026-01-01T06:00 --to 2026-01-01T18:00Z --dry-run",
    "jobflow backfill hourly --from 2026-01-31 --to 2026-01-31 --limit 1000 -o name",
)
def backfill(cron: flags.CronName, connection: Connection, options: flags.BackfillOptions) -> Work:
    """Create a flow for each time of the schedule in an interval. A flow has the name that the
    schedule would give it, so a time that has a flow gets no second one. All of them start at once.
    Neither the concurrency policy nor the history limits apply to them.

    Exit code: 0 each time has a flow; 1 refused, or the schedule has no time in the interval; 2 no
    such CronJobFlow, a wrong interval, or no cluster.
    """
    from jobflow.cli.steer.crons import backfill_cron

    return backfill_cron(cron, connection, options)
