"""Commands on steps of a flow: run again, skip, scale, approve, reject."""

from typing import Annotated

import typer

from jobflow.cli import flags
from jobflow.cli.commands.command import Commands, Work
from jobflow.cli.commands.steer import only_crons, only_flow, then_wait
from jobflow.client.options import Connection, Selection
from jobflow.display.formats import Output

commands = Commands()


@commands.add(
    "Retry a flow: what failed and all that was made of it.",
    "jobflow retry train",
    "jobflow retry train --dry-run client",
    "jobflow retry train --tolerated --yes",
    "jobflow retry train --wait -n team -o json",
    "jobflow retry train --step prepare --step sweep/3 --dry-run client",
)
def retry(
    options: flags.ClusterOptions,
    selection: Selection,
    how: flags.RetryOptions,
    flows: flags.FlowNames = None,
    step: flags.Steps = None,
    message: flags.Message = "",
) -> Work:
    """Retry a Failed flow: steps that failed, or were skipped because of that, run again, with
    whatever depends on them, and so does finally. Other completed steps, tolerated failures and
    approvals that were given stay. New jobs use the JobTemplates as they are now.

    With --step, these steps and items run again, also completed ones and also while the flow runs,
    and all that was made of them; -m is its comment.

    On a terminal, it asks first if completed jobs that ran for more than an hour, all together,
    would run again. An error about one flow does not stop the others; the exit code is the highest.

    Exit code: 0 requested, with --wait: the flow is Succeed; 1 refused, the flow has not failed,
    the question was not answered with y, or with --wait: it failed again; 2 no such flow, step or
    item, or no cluster; 130 interrupted.
    """
    if step:
        only, as_json = only_flow(flows, selection), options.as_json
        if how.tolerated or how.wait:
            raise typer.BadParameter(
                f"--step takes neither --tolerated nor --wait; {then_wait(only)}"
            )
        from jobflow.cli.steer.by_hand import steer_steps
        from jobflow.client.verbs.by_hand import RETRY_STEPS

        steps = flags.StepOptions(how.dry_run, message)
        return steer_steps(only, RETRY_STEPS, step, options, steps, as_json=as_json)
    if message:
        raise typer.BadParameter("-m needs --step")
    from jobflow.cli.steer.send_command import send_and_wait
    from jobflow.client.verbs.command import RETRY, RETRY_TOLERATED

    verb = RETRY_TOLERATED if how.tolerated else RETRY
    return send_and_wait(verb, flows or (), selection, options, wait=how.wait, retry=how)


@commands.add(
    "Skip a step by hand: the flow goes on as if it had completed.",
    "jobflow skip train check",
    "jobflow skip train sweep/2 --output accuracy=0.9 -m 'a false positive' -n team",
    "jobflow skip train samples/3/qc --dry-run client -o json",
    "jobflow skip cjf/nightly",
)
def skip(
    flow: flags.FlowName,
    connection: Connection,
    how: flags.StepOptions,
    step: flags.StepPath = None,
    outputs: flags.StepOutputs = None,
    output: Annotated[Output, typer.Option("-o", help="Text, or one JSON object.")] = Output.TEXT,
) -> Work:
    """Settle a step, or an item of its forEach, that has failed, hangs or waits: its job is ended
    first, it is Skipped (SkippedByUser), and what depends on it goes on as if it had completed,
    with these outputs. Of a step with items, each is skipped that has not completed. A flow that
    has ended goes on, as after a retry.

    cjf/NAME settles the flow for whose success a CronJobFlow waits (requirePreviousSuccess): the
    next one starts although it has failed.

    Exit code: 0 requested; 1 refused, or the step has completed; 2 no such flow, step or item, a
    fault in a flag, or no cluster.
    """
    has_flags = bool(step or outputs) or how != flags.StepOptions() or output is not Output.TEXT
    if crons := only_crons([flow], Selection(), has_flags):
        from jobflow.cli.steer.crons import change_crons, skip_flow

        return change_crons(crons, connection, skip_flow)
    if step is None:
        raise typer.BadParameter("give the step: jobflow skip FLOW STEP[/INDEX], or skip cjf/NAME")
    from jobflow.cli.steer.by_hand import steer_steps
    from jobflow.client.verbs.by_hand import SKIP_STEP

    as_json = output is Output.JSON
    return steer_steps(flow, SKIP_STEP, [step], connection, how, outputs or (), as_json=as_json)


