"""`jobflow graph`: the dependencies of a flow's steps as text, JSON, Mermaid, dot or SVG."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from rich.cells import cell_len
from rich.text import Text

from jobflow.api.flow.step import Condition
from jobflow.cli.show.sources import flows_of
from jobflow.client.errors import FAILED, SUCCESS, UNUSABLE, CommandError
from jobflow.client.options import Connection
from jobflow.core.drawing.flow_graph import PROBE, Arrow, CyclicFlowError, FlowGraph, nested_graph
from jobflow.core.drawing.graph_text import NODE, Line, draw_lanes, to_dot, to_json, to_mermaid
from jobflow.core.drawing.layered_layout import layered_layout
from jobflow.core.drawing.phase_looks import icon_of, style_of
from jobflow.core.drawing.svg import graph_svg
from jobflow.core.text import join_names, printable
from jobflow.display.console import columns_of, make_console
from jobflow.display.formats import GraphOutput

_FOLDED = 4
"""Fewer steps with the same dependencies and dependants have a line each."""
_LONG = 50
"""Steps; a longer graph is folded."""
_MAX_NAME = 30
"""Columns of names that are aligned."""
_PIPE_LANES = 60
"""Columns of lanes, if the output is not a terminal."""
_WRITERS: Mapping[GraphOutput, Callable[[FlowGraph], str]] = {
    GraphOutput.JSON: to_json,
    GraphOutput.MERMAID: to_mermaid,
    GraphOutput.DOT: to_dot,
    GraphOutput.SVG: graph_svg,
}
_ASCII = str.maketrans(
    {"│": "|", "─": "-", "├": "+", "┤": "+", "┼": "+"} | dict.fromkeys("╰╯┴", "'") | {"╮": "."}
)


async def print_graph(name: str, connection: Connection, output: GraphOutput) -> int:
    found = await flows_of([name], connection, children=True)
    if len(found.flows) > 1:  # a Mermaid or SVG document has one graph
        names = join_names([flow.metadata.name for flow in found.flows])
        sentence = f"{name} contains several JobFlows ({names}): graph draws one, so split the file"
        raise CommandError(UNUSABLE, sentence)
    flow = found.flows[0]
    try:
        graph = nested_graph(flow, found.children)
    except CyclicFlowError as error:  # stored without the webhook
        sentence = f"JobFlow {flow.metadata.name} cannot be drawn: {printable(str(error))}"
        raise CommandError(FAILED, sentence) from None
    if (writer := _WRITERS.get(output)) is not None:
        sys.stdout.write(writer(graph))
        return SUCCESS
    console = make_console()
    width = columns_of(console)
    ascii_only = console.options.ascii_only
    for line in (*graph_lines(graph, width, ascii_only=ascii_only), *_inner(graph, ascii_only)):
        if width is not None:
            line.truncate(width)
        console.print(line, soft_wrap=True)
    return SUCCESS


def _inner(graph: FlowGraph, ascii_only: bool, level: int = 1, place: str = "") -> Iterator[Text]:
    """Yield the graphs of the child flows in a graph, each below the name of its step."""
    indent = Text("  " * level)
    for node in graph.nodes:
        for inner in node.inner:
            name = f"{place}{node.step}"
            yield Text()
            case = (f"  {inner.name}" if inner.name else "", "dim")
            yield Text.assemble(indent, (printable(name), "bold"), case)
            for line in graph_lines(inner, None, ascii_only=ascii_only):
                yield indent + line
            yield from _inner(inner, ascii_only, level + 1, f"{name}/")


def graph_lines(graph: FlowGraph, width: int | None, *, ascii_only: bool = False) -> Iterator[Text]:
    """Yield a line for each step: lanes for the dependencies, its name, and their names.

    Steps with the same dependencies and dependants share a line in a graph that is long or whose
    lanes take more than half of the width. If that is not enough, names are indented instead.
    """
    room = _PIPE_LANES if width is None else width // 2
    drawing = _Drawing(graph, [[position] for position in range(len(graph.nodes))], ascii_only)
    # lanes of a wide graph would leave no room for names
    lines = None if len(graph.nodes) > _LONG else drawing.lanes(room)
    if lines is None:
        drawing = _Drawing(graph, _alike(graph), ascii_only)
        lines = drawing.lanes(room)
    texts = drawing.indented(room) if lines is None else drawing.beside(lines)
    for text in texts:
        if width is not None:
            text.truncate(width, overflow="crop" if ascii_only else "ellipsis")
        yield text


@dataclass(frozen=True, slots=True)
class _Drawing:
    graph: FlowGraph
    groups: Sequence[Sequence[int]]
    """Positions of steps that share a line."""
    ascii_only: bool

    def lanes(self, room: int) -> list[Line] | None:
        """Return the lines of all groups; None if their lanes take more columns than `room`."""
        group_of = {member: at for at, group in enumerate(self.groups) for member in group}
        targets = [
            # all members have the same targets
            [*dict.fromkeys(group_of[target] for target in self.graph.targets[group[0]])]
            for group in self.groups
        ]
        at = {position: rank for rank, position in enumerate(self.graph.order)}
        roots = [group for group, row in enumerate(targets) if not row]
        # in the order of the layout, so that text and SVG read alike
        roots.sort(key=lambda group: at[self.groups[group][0]])
        lines: list[Line] = []
        for line in draw_lanes(targets, roots):
            if cell_len(line.lanes) > room:
                return None
            lines.append(line)
        return lines

    def beside(self, lines: Sequence[Line]) -> Iterator[Text]:
        """Yield the lanes, and beside them the names below each other, then phases and so on."""
        left = max((cell_len(line.lanes) for line in lines), default=0)
        names = [self._names(group) for group in self.groups]
        # one long name moves no other line
        right = max((size for size in map(cell_len, names) if size <= _MAX_NAME), default=0)
        for line in lines:
            name, room = names[line.node], left - cell_len(line.lanes) + 1
            before, _, behind = line.lanes.partition(NODE)
            if self.ascii_only:
                before, behind = before.translate(_ASCII), behind.translate(_ASCII)
            symbol = self._symbol(self.groups[line.node])
            text = Text.assemble((before, "dim"), symbol, (behind, "dim"), " " * room)
            text.append(name, "bold").append(" " * (right - cell_len(name)))
            text.append_text(self._details(self.groups[line.node]))
            text.rstrip()
            yield text

    def indented(self, room: int) -> Iterator[Text]:
        """Yield the names, each indented by the longest path to it, then phases and so on."""
        depths = layered_layout(self.graph.targets, self.graph.order).columns
        first = {group[0]: group for group in self.groups}
        for group in (first[position] for position in self.graph.order if position in first):
            indent = "  " * min(depths[group[0]], room // 4)
            text = Text.assemble(indent, self._symbol(group), " ", (self._names(group), "bold"))
            yield text.append_text(self._details(group))

    def _names(self, positions: Sequence[int], last: str = "and") -> str:
        return join_names([printable(self.graph.nodes[each].step) for each in positions], last=last)

    def _symbol(self, group: Sequence[int]) -> tuple[str, str]:
        phases = {self.graph.nodes[position].phase for position in group}
        # no symbol stands for several phases, and a file has none
        if len(phases) > 1 or phases == {""}:
            return ("*" if self.ascii_only else NODE), ""
        [phase] = phases
        return icon_of(phase, ascii_only=self.ascii_only), style_of(phase)

    def _details(self, group: Sequence[int]) -> Text:
        nodes = [self.graph.nodes[position] for position in group]
        text = Text()
        phases = Counter(node.phase for node in nodes)
        for phase, count in phases.most_common():
            number = f"{count} " if len(phases) > 1 else ""
            text.append(f"  {number}{printable(phase)}" if phase else "", style=style_of(phase))
        details = dict.fromkeys(node.detail for node in nodes)
        same = next(iter(details)) if len(details) == 1 else ""
        for part in (printable(same), self._dependencies(group)):
            text.append(f"  {part}" if part else "", style="dim")
        return text

    def _dependencies(self, group: Sequence[int]) -> str:
        """Return `after a and b, when c and d are Failed`."""
        nodes, is_last = self.graph.nodes, self.graph.nodes[group[0]].is_last
        arrows = [
            arrow
            for arrow in self.graph.into[group[0]]
            if nodes[arrow.source].is_last or not is_last  # `finally` says the others
        ]
        completed = [arrow.source for arrow in arrows if not arrow.label]
        parts = [f"after {self._names(completed)}"] if completed else []
        others = sorted((each.is_any, each.condition, each.source) for each in arrows if each.label)
        for (is_any, condition), rows in groupby(others, key=lambda row: row[:2]):
            sources = [source for *_, source in rows]
            names = self._names(sources, last="or" if is_any else "and")
            verb = "is" if is_any or len(sources) == 1 else "are"
            when = f"when {names} {verb} {condition}"
            if condition == PROBE:
                when = f"when its probe passes on {names}"
            elif condition == Condition.ALWAYS:
                when = f"always after {names}"
            parts.append(when)
        return ", ".join(parts)


def _alike(graph: FlowGraph) -> list[list[int]]:
    """Return the steps, those with the same arrows together if they are many."""
    out: list[list[Arrow]] = [[] for _ in graph.nodes]
    for arrow in graph.arrows:
        out[arrow.source].append(arrow)
    alike: dict[object, list[int]] = {}
    for position, node in enumerate(graph.nodes):
        key = (
            frozenset((arrow.source, arrow.label) for arrow in graph.into[position]),
            frozenset((arrow.target, arrow.label) for arrow in out[position]),
            node.is_daemon,
            node.is_last,
        )
        alike.setdefault(key, []).append(position)
    # a few steps are read faster by their own lines
    groups: list[list[int]] = []
    for members in alike.values():
        groups += [members] if len(members) >= _FOLDED else [[each] for each in members]
    return groups
