"""The commands about one flow on a cluster: names, flags, help. What one does is in a module of its
own, imported only when it is called."""

from __future__ import annotations

from typing import Annotated

import typer

from jobflow.cli.flags import FlowName, Kubeconfig, Namespace, Output, examples

commands = typer.Typer()

Answer = Annotated[
    Output, typer.Option("-o", "--output", help="Text, or one JSON object at the end.")
]


@commands.command(
    short_help="Say why a flow, or a step of it, stands where it stands.",
    epilog=examples("jobflow why train", "jobflow why train evaluate -n team -o json"),
)
def why(
    flow: FlowName,
    step: Annotated[
        str | None,
        typer.Argument(metavar="STEP", help="A step of it; else the whole.", show_default=False),
    ] = None,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    output: Annotated[
        Output, typer.Option("-o", "--output", help="One paragraph, or one JSON object.")
    ] = Output.TEXT,
) -> None:
    """Say in a paragraph why a flow stands where it stands: what it waits for and how long, what
    would free it, what has failed, what comes next. Of a step: the chain behind it, down to where
    that begins.

    Exit code: 0 answered; 1 it may not be read; 2 no such flow or step, or no cluster.
    """
    from jobflow.cli.flows.why import Question
    from jobflow.cli.flows.why import why as answer

    as_json = output is Output.JSON
    raise typer.Exit(answer(Question(flow, step, namespace, kubeconfig, as_json=as_json)))


@commands.command(
    short_help="End a flow: abort what runs, skip the rest.",
    epilog=examples(
        "jobflow cancel train",
        "jobflow cancel train -n team --wait",
        "jobflow cancel train --now",
        "jobflow cancel train -o json",
    ),
)
def cancel(
    flow: FlowName,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    now: Annotated[
        bool, typer.Option("--now", help="End finally too, even if it already runs.")
    ] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="Until every job has ended, telling how it goes.")
    ] = False,
    output: Answer = Output.TEXT,
) -> None:
    """End a flow: jobs that run are aborted, steps that have not begun are skipped, finally runs,
    and the flow is Failed (Cancelled) once every job has ended. With --now, finally is ended too,
    even if the flow is already ending.

    Exit code: 0 asked for, with --wait: done; 1 refused, or the flow is over or already being
    cancelled; 2 no such flow, or no cluster; 130 interrupted.
    """
    from jobflow.cli.flows.cancel import CANCEL, CANCEL_NOW
    from jobflow.cli.flows.send_command import Order, ask

    order = Order(flow, namespace, kubeconfig, wait=wait, as_json=output is Output.JSON)
    raise typer.Exit(ask(CANCEL_NOW if now else CANCEL, order))


@commands.command(
    short_help="Suspend a flow: nothing starts until it is resumed.",
    epilog=examples(
        "jobflow suspend train",
        "jobflow suspend train --abort --wait",
        "jobflow suspend train -n team -o json",
    ),
)
def suspend(
    flow: FlowName,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    abort: Annotated[
        bool,
        typer.Option("--abort", help="Abort what runs; on resume it starts as a new attempt."),
    ] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="Until nothing of it runs, telling how it goes.")
    ] = False,
    output: Answer = Output.TEXT,
) -> None:
    """Suspend a flow: nothing of it starts until it is resumed, finally included. What runs already
    runs to its end, or with --abort is aborted.

    Exit code: 0 asked for, with --wait: done; 1 refused, the flow is over or suspended already, or
    with --wait was resumed meanwhile; 2 no such flow, or no cluster; 130 interrupted.
    """
    from jobflow.cli.flows.send_command import Order, ask
    from jobflow.cli.flows.suspend import SUSPEND, SUSPEND_AND_ABORT

    order = Order(flow, namespace, kubeconfig, wait=wait, as_json=output is Output.JSON)
    raise typer.Exit(ask(SUSPEND_AND_ABORT if abort else SUSPEND, order))


@commands.command(
    short_help="Resume a suspended flow.",
    epilog=examples("jobflow resume train", "jobflow resume train -n team -o json"),
)
def resume(
    flow: FlowName,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    output: Answer = Output.TEXT,
) -> None:
    """Resume a flow that is suspended, also one that was created so. Steps whose jobs were aborted
    start anew; that does not count against their retries.

    Exit code: 0 asked for; 1 refused, or the flow is over or not suspended; 2 no such flow, or no
    cluster.
    """
    from jobflow.cli.flows.send_command import Order, ask
    from jobflow.cli.flows.suspend import RESUME

    order = Order(flow, namespace, kubeconfig, wait=False, as_json=output is Output.JSON)
    raise typer.Exit(ask(RESUME, order))


@commands.command(
    short_help="Run a failed flow again from what failed.",
    epilog=examples(
        "jobflow retry train",
        "jobflow retry train --wait",
        "jobflow retry train -n team -o json",
    ),
)
def retry(
    flow: FlowName,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Until it is over again, telling how it goes.")
    ] = False,
    output: Answer = Output.TEXT,
) -> None:
    """Run a flow that has Failed again, from the steps that failed: what has completed stays so,
    what failed, or was skipped for that, waits again, and finally runs once more. Jobs are made
    from their templates as these are now.

    Exit code: 0 asked for, with --wait: it has succeeded; 1 refused, the flow has not failed, or
    with --wait: it has failed again; 2 no such flow, or no cluster; 130 interrupted.
    """
    from jobflow.cli.flows.retry import RETRY
    from jobflow.cli.flows.send_command import Order, ask

    order = Order(flow, namespace, kubeconfig, wait=wait, as_json=output is Output.JSON)
    raise typer.Exit(ask(RETRY, order))
