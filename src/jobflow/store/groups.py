"""Index of the concurrency groups: who holds a place, and who waits, in order."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from jobflow.api.flow.control import ConcurrencyPolicy
from jobflow.api.flow.jobflow import JobFlow
from jobflow.core.spec import concurrency
from jobflow.kube.cache import Key, key_of

GroupKey = tuple[str, str]
"""Namespace and name of a group."""


class _Entry(NamedTuple):
    """The entry of a flow. One that neither holds a place nor waits has only its group."""

    group: GroupKey
    member: concurrency.GroupMember
    order: concurrency.Order
    holds: bool
    waits: bool
    limit: int
    acts: bool
    """Whether it does anything but wait while it waits, so that it is planned at every change."""


@dataclass(slots=True)
class _Members:
    """The flows of one group that matter."""

    holders: dict[str, concurrency.GroupMember] = field(default_factory=dict)
    line: list[concurrency.Order] = field(default_factory=list)
    """The flows that wait, in their order."""
    waiting: dict[str, _Entry] = field(default_factory=dict)
    acting: dict[str, None] = field(default_factory=dict)
    """The flows that wait and act."""

    def add(self, entry: _Entry) -> None:
        name = entry.member.name
        if entry.holds:
            self.holders[name] = entry.member
        if entry.waits:
            insort(self.line, entry.order)
            self.waiting[name] = entry
            if entry.acts:
                self.acting[name] = None

    def remove(self, entry: _Entry) -> None:
        name = entry.member.name
        self.holders.pop(name, None)
        self.acting.pop(name, None)
        if self.waiting.pop(name, None) is not None:
            del self.line[bisect_left(self.line, entry.order)]

    def next(self) -> Iterator[str]:
        """Yield the flows that may start, or act, as the group is now."""
        if self.line:
            first = self.line[0][1]
            if len(self.holders) < self.waiting[first].limit:
                yield first
        yield from self.acting


class Groups:
    """The concurrency groups of all namespaces. A change costs a search in the line of its group,
    and nothing for a flow without a group."""

    def __init__(self) -> None:
        self._groups: dict[GroupKey, _Members] = {}
        self._entries: dict[Key, _Entry] = {}

    def update(self, old: JobFlow | None, new: JobFlow | None) -> list[Key]:
        """Take in a change. Return the flows of its group that may start, or act, because of it."""
        flow = new or old
        assert flow is not None
        if flow.spec.concurrency is None and (old is None or old.spec.concurrency is None):
            return []
        key = key_of(flow)
        before = self._entries.pop(key, None)
        after = None
        if before is not None and new is not None and before.member.uid == new.metadata.uid:
            group = before.group  # the spec of a flow does not change
        else:
            group = (flow.metadata.namespace, "" if new is None else concurrency.get_group(new))
        if new is not None and group[1]:
            meta = new.metadata
            after = self._entries[key] = _Entry(
                group=group,
                member=concurrency.GroupMember(meta.name, meta.uid, concurrency.is_ending(new)),
                order=concurrency.get_order(new),
                holds=concurrency.holds_place(new),
                waits=concurrency.is_waiting(new),
                limit=concurrency.get_limit(new),
                acts=concurrency.get_policy(new) is not ConcurrencyPolicy.WAIT,
            )
        # most changes of a flow do not matter to its group
        if before == after:
            return []
        if before is not None and (members := self._groups.get(before.group)) is not None:
            members.remove(before)
        if after is not None:
            self._groups.setdefault(after.group, _Members()).add(after)
        touched = dict.fromkeys(entry.group for entry in (before, after) if entry is not None)
        found: list[Key] = []
        for group in touched:
            members = self._groups.get(group)
            if members is None:
                continue
            # groups come and go with their flows
            if not members.holders and not members.line:
                del self._groups[group]
            found += ((group[0], name) for name in members.next())
        return found

    def of(self, flow: JobFlow, starting: Collection[str] = ()) -> concurrency.Group:
        """Return the group of a flow as the flow sees it. `starting`: names of flows of the group
        that are about to start, although their status does not say so yet."""
        entry = self._entries.get(key_of(flow))
        members = None if entry is None else self._groups.get(entry.group)
        if entry is None or members is None:
            return concurrency.NO_GROUP
        own, waiting = entry.member.name, members.waiting
        # a flow never waits for itself
        holders = {name: member for name, member in members.holders.items() if name != own}
        for name in starting:
            if name != own and name in waiting:
                holders[name] = waiting[name].member
        line = members.line[: bisect_left(members.line, entry.order)]
        before = [waiting[name] for _, name in line if name not in starting]
        return concurrency.Group(
            holders=tuple(holders[name] for name in sorted(holders)),
            before=tuple(each.member for each in before),
            moves=bool(before) and len(holders) < before[0].limit,
        )

    def group_of(self, flow: Key) -> GroupKey | None:
        entry = self._entries.get(flow)
        return None if entry is None else entry.group