@commands.add(
    "Set how many jobs or items of a running flow there are at once.",
    "jobflow scale train --parallelism 8",
    "jobflow scale train sweep --parallelism 2 -m 'by day' --dry-run client",
    "jobflow scale train samples/3/align --parallelism 4 -n team -o json",
)
def scale(
    flow: flags.FlowName,
    connection: Connection,
    how: flags.StepOptions,
    parallelism: Annotated[
        int,
        typer.Option(
            metavar="N", min=1, help="The most jobs of the flow, or items of the step, at once."
        ),
    ],
    step: flags.ForEachPath = None,
    output: Annotated[Output, flags.output_flag("Text, or one JSON object.")] = Output.TEXT,
) -> Work:
    """Set spec.parallelism of a flow, or forEach.parallelism of a step, while the flow runs. Its
    spec stays as it is: the number is in its status, also after a retry. What runs goes on; with a
    smaller number, nothing starts until there is room.

    Exit code: 0 requested; 1 refused, or the flow or the step has ended; 2 no such flow, step or
    item, a fault in a flag, or no cluster.
    """
    from jobflow.cli.steer.by_hand import scale

    as_json = output is Output.JSON
    return scale(flow, step or "", parallelism, connection, how, as_json=as_json)


@commands.add(
    "Approve a step that waits for approval.",
    "jobflow approve train evaluate",
    'jobflow approve train sweep/2 --output percent=10 -m "only a few users" -n team',
)
def approve(
    flow: flags.FlowName,
    step: flags.ApprovalStep,
    connection: Connection,
    outputs: flags.StepOutputs = None,
    message: flags.Message = "",
    output: Annotated[Output, typer.Option("-o", help="Text, or one JSON object.")] = Output.TEXT,
) -> Work:
    """Approve a step that waits for approval (reason WaitingForApproval), or an item of its
    forEach: it is Completed, and the steps that depend on it start. The flow's status
    keeps who approved it and when.

    You need the right to approve JobFlows (verb approve on jobflows.flow.volcano.sh), and to create
    Commands.

    Exit code: 0 requested; 1 refused, or the step does not wait for approval; 2 no such flow, step
    or item, a fault in a flag, or no cluster.
    """
    from jobflow.cli.steer.send_command import send_answer
    from jobflow.client.verbs.answer import APPROVE

    as_json = output is Output.JSON
    return send_answer(
        flow, connection, APPROVE, step, comment=message, outputs=outputs or (), as_json=as_json
    )


@commands.add(
    "Reject a step that waits for approval.",
    "jobflow reject train evaluate",
    'jobflow reject train evaluate -m "the accuracy is too low" -o json',
)
def reject(
    flow: flags.FlowName,
    step: flags.ApprovalStep,
    options: flags.ClusterOptions,
    message: flags.Message = "",
) -> Work:
    """Reject a step that waits for approval (reason WaitingForApproval), or an item of its forEach:
    it is Failed (Rejected). `jobflow retry` of the failed flow asks again.

    You need the right to approve JobFlows (verb approve on jobflows.flow.volcano.sh), and to create
    Commands.

    Exit code: 0 requested; 1 refused, or the step does not wait for approval; 2 no such flow, step
    or item, or no cluster.
    """
    from jobflow.cli.steer.send_command import send_answer
    from jobflow.client.verbs.answer import REJECT

    return send_answer(flow, options, REJECT, step, comment=message, as_json=options.as_json)
