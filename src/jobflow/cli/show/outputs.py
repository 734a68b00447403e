"""`jobflow outputs`: the outputs of a flow, of its steps and of their items."""

import sys
from collections.abc import Iterator, Mapping
from typing import Any

from rich.text import Text

from jobflow.client.errors import SUCCESS
from jobflow.client.flows.children import find_below
from jobflow.client.flows.find_flow import connect, find_flow, find_item, state_of
from jobflow.client.options import Connection
from jobflow.client.step_rows import format_value, outputs_of
from jobflow.core.text import printable
from jobflow.display.console import column_sizes, join_cells, make_console, print_lines
from jobflow.display.formats import DataOutput, print_json

_COLUMNS = ("STEP", "ITEM", "OUTPUT", "VALUE")
_OF_THE_FLOW = "(flow)"
"""No name of a step."""


async def print_outputs(
    name: str, step: str | None, connection: Connection, output: DataOutput
) -> int:
    """Print all outputs of a flow, or those of STEP or STEP/INDEX; of a child flow with the steps
    above it, as in train/0/fit."""
    async with await connect(connection) as client:
        flow, _, own = await find_below(client, await find_flow(client, name), step)
    chosen, index = (None, None) if own is None else find_item(flow, own)
    found = outputs_of(flow, chosen.name if chosen else None, index)
    if output is DataOutput.JSON:
        print_json(found)
    elif output is DataOutput.YAML:
        from jobflow.client.manifests.write_yaml import write_yaml

        write_yaml([found], sys.stdout)
    elif rows := [*_rows(found, with_flow=step is None)]:
        sizes = column_sizes(_COLUMNS, rows) | {"VALUE": 0}
        if not any(row["ITEM"] for row in rows):
            del sizes["ITEM"]
        heading = Text(join_cells({each: each for each in _COLUMNS}, sizes), style="bold")
        lines = [heading, *(Text(join_cells(row, sizes)) for row in rows)]
        print_lines(make_console(), lines)
    else:
        what = f'step "{own}" of JobFlow' if own else "JobFlow"
        none = f"{what} {flow.metadata.name} has no outputs; the flow is {state_of(flow)}"
        print(printable(none), file=sys.stderr)
    return SUCCESS


def _rows(found: Mapping[str, Any], *, with_flow: bool) -> Iterator[Mapping[str, str]]:
    """Yield a row for each output of the flow, if asked for, of each step and of each item."""
    if with_flow:
        yield from _rows_of(_OF_THE_FLOW, "", found["outputs"])
    for name, step in found["steps"].items():
        items = step.get("items")
        if items is None:
            yield from _rows_of(name, "", step["outputs"])
        for item in items or ():
            value = item.get("value", item["index"])
            text = "" if value == item["index"] else format_value(value)
            yield from _rows_of(f"{name}/{item['index']}", text, item["outputs"])


def _rows_of(step: str, item: str, outputs: Mapping[str, Any]) -> Iterator[Mapping[str, str]]:
    for name, value in outputs.items():
        cells = (step, item, name, format_value(value))
        yield dict(zip(_COLUMNS, map(printable, cells), strict=True))
