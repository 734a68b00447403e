"""Places in concurrency groups: who holds them, who waits, and who takes some right now.

The copies know what a flow has of its groups once the answer to the write of its status has
arrived. Until then it is noted here, from the moment at which its plan was made. A note counts
while the flow has the version that was planned for, which the write names. Therefore an answer that
is lost never gives a place to two flows.
"""

from collections.abc import Mapping

import msgspec

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import JobFlowStatus
from jobflow.core.spec import concurrency
from jobflow.kube.cache import Key, key_of
from jobflow.store import Store
from jobflow.store.groups import Entry, GroupKey


class Places:
    """The places of one term of leadership."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._noted: dict[GroupKey, dict[str, Entry]] = {}
        """What flows have of a group by the status that is being stored, by name."""
        self._versions: dict[Key, tuple[str, set[GroupKey]]] = {}
        """The version that was planned for, and the groups of the notes, by flow."""

    def of(self, flow: JobFlow) -> Mapping[concurrency.GroupName, concurrency.Group]:
        """Return the groups of a flow and of its steps as its plan may see them."""
        namespace, groups = flow.metadata.namespace, self._store.groups
        names = dict(concurrency.get_limits(flow))
        return {name: groups.of(flow, name, self._noted.get((namespace, *name))) for name in names}

    def note(self, flow: JobFlow, status: JobFlowStatus) -> None:
        """Note what a flow will have of its groups by the status of its plan."""
        key = key_of(flow)
        before = {each.group: each for each in self._store.groups.entries_of(flow)}
        entries = self._store.groups.entries_of(msgspec.structs.replace(flow, status=status))
        for entry in entries:
            if entry == before.get(entry.group):
                continue
            noted = self._noted.setdefault(entry.group, {})
            # the status of an earlier plan for this version may have been stored
            last = noted.get(key[1])
            if last is None or last.share.holds <= entry.share.holds:
                noted[key[1]] = entry
            _, groups = self._versions.setdefault(key, (flow.metadata.resource_version, set()))
            groups.add(entry.group)

    def flow_changed(self, flow: JobFlow) -> list[Key]:
        """Drop the notes about a flow that has another version, which shows whether they were
        stored, or is gone. Return the flows that may start something because of it."""
        key = key_of(flow)
        version, groups = self._versions.get(key, ("", ()))
        known = self._store.flows.get(*key)
        if not groups or (known is not None and known.metadata.resource_version == version):
            return []
        del self._versions[key]
        found: dict[Key, None] = {}
        for group in groups:
            del self._noted[group][key[1]]
            if not self._noted[group]:
                del self._noted[group]
            found |= dict.fromkeys(self._store.groups.next(group))
        return [*found]
