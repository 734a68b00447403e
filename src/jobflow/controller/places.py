"""Places in concurrency groups: who holds one, who waits, and who takes one right now.

The copies know that a flow has started once the answer to the write of its `startTime` has arrived.
Until then its place is noted here, from the moment at which its plan was made. A note counts while
the flow has the version that was planned for, which the write names. Therefore an answer that is
lost never gives a place to two flows.
"""

from jobflow.api.flow.jobflow import JobFlow
from jobflow.core.spec.concurrency import NO_GROUP, Group, needs_place
from jobflow.kube.cache import key_of
from jobflow.store import Store
from jobflow.store.groups import GroupKey


class Places:
    """The places of one term of leadership."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._taken: dict[GroupKey, dict[str, str]] = {}
        """The versions of flows that are about to start, by group and name."""

    def of(self, flow: JobFlow) -> Group:
        """Return the group of a flow as its plan may see it."""
        if flow.spec.concurrency is None:
            return NO_GROUP
        group = self._store.groups.group_of(key_of(flow))
        if group is None or not (taken := self._taken.get(group)):
            return self._store.groups.of(flow)
        for name, version in list(taken.items()):
            # any later version shows whether the start was stored
            known = self._store.flows.get(group[0], name)
            if known is None or known.metadata.resource_version != version:
                del taken[name]
        if not taken:
            del self._taken[group]
        return self._store.groups.of(flow, taken.keys())

    def take(self, flow: JobFlow) -> None:
        group = self._store.groups.group_of(key_of(flow))
        if group is not None and needs_place(flow):
            meta = flow.metadata
            self._taken.setdefault(group, {})[meta.name] = meta.resource_version
