"""Readiness of a replica: the kinds, definitions and certificate that it waits for."""

import asyncio
from collections.abc import Callable, Iterator

import structlog

from jobflow.store import Feed, Feeds, Store

CHECK_SECONDS = 0.1
"""Time between two checks of readiness."""

log = structlog.get_logger(__name__)


class Readiness:
    """Whether a replica is ready. Leadership does not matter: every replica answers reviews.

    `others` are further sources of clauses that name what is waited for.
    """

    def __init__(self, store: Store, feeds: Feeds, *others: Callable[[], list[str]]) -> None:
        self._store = store
        self._feeds = feeds
        self._others = others
        self.stopping = False

    def waiting_for(self) -> list[str]:
        """Return a clause for each thing that is missing."""
        if self.stopping:
            return ["its end: it is being stopped"]
        unread = [_unread_clause(feed) for feed in self._unread_feeds()]
        outdated = [_outdated_clause(feed) for feed in self._feeds.outdated()]
        return unread + outdated + [clause for source in self._others for clause in source()]

    def unknown(self) -> list[str]:
        """Return the kinds that cannot be followed at present, each with its error. Their copies
        are not used until they can be followed again."""
        return [
            f"{feed.resource.plural}: {feed.trouble}" for feed in self._feeds if feed.cache.failing
        ]

    def outdated(self) -> str:
        """Return why reviews cannot rely on the copies, or ""."""
        clauses = map(_outdated_clause, self._feeds.outdated())
        return next((f"this replica waits for {clause}" for clause in clauses), "")

    async def wait_ready(self) -> None:
        """Return as soon as nothing is missing."""
        await self._store.synced.wait()
        while self.waiting_for():  # noqa: ASYNC110 - its sources have no common event
            await asyncio.sleep(CHECK_SECONDS / 10)

    async def report(self) -> None:
        """Log what is missing whenever that changes, until cancelled."""
        before: list[str] | None = None
        while True:
            clauses = self.waiting_for()
            if clauses != before and clauses:
                log.info("not ready", waiting_for=clauses)
            elif clauses != before:
                log.info("ready")
                if unknown := self.unknown():
                    log.warning("ready without knowing every kind", unknown=unknown)
            before = clauses
            await asyncio.sleep(CHECK_SECONDS)

    def _unread_feeds(self) -> Iterator[Feed]:
        """Every cluster has pods, so a replica that may not list them is not ready, although it
        runs flows (docs/decisions/watched-pods.md)."""
        store = self._store
        for feed in self._feeds:
            cache = feed.cache
            if feed is self._feeds.pods:
                waits = store.listed.is_set() and (cache.served is False or not cache.answered)
            elif feed in (self._feeds.queues, self._feeds.commands):
                waits = not cache.answered
            else:
                waits = not (cache.synced and cache.served)
            if waits:
                yield feed


def _outdated_clause(feed: Feed) -> str:
    resource, trouble = feed.resource, feed.trouble
    copy = f"the copy of {resource.plural}, which is older than {feed.max_age:g} s"
    return f"the API server to confirm {copy}" + (f": {trouble}" if trouble else "")


def _unread_clause(feed: Feed) -> str:
    resource, trouble = feed.resource, feed.trouble
    clause = f"the API server to list {resource.plural}"
    if trouble.startswith("404"):
        owner = "Volcano" if resource.group != "flow.volcano.sh" else "`jobflow crds --apply`"
        kind = f"{resource.api_version} {resource.kind}"
        return f"{clause}: {kind} is not served; {owner} installs it"
    return f"{clause}: {trouble}" if trouble else clause
