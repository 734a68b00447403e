"""`jobflow why`: explains why a flow or a step waits, runs or failed."""

import sys

from jobflow.cli.flags import ClusterOptions
from jobflow.client.errors import SUCCESS, UNUSABLE, CommandError
from jobflow.client.flows import find_flow
from jobflow.client.flows.why import explain_flow
from jobflow.client.options import Selection
from jobflow.display.console import make_console, print_sentences
from jobflow.display.formats import print_json
from jobflow.runtime.event_loop import each_of


async def print_explanations(
    name: str | None, step: str | None, selection: Selection, options: ClusterOptions
) -> int:
    """Print why a flow, a STEP or STEP/INDEX of it, or each selected flow is in its phase."""
    if name is None and selection == find_flow.NO_SELECTION:
        raise CommandError(UNUSABLE, "no flow is named: give a FLOW, or select flows with -l or -A")
    find_flow.check_exclusive([name] if name else [], selection)
    async with await find_flow.connect(options) as client:
        if name is not None:
            answers = [await explain_flow(client, await find_flow.find_flow(client, name), step)]
        else:
            answers = await each_of(
                lambda flow: explain_flow(client, flow, with_namespace=selection.all_namespaces),
                await find_flow.find_flows(client, selection),
                at_once=10,  # each reads pods and their scheduling
            )
            if not answers:  # perhaps because the namespace does not exist
                await find_flow.check_namespace(client, selection)
        place = find_flow.describe_place(client, selection)
    if options.as_json:
        print_json(answers[0] if name else answers)
    elif not answers:
        print(f"no JobFlow {place} matches", file=sys.stderr)
    else:
        console = make_console()
        for answer in answers:
            if answer is not answers[0]:
                print()
            print_sentences(answer["sentences"], console)
    return SUCCESS
