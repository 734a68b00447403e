"""Watch on the installed CustomResourceDefinitions: can this version work with them?

Volcano's own chart can replace our definitions at any time; until ours are back, nothing is
admitted, planned or written. An API server drops from a stored object, at its next write by
anybody, what a foreign definition does not name: `LostFields` finds the flows
(docs/decisions/definitions.md).
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from itertools import islice
from typing import Any

import structlog

from jobflow.api.flow.jobflow import JobFlow, JobFlowSpec
from jobflow.api.kinds import FlowKind
from jobflow.api.resources import CRDS, ObjectMeta, Struct
from jobflow.core.json_values import find_missing
from jobflow.core.manifests.installed_crds import definition_faults
from jobflow.kube.cache import Cache
from jobflow.kube.client import Client
from jobflow.kube.reflector import Reflector

log = structlog.get_logger(__name__)

MAX_FAULTS = 5
"""Faults of one definition that a message lists; it counts the others."""
REMEDY = "apply this version's with `jobflow crds --apply`"
SETTLE_SECONDS = 2.0
"""Time from a corrected definition until every API server uses it."""


class InstalledCrd(Struct):
    metadata: ObjectMeta
    spec: dict[str, Any] = {}


class CrdWatch:
    """Whether the definitions fit this version, kept up to date by `run`: `fit` or `unfit` is set.
    After a definition that did not fit, `reread` is awaited before `fit` is set again: objects read
    in the meantime may lack fields that are stored."""

    def __init__(
        self,
        client: Client,
        reread: Callable[[], Awaitable[None]],
        kinds: Iterable[FlowKind],
        on_fault: Callable[[], None] = lambda: None,
    ) -> None:
        self._crds = [_FollowedCrd(client, kind, self._check) for kind in kinds]
        self._reread = reread
        self._on_fault = on_fault
        self._changed = asyncio.Event()
        self._changed.set()
        self.fit, self.unfit = asyncio.Event(), asyncio.Event()
        self.unfit.set()
        self._must_reread = False

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for crd in self._crds:
                group.create_task(crd.reflector.run())
            while True:
                await self._changed.wait()
                self._changed.clear()
                if not self._are_all_correct() or self.fit.is_set():
                    continue
                # objects that were read while a definition did not fit may lack fields
                if self._must_reread:
                    await asyncio.sleep(SETTLE_SECONDS)
                    await self._reread()
                # a definition may have changed while objects were read again
                if self._are_all_correct() and not self._changed.is_set():
                    self._must_reread = False
                    self.unfit.clear()
                    self.fit.set()

    def _are_all_correct(self) -> bool:
        return all(crd.faults == [] for crd in self._crds)

    def waiting_for(self) -> list[str]:
        """Return a clause for each definition that is unknown or does not fit."""
        clauses = [clause for crd in self._crds if (clause := crd.clause)]
        if not clauses and self.unfit.is_set():
            return ["flows and templates to be read again, with the corrected definitions"]
        return clauses

    def refusal(self) -> str | None:
        """Return why requests are refused, or None if this version may work."""
        clauses = self.waiting_for()
        return f"JobFlow waits for {'; '.join(clauses)}" if clauses else None

    def fault_counts(self) -> Mapping[str, int]:
        """Return the number of faults of each definition that was read, by its plural."""
        return {crd.plural: len(crd.faults) for crd in self._crds if crd.faults is not None}

    def _check(self) -> None:
        if not self._are_all_correct():
            if any(crd.faults for crd in self._crds):
                self._must_reread = True
                self._on_fault()
            self.fit.clear()
            self.unfit.set()
        self._changed.set()


class _FollowedCrd:
    def __init__(self, client: Client, kind: FlowKind, on_change: Callable[[], None]) -> None:
        self.plural = kind.resource.plural
        self.faults: list[str] | None = None
        """None: not known yet."""
        self._name = kind.resource.qualified
        self._kind = kind.name
        self._on_change = on_change
        cache = Cache[InstalledCrd](lambda old, new: self._judge())
        # a definition that does not exist brings no event
        cache.on_state = self._judge
        query = [("fieldSelector", f"metadata.name={self._name}")]
        self.reflector = Reflector(client, CRDS, InstalledCrd, cache, query=query)

    @property
    def clause(self) -> str | None:
        name = f"CustomResourceDefinition {self._name}"
        if self.faults is None:
            return f"{name} to be read: {self.reflector.trouble}".removesuffix(": ")
        if not self.faults:
            return None
        faults = ", ".join(self.faults[:MAX_FAULTS])
        others = len(self.faults) - MAX_FAULTS
        more = f" and {others} more" if others > 0 else ""
        return f"{name} to be corrected: {faults}{more}; {REMEDY}"

    def _judge(self) -> None:
        before, cache = self.faults, self.reflector.cache
        # an absent definition and one that was not read yet look the same
        if not cache.synced:
            return
        crd = cache.get("", self._name)
        if crd is None:
            self.faults = ["it is not installed"]
        else:
            self.faults = definition_faults(self._kind, {"spec": crd.spec})
        # a foreign chart may write its definition again and again
        if self.faults and self.faults != before:
            log.error(
                "definition does not fit",
                definition=self._name,
                faults=self.faults[:MAX_FAULTS],
                count=len(self.faults),
            )
        elif before and not self.faults:
            log.info("definition fits again", definition=self._name)
        self._on_change()


MAX_FIELDS = 5


class LostFields:
    """Compares the flows that were read before a definition did not fit with those after it."""

    def __init__(self, flows: Cache[JobFlow]) -> None:
        self._flows = flows
        self._before: dict[str, JobFlowSpec] = {}
        self._lost: set[str] = set()

    def remember(self) -> None:
        """Keep the specs as they are: a definition does not fit."""
        for flow in self._flows:
            # the first state is the one before any loss
            self._before.setdefault(flow.metadata.uid, flow.spec)

    def compare(self) -> None:
        """Log the flows whose specs lack fields, after they were read with the right definition."""
        for flow in self._flows:
            meta, before = flow.metadata, self._before.get(flow.metadata.uid)
            fields = list(islice(find_missing("spec", before, flow.spec), MAX_FIELDS))
            if fields:
                self._lost.add(meta.uid)
                log.error("flow lost fields", flow=f"{meta.namespace}/{meta.name}", fields=fields)
        self._before.clear()

    def count(self) -> int:
        if self._lost:
            # deleted flows need no attention
            self._lost &= {flow.metadata.uid for flow in self._flows}
        return len(self._lost)
