"""Flags and help of the commands that show flows. Each imports its module when called."""

from typing import Annotated

import typer

from jobflow.cli import flags
from jobflow.cli.commands.command import Commands, Work, run_command
from jobflow.client.errors import UNUSABLE, exit_on
from jobflow.client.options import Connection, Selection
from jobflow.display.formats import DataOutput, GraphOutput, ObjectOutput, TimelineOutput

commands = Commands()


@commands.add(
    "List flows, or show one as a tree.",
    "jobflow get",
    "jobflow get -A --phase Failed -o wide",
    "jobflow get train -w",
    "jobflow get -l team=vision -o json",
    "jobflow get cjf -A",
)
def get(
    connection: Connection,
    selection: Selection,
    options: flags.GetOptions,
    flows: flags.FlowNames = None,
) -> Work:
    """List flows with phase, reason, progress, duration and age. With one FLOW, show its steps as a
    tree: phases, attempts, items, and what each step waits for.

    With --watch and FLOWs, show changes until all of them have ended; without FLOW, show all flows
    that exist or appear until Ctrl-C. -o json and yaml print flows as the API server has them.

    cjf lists the CronJobFlows: schedule, whether it is suspended, number of active flows, last
    scheduled time and age; cjf/NAME shows one.

    Exit code: 0 shown; 1 no right to read flows, with --watch: a flow is Failed or was deleted; 2
    no such flow, or no cluster; 130 interrupted.
    """
    if options.watch:
        from jobflow.cli.show.watch import watch_flows

        return watch_flows(flows or (), connection, selection, options)
    from jobflow.cli.show.get import get_flows

    return get_flows(flows or (), connection, selection, options)


@commands.add(
    "Wait until flows have finished.",
    "jobflow wait train",
    "jobflow wait train evaluate --timeout 1h30m",
    "jobflow wait train --timeout 90",
    "jobflow wait -l team=vision -n team",
    "jobflow wait train -o json",
)
def wait(
    connection: Connection,
    selection: Selection,
    flows: flags.FlowNames = None,
    timeout: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Give up after this time, such as 90s or 1h30m; a number is seconds.",
        ),
    ] = None,
    output: Annotated[
        ObjectOutput | None,
        flags.output_flag("Print the flows once all have finished, instead of one line each."),
    ] = None,
) -> Work:
    """Wait until all flows have finished. Print a line when each one finishes. A terminal shows
    meanwhile what is waited for.

    Exit code: 0 all are Succeed; 1 one is Failed or was deleted; 2 no such flow, or no cluster; 124
    the time is over; 130 interrupted.
    """
    from jobflow.cli.show.wait import wait_for_flows

    return wait_for_flows(flows or (), connection, selection, timeout, output)


@commands.add(
    "Print the outputs of a flow and of its steps.",
    "jobflow outputs train",
    "jobflow outputs train sweep -o json",
    "jobflow outputs train sweep/3 -o yaml",
)
def outputs(
    connection: Connection,
    flow: flags.FlowName,
    step: flags.StepOrItem = None,
    output: Annotated[DataOutput, flags.output_flag("The format.")] = DataOutput.TABLE,
) -> Work:
    """Print the outputs of a flow, of its steps, and of their items with index and value; with
    STEP only those of a step, or of an item; train/0/fit is the step fit of a child flow. The
    outputs of the flow itself exist once it has ended.

    -o json and yaml print one object: `outputs` of the flow, and `steps` by name, each with
    `phase`, `outputs` and, with forEach or repeat, `items`, which have `index`, `value`, `phase`
    and `outputs`.

    Exit code: 0 printed, also if there are none; 1 no right to read the flow; 2 no such flow, step
    or item, or no cluster.
    """
    from jobflow.cli.show.outputs import print_outputs

    return print_outputs(flow, step, connection, output)


@commands.add(
    "Draw the dependencies of a flow's steps.",
    "jobflow graph train",
    "jobflow graph examples/diamond.yaml -o mermaid",
    "jobflow graph train -o svg > train.svg",
)
def graph(
    flow: flags.FlowOrFile,
    connection: Connection,
    output: Annotated[GraphOutput, flags.output_flag("The format.")] = GraphOutput.TEXT,
) -> Work:
    """Draw the steps of a flow, their dependencies and their phases: as text, as JSON with
    positions, as a Mermaid flowchart (which GitHub renders), as a Graphviz digraph, or as SVG.

    Exit code: 0 drawn; 1 no right to read the flow; 2 no such flow or file, or no cluster.
    """
    from jobflow.cli.show.graph import print_graph

    return print_graph(flow, connection, output)


@commands.add(
    "Show when each step waited, was queued and ran.",
    "jobflow timeline train",
    "jobflow timeline train -o json",
    "jobflow timeline train -o svg > train.svg",
)
def timeline(
    flow: flags.FlowName,
    connection: Connection,
    output: Annotated[TimelineOutput, flags.output_flag("The format.")] = TimelineOutput.TEXT,
) -> Work:
    """Show a bar for each step of a flow: waiting, queued in Volcano, running. The critical path is
    marked, and its times are added up. For a running flow, estimate the time that is left from
    earlier runs of the same templates in the namespace.

    Exit code: 0 shown; 1 the flow has not started, or no right to read it; 2 no such flow, or no
    cluster.
    """
    from jobflow.cli.show.timeline import print_timeline

    return print_timeline(flow, connection, output)


