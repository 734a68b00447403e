"""The list of flows: filters, counts and the rows of one page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Any
from urllib.parse import urlencode

from jobflow.api.duration import parse_duration
from jobflow.api.flow.status import FlowPhase
from jobflow.api.labels import Requirement, holds, parse_label_selector
from jobflow.core.planning.status.status import name_failed
from jobflow.page.flow_view import notice
from jobflow.page.watches.flows import FlowSummary, LiveFlows
from jobflow.page.web.fragments import Fragment

ROWS = 100
"""Flows on a page."""
ALL_NAMESPACES = "*"
_OLDEST = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ListQuery:
    """The filters of a list, as the address of the page has them."""

    ns: str
    """ALL_NAMESPACES or a namespace."""
    phase: str = ""
    q: str = ""
    """A part of the name."""
    l: str = ""  # noqa: E741 - the name of the flag of `jobflow get`
    age: str = ""
    """Flows that are younger than this duration."""
    children: str = ""
    """`1`: child flows too."""
    page: str = ""

    @classmethod
    def of(cls, params: Mapping[str, str], namespace: str) -> ListQuery:
        """Return the query of an address; `namespace` is the default."""
        # an empty field of the form is no filter
        known = {name: params[name].strip() for name in cls.__slots__ if name in params}
        return cls(**{"ns": namespace, **{name: text for name, text in known.items() if text}})

    @property
    def namespace(self) -> str:
        """The namespace to watch; "" is all."""
        return "" if self.ns == ALL_NAMESPACES else self.ns

    def link(self, **changes: str) -> str:
        values = {name: getattr(self, name) for name in self.__slots__} | changes
        return "?" + urlencode({name: value for name, value in values.items() if value})


def filter_flows(live: LiveFlows, query: ListQuery) -> tuple[list[FlowSummary], str]:
    """Return the flows that pass all filters but that of the phase, and a sentence about filters
    that cannot be read."""
    labels: Sequence[Requirement] = ()
    # a filter that cannot be read is left out, not the whole list
    since, problems = _OLDEST, []
    try:
        labels = parse_label_selector(query.l)
    except ValueError:
        problems.append(f'"{query.l}" is not a label selector such as team=vision,stage!=test')
    try:
        if query.age:
            since = datetime.now(UTC) - timedelta(seconds=parse_duration(query.age))
    except (ValueError, OverflowError):
        problems.append(f'"{query.age}" is not an age such as 30m or 24h')
    found = [
        flow
        for flow in live.cache
        if (query.children or not flow.is_child)
        and query.q in flow.metadata.name
        and (since is _OLDEST or (flow.metadata.creation_timestamp or _OLDEST) >= since)
        and all(holds(flow.metadata.labels or {}, *each) for each in labels)
    ]
    return found, "; ".join(problems)


def list_fragments(live: LiveFlows, query: ListQuery) -> list[Fragment]:
    included, problem = filter_flows(live, query)
    flows = [flow for flow in included if query.phase in ("", flow.phase)]
    # a stable order among flows of one second, which the second sort keeps
    flows.sort(key=attrgetter("metadata.namespace", "metadata.name"))
    flows.sort(key=lambda flow: flow.metadata.creation_timestamp or _OLDEST, reverse=True)
    pages = max((len(flows) + ROWS - 1) // ROWS, 1)
    page = min(max(int(query.page), 1), pages) if query.page.isdecimal() else 1
    start = (page - 1) * ROWS
    rows = [_row(flow, has_namespace=not query.namespace) for flow in flows[start : start + ROWS]]
    pager = {
        "first": start + 1 if rows else 0,
        "last": start + len(rows),
        "total": len(flows),
        "before": query.link(page=str(page - 1)) if page > 1 else "",
        "after": query.link(page=str(page + 1)) if page < pages else "",
    }
    if not rows:
        every = ListQuery(query.ns).link()
        nothing = {
            "is_known": live.cache.synced,  # else the cluster has not answered yet
            "is_filtered": query.link(page="") != every,
            "namespace": query.namespace,
            "reset": every,
        }
        rows = [Fragment("no-rows", "no-rows.html", nothing)]
    return [
        notice(live, problem),
        Fragment("counts", "counts.html", _counts(included, query)),
        Fragment("rows", "rows.html", None, rows),
        Fragment("pager", "pager.html", pager),
    ]


def _counts(included: Iterable[FlowSummary], query: ListQuery) -> list[dict[str, Any]]:
    """Return the count of all flows, then of each phase, with the address that shows them."""
    counts: Counter[str] = Counter(flow.phase for flow in included)
    # a later controller may write a phase that this program does not know
    phases = [*FlowPhase, *(phase for phase in counts if phase not in set(FlowPhase))]
    return [
        {
            "phase": phase,
            "count": counts[phase] if phase else counts.total(),
            "link": query.link(phase=phase, page=""),
            "is_chosen": query.phase == phase,
        }
        for phase in ("", *phases)
    ]


def _row(flow: FlowSummary, *, has_namespace: bool) -> Fragment:
    meta, status = flow.metadata, flow.status
    ended, _, total = status.progress.partition("/")
    # nothing is counted before a controller has seen the flow
    is_counted = ended.isdecimal() and total.isdecimal()
    row = {
        "namespace": meta.namespace,
        "name": meta.name,
        "has_namespace": has_namespace,
        "phase": flow.phase,
        "reason": status.state.reason,
        "failed": name_failed(status.state),
        "message": status.state.message,
        "ended": int(ended) if is_counted else 0,
        "total": int(total) if is_counted else 0,
        "start": status.start_time,
        "end": status.completion_time if flow.is_final else None,
        "created": meta.creation_timestamp,
    }
    return Fragment(f"row:{meta.namespace}/{meta.name}", "row.html", row)
