"""Watches the CustomResourceDefinitions that are served: may this version work with them?

What they lack is `core.definitions`' to say. Volcano's own chart may put its definitions in the
place of ours at any time; until ours are back nothing may be admitted, planned or written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

import structlog

from jobflow.api.kinds import FlowKind
from jobflow.api.meta import ObjectMeta, Struct
from jobflow.api.resources import CRDS
from jobflow.core.manifests.installed_crds import definition_faults
from jobflow.kube.cache import Cache
from jobflow.kube.client import Client
from jobflow.kube.reflector import Reflector

log = structlog.get_logger(__name__)

MOST = 5
"""Faults of one definition that are told; the rest is counted."""
CURE = "apply this version's with `jobflow crds --apply`"
SETTLE_SECONDS = 2.0
"""From a definition's being right again until every API server serves by it."""

Reread = Callable[[], Awaitable[None]]


class Definition(Struct, frozen=True, kw_only=True):
    """`apiextensions.k8s.io/v1` CustomResourceDefinition."""

    metadata: ObjectMeta
    spec: dict[str, Any] = {}


class SchemaGuard:
    """Knows whether the definitions fit this version. An awaitable `run` keeps it level. Without
    any to follow it is fit as soon as it runs.

    Once one has not fitted, `reread` is awaited before all is well again: objects that were read
    meanwhile may lack what is stored of them.
    """

    def __init__(self, client: Client, reread: Reread, kinds: Iterable[FlowKind]) -> None:
        self._definitions = [_Followed(client, kind, self._look) for kind in kinds]
        self._reread = reread
        self._changed = asyncio.Event()
        self._changed.set()
        self._fit, self._unfit = asyncio.Event(), asyncio.Event()
        self._unfit.set()
        self._doubt = False
        """Whether something has not fitted since all was well."""

    async def run(self) -> None:
        """Follow the definitions until cancelled."""
        async with asyncio.TaskGroup() as group:
            for definition in self._definitions:
                group.create_task(definition.reflector.run())
            while True:
                await self._changed.wait()
                self._changed.clear()
                if self._right and not self.fit:
                    await self._recover()

    async def _recover(self) -> None:
        """All is well, unless something changes on the way: then that decides."""
        if self._doubt:
            await asyncio.sleep(SETTLE_SECONDS)
            await self._reread()
        if self._right and not self._changed.is_set():
            self._doubt = False
            self._unfit.clear()
            self._fit.set()

    @property
    def _right(self) -> bool:
        return all(each.faults == [] for each in self._definitions)

    @property
    def fit(self) -> bool:
        """Whether this version may work."""
        return self._fit.is_set()

    async def wait_fit(self) -> None:
        """Return as soon as it may."""
        await self._fit.wait()

    async def wait_unfit(self) -> None:
        """Return as soon as it may not."""
        await self._unfit.wait()

    def waiting_for(self) -> list[str]:
        """What is wrong, a clause a definition; empty where nothing is."""
        found = [clause for each in self._definitions if (clause := each.clause)]
        if not found and not self.fit:
            return ["flows and templates to be read again, by the definitions that are right again"]
        return found

    def unfit(self) -> str:
        """The same as the end of a sentence, for whoever is refused."""
        found = self.waiting_for()
        return f"JobFlow waits for {'; '.join(found)}" if found else ""

    def faults(self) -> Mapping[str, int]:
        """How many faults each definition has, by its plural; those that were read only."""
        return {
            each.plural: len(each.faults) for each in self._definitions if each.faults is not None
        }

    def _look(self) -> None:
        if not self._right:
            self._doubt = self._doubt or any(each.faults for each in self._definitions)
            self._fit.clear()
            self._unfit.set()
        self._changed.set()


class _Followed:
    """One definition."""

    def __init__(self, client: Client, kind: FlowKind, on_change: Callable[[], None]) -> None:
        self.plural = kind.resource.plural
        self.faults: list[str] | None = None
        """None: not known yet."""
        self._name = kind.crd_name
        self._kind = kind.name
        self._on_change = on_change
        cache = Cache[Definition](lambda old, new: self._judge())
        cache.on_state = self._judge
        only = [("fieldSelector", f"metadata.name={self._name}")]
        self.reflector = Reflector(client, CRDS, Definition, cache, query=only)

    @property
    def clause(self) -> str:
        """What is wrong with it; empty where nothing is."""
        what = f"CustomResourceDefinition {self._name}"
        if self.faults is None:
            return f"{what} to be read: {self.reflector.trouble}".removesuffix(": ")
        if not self.faults:
            return ""
        told = ", ".join(self.faults[:MOST])
        more = f" and {len(self.faults) - MOST} more" if len(self.faults) > MOST else ""
        return f"{what} to be put right: {told}{more}; {CURE}"

    def _judge(self) -> None:
        before, cache = self.faults, self.reflector.cache
        if not cache.synced:
            return
        found = cache.get("", self._name)
        if found is None:
            self.faults = ["there is none"]
        else:
            self.faults = definition_faults(self._kind, {"spec": found.spec})
        if self.faults and self.faults != before:
            log.error(
                "definition does not fit",
                definition=self._name,
                faults=self.faults[:MOST],
                count=len(self.faults),
            )
        elif before and not self.faults:
            log.info("definition fits again", definition=self._name)
        self._on_change()
