"""Index of the concurrency groups: who holds places, and who waits, in order."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple

from jobflow.api.flow.control import ConcurrencyPolicy
from jobflow.api.flow.jobflow import JobFlow
from jobflow.core.spec import concurrency
from jobflow.kube.cache import Key, key_of

GroupKey = tuple[str, bool, str]
"""The namespace of a group, whether it is one of steps, and its name."""


class Entry(NamedTuple):
    """What a flow has of one group."""

    group: GroupKey
    member: concurrency.GroupMember
    order: concurrency.Order
    share: concurrency.Share
    acts: bool = False
    """Whether it does anything but wait while it waits, so that it is planned at every change."""


_ORDER = attrgetter("order")


@dataclass(slots=True)
class _Members:
    """The flows of one group that matter."""

    holders: dict[str, concurrency.GroupMember] = field(default_factory=dict)
    taken: int = 0
    """The places of all holders."""
    line: list[Entry] = field(default_factory=list)
    """The flows that wait, in their order."""
    acting: dict[str, None] = field(default_factory=dict)
    """The flows that wait and act."""

    def add(self, entry: Entry) -> None:
        name = entry.member.name
        if entry.share.holds:
            self.holders[name] = entry.member
            self.taken += entry.share.holds
        if entry.share.waits:
            insort(self.line, entry, key=_ORDER)
            if entry.acts:
                self.acting[name] = None

    def remove(self, entry: Entry) -> None:
        self.acting.pop(entry.member.name, None)
        self.holders.pop(entry.member.name, None)
        self.taken -= entry.share.holds
        if entry.share.waits:
            del self.line[bisect_left(self.line, entry.order, key=_ORDER)]

    def next(self) -> Iterator[str]:
        """Yield the flows that may start something, or act, as the group is now."""
        if self.line and self.line[0].share.fits(self.taken):
            yield self.line[0].member.name
        yield from self.acting


_NOBODY = _Members()


def _uid_of_open(flow: JobFlow | None) -> str:
    """Return the UID of a flow that has not ended, else ""."""
    return "" if flow is None or flow.final else flow.metadata.uid


class Groups:
    """The concurrency groups of all namespaces. A change costs a search in the line of each of its
    groups, and nothing for a flow without any. `parent_of` returns the parent of a child flow."""

    def __init__(self, parent_of: Callable[[JobFlow], JobFlow | None] = lambda flow: None) -> None:
        self._parent_of = parent_of
        self._groups: dict[GroupKey, _Members] = {}
        self._entries: dict[Key, list[Entry]] = {}
        self._limits: dict[GroupKey, Counter[int]] = {}
        """How many flows that have not ended, and steps of them, have each limit."""

    def update(self, old: JobFlow | None, new: JobFlow | None) -> list[Key]:
        """Take in a change. Return the flows of its groups that may start something, or act,
        because of it."""
        flow = new or old
        assert flow is not None
        key = key_of(flow)
        if _uid_of_open(old) != _uid_of_open(new):
            self._count_limits(old, -1)
            self._count_limits(new, 1)
        before = self._entries.pop(key, [])
        after = [] if new is None else self.entries_of(new)
        if after:
            self._entries[key] = after
        # most changes of a flow do not matter to its groups
        if before == after:
            return []
        for entry in before:
            if (members := self._groups.get(entry.group)) is not None:
                members.remove(entry)
        for entry in after:
            self._groups.setdefault(entry.group, _Members()).add(entry)
        found: dict[Key, None] = {}
        for entry in {*before}.symmetric_difference(after):
            found |= dict.fromkeys(self.next(entry.group))
        return [*found]

    def next(self, group: GroupKey) -> Iterator[Key]:
        """Yield the flows of a group that may start something, or act, as it is now."""
        members = self._groups.get(group, _NOBODY)
        # groups come and go with their flows
        if members is not _NOBODY and not members.holders and not members.line:
            del self._groups[group]
        yield from ((group[0], name) for name in members.next())

    def entries_of(self, flow: JobFlow) -> list[Entry]:
        """Return what a flow has of its groups by its status."""
        if not concurrency.may_share(flow):
            return []
        meta, order = flow.metadata, self._order_of(flow)
        is_ending = concurrency.is_ending(flow)
        policy = concurrency.get_policy(flow)
        return [
            Entry(
                (meta.namespace, *group),
                concurrency.GroupMember(meta.name, meta.uid, is_ending, max(share.holds, 1)),
                order,
                share,
                acts=not group[0] and policy is not ConcurrencyPolicy.WAIT,
            )
            for group, share in concurrency.get_shares(flow).items()
        ]

    def of(
        self,
        flow: JobFlow,
        group: concurrency.GroupName,
        noted: Mapping[str, Entry] | None = None,
    ) -> concurrency.Group:
        """Return a group as a flow sees it. `noted`: what flows of the group, by name, have of it
        by a status that may not be stored yet."""
        members = self._groups.get((flow.metadata.namespace, *group), _NOBODY)
        noted, own, order = noted or {}, flow.metadata.name, self._order_of(flow)
        # a flow never waits for itself
        holders = {name: member for name, member in members.holders.items() if name != own}
        line = members.line[: bisect_left(members.line, order, key=_ORDER)]
        before = [each for each in line if each.member.name not in noted]
        for name, entry in noted.items():
            if name == own:
                continue
            # what it gives back is free once that is stored
            if entry.share.holds > getattr(holders.get(name), "slots", 0):
                holders[name] = entry.member
            if entry.share.waits and entry.order < order:
                insort(before, entry, key=_ORDER)
        return concurrency.Group(
            holders=tuple(holders[name] for name in sorted(holders)),
            before=tuple(each.member for each in before),
            moves=bool(before)
            and before[0].share.fits(sum(each.slots for each in holders.values())),
        )

    def limits_of(self, namespace: str, group: concurrency.GroupName) -> list[int]:
        """Return the limits that flows which have not ended have for a group."""
        return [*self._limits.get((namespace, *group), ())]

    def _count_limits(self, flow: JobFlow | None, number: int) -> None:
        if flow is None or not _uid_of_open(flow):
            return
        for group, limit in concurrency.get_limits(flow):
            key = (flow.metadata.namespace, *group)
            limits = self._limits.setdefault(key, Counter())
            limits[limit] += number
            if not limits[limit]:
                del limits[limit]
            if not limits:
                del self._limits[key]

    def _order_of(self, flow: JobFlow) -> concurrency.Order:
        outermost = flow
        while (parent := self._parent_of(outermost)) is not None:
            outermost = parent
        return concurrency.get_order(flow, outermost)