@commands.add(
    "Print the logs of a flow's pods.",
    "jobflow logs train",
    "jobflow logs train evaluate -f",
    "jobflow logs train sweep/3 --task worker --tail 20",
    "jobflow logs sites train/0/fit",
    "jobflow logs train --failed",
)
def logs(
    flow: flags.FlowName,
    connection: Connection,
    step: Annotated[
        str | None,
        typer.Argument(
            metavar="STEP[/INDEX]",
            help="A step of the flow, or an item of its forEach or repeat, from 0. If it runs a "
            "flow, a step of that one may follow: train/0/fit.",
            show_default=False,
        ),
    ] = None,
    follow: Annotated[
        bool,
        typer.Option(
            "-f", "--follow", help="Print what is written until the flow or the step has ended."
        ),
    ] = False,
    task: Annotated[
        str | None, typer.Option(metavar="TASK", help="Only pods of this task.")
    ] = None,
    pod: Annotated[str | None, typer.Option(metavar="POD", help="Only this pod.")] = None,
    container: Annotated[
        str | None,
        typer.Option(
            "-c",
            "--container",
            metavar="NAME",
            help="Only this container, or this init container. Default: all but init containers.",
        ),
    ] = None,
    failed: Annotated[
        bool, typer.Option("--failed", help="Only containers that have ended with an error.")
    ] = False,
    tail: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Only the last N lines of each.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Only lines of the last DURATION, such as 5m."),
    ] = None,
    timestamps: Annotated[
        bool, typer.Option("--timestamps", help="Print the time of each line.")
    ] = False,
) -> Work:
    """Print the logs of all pods of a flow or a step that still exist, of all attempts and of all
    child flows. Each line has the prefix step/pod, step/pod/container if the pod has several
    containers, and step/inner-step/pod for a child flow. Without -f, the logs come one after
    another, in the order in which the pods started. With -f, they come together, also those of
    pods that start later.

    Exit code: 0 shown; 1 no right to read logs, or a log is incomplete; 2 no such flow, step or
    pod, no pods, or no cluster; 130 interrupted.
    """
    from jobflow.cli.logs.command import print_logs
    from jobflow.client.logs.selection import LogSelection

    selection = LogSelection(
        task=task, pod=pod, container=container, failed=failed, tail=tail, timestamps=timestamps
    )
    return print_logs(flow, connection, selection, step=step, follow=follow, since=since)


@commands.add(
    "Show what a flow would do, and when, before it runs.",
    "jobflow plan examples/diamond.yaml",
    "jobflow plan train --learn -o gantt",
    "jobflow plan train -o svg > train.svg",
    "jobflow plan train.yaml --durations hours.yaml --capacity cpu=64,nvidia.com/gpu=8",
    "jobflow plan train night.yaml --capacity cpu=64 -o json",
)
def plan(flows: flags.FlowsOrFiles, connection: Connection, options: flags.PlanOptions) -> Work:
    """Run flows in virtual time, with the real planner and Volcano's rules for jobs, and show each
    job with its start and end, the makespan, the critical path and the requested hours. Times count
    from the creation of the flows; a flow that already runs is planned as if it was new.

    How long a job runs: --durations (a step before a JobTemplate), else --learn, else the
    annotation sandbox.jobflow.volcano.sh/duration of the JobTemplate, else 1s. Its other
    annotations for the sandbox (exit codes, outputs) are followed too.

    Exit code: 0 planned, also if a flow would fail; 1 a flow would never end, a job never fits, or
    no right to read; 2 no such flow or file, a fault in a file or a flag, or no cluster.
    """
    from jobflow.cli.show.plan import print_plan

    return print_plan(flows, connection, options)


@commands.add(
    "Explain why a flow or a step waits, runs or failed.",
    "jobflow why train",
    "jobflow why train evaluate -n team -o json",
    "jobflow why train sweep/3",
    "jobflow why -l team=vision",
    "jobflow why cjf/nightly",
)
def why(
    options: flags.ClusterOptions,
    selection: Selection,
    flow: flags.OptionalFlowName = None,
    step: flags.StepOrItem = None,
) -> Work:
    """Explain what a flow waits for and how long, what failed, what to do about it and what runs
    next, a sentence a line. With STEP, follow its dependencies back to the cause. With -l or -A,
    explain each flow; the JSON is a list then. cjf/NAME explains when a CronJobFlow starts its next
    flow, and what prevents it.

    Exit code: 0 answered; 1 no right to read the flow; 2 no such flow or step, or no cluster.
    """
    from jobflow.cli.show.why import print_explanations
    from jobflow.client.flows.find_cron import means_crons

    if flow is not None and means_crons([flow]):
        from jobflow.cli.show.crons import print_cron_explanation

        return print_cron_explanation(flow, step, options)
    return print_explanations(flow, step, selection, options)


@commands.add(
    "Show flows in the browser, live.",
    "jobflow ui",
    "jobflow ui -n team --context lab",
    "jobflow ui --no-browser --port 8217",
)
def ui(
    connection: Connection,
    port: Annotated[int, flags.port_of("page")] = 0,
    no_browser: flags.NoBrowser = False,
) -> int:
    """Show the flows of a cluster on a page in the browser, which follows all changes. The page is
    served on this machine only and acts with your rights on the cluster. The link is printed; it
    has a token, so do not share it.

    Runs until Ctrl-C. Exit code: 0 ended by Ctrl-C; 2 no cluster, or the port is in use.
    """
    from jobflow.page.serve import show_page
    from jobflow.runtime.http_listener import PortInUse

    with exit_on(UNUSABLE, PortInUse):
        work = show_page(connection, port=port, opens_browser=not no_browser)
        return run_command(work, is_brief=False)
