"""`jobflow approve` and `jobflow reject`: answers to steps that wait for approval."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from jobflow.cli.steer.send_command import summarize
from jobflow.client.errors import SUCCESS
from jobflow.client.flows.find_flow import connect, find_flow
from jobflow.client.options import Connection
from jobflow.client.verbs.answer import Answer, create_answer, outputs_annotation


async def send_answer(name: str, connection: Connection, answer: Answer) -> int:
    """Send the answer to a step of the flow and return the exit code. Raises CommandError if the
    step does not wait for approval."""
    outputs_annotation(answer.outputs)  # a wrong value is named without a cluster
    async with await connect(connection) as client:
        flow = await find_flow(client, name)
        command = await create_answer(client, flow, answer)
    if answer.as_json:
        summary: Mapping[str, Any] = {**summarize(flow, command), "step": answer.step}
        print(json.dumps(summary, indent=2, ensure_ascii=False))
    else:
        requested = f"{answer.verb.name} of {answer.step} requested (Command {command})"
        print(f"JobFlow {flow.metadata.name}: {requested}", flush=True)
    return SUCCESS
