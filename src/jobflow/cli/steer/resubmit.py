"""`jobflow resubmit`: a new flow with the spec of an existing one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from jobflow.cli.steer.submit import SubmitOptions, finish
from jobflow.client.errors import FAILED, CommandError
from jobflow.client.flows.find_flow import connect, read_flow, to_flow
from jobflow.client.manifests.check import Report
from jobflow.client.manifests.flag_values import parse_params
from jobflow.client.manifests.sources import SourcePlace
from jobflow.client.manifests.yaml_nodes import Node
from jobflow.client.options import Connection
from jobflow.client.verbs.copy import check_flow, copy_of, send_checked
from jobflow.display.console import make_console
from jobflow.display.report import print_fault


async def resubmit_flow(
    name: str, connection: Connection, param: Sequence[str], options: SubmitOptions
) -> int:
    """Create a flow with the spec, the labels and the annotations of another, follow it if asked
    to, and return the exit code. Raises CommandError."""
    options.check()
    values = parse_params(param)
    async with await connect(connection) as client:
        raw = await read_flow(client, name)
        flow, spec = to_flow(raw), json.loads(raw).get("spec", {})
        report = checked(copy_of(flow.metadata, spec, options.name), values, flow.metadata.name)
        return await finish(client, await send_checked(client, report), options)


def checked(flow: dict[str, Any], values: Mapping[str, Node], origin: str) -> Report:
    """Return the report on a flow that is no file, with these values of params. `origin`: the name
    of the object that it was made from. Raises CommandError after it has printed the faults."""
    report = check_flow(flow, values, origin)
    if report.faults:
        errors = make_console(stderr=True)
        for fault in report.faults:  # the source is no file, so its lines mean nothing
            print_fault(replace(fault, place=SourcePlace(fault.place.source)), errors)
        raise CommandError(FAILED, "nothing was sent, see above")
    return report
