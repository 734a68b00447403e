"""Which vcjobs were made from which template, by the annotation that they carry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from heapq import nlargest

from jobflow.api.job import Job
from jobflow.api.labels import CREATED_BY_TEMPLATE
from jobflow.kube.cache import Cache, Key

EMPTY: Mapping[str, None] = {}
LONG_AGO = datetime.min.replace(tzinfo=UTC)


class Products:
    """The index. Told of changes of vcjobs after they are in their cache."""

    def __init__(self, jobs: Cache[Job]) -> None:
        self._jobs = jobs
        self._names: dict[Key, dict[str, None]] = {}

    def newest(self, template: Key, most: int) -> list[str]:
        """The names of the vcjobs that were made from a template and are there, the newest first.

        Looks at each of them: for now and then, not for every event.
        """
        namespace = template[0]
        found = (self._jobs.get(namespace, name) for name in self._names.get(template, EMPTY))
        newest = nlargest(most, (job for job in found if job is not None), key=_made_at)
        return [job.metadata.name for job in newest]

    def templates(self) -> Iterator[Key]:
        """The templates, there or gone, of which a vcjob is there."""
        return iter(self._names)

    def job_changed(self, old: Job | None, new: Job | None) -> None:
        """A vcjob came, changed or went."""
        before, after = template_of(old), template_of(new)
        if before == after:
            return
        if old is not None and before is not None:
            names = self._names[before]
            del names[old.metadata.name]
            if not names:
                del self._names[before]
        if new is not None and after is not None:
            self._names.setdefault(after, {})[new.metadata.name] = None


def template_of(job: Job | None) -> Key | None:
    """The template that a vcjob says it was made from; None where it says none of its namespace.

    Volcano's own controller gives a label alone, whose value it does not shorten.
    """
    if job is None:
        return None
    meta = job.metadata
    named = (meta.annotations or {}).get(CREATED_BY_TEMPLATE)
    named = named or (meta.labels or {}).get(CREATED_BY_TEMPLATE, "")
    namespace, _, name = named.partition(".")
    return (namespace, name) if name and namespace == meta.namespace else None


def _made_at(job: Job) -> tuple[datetime, str]:
    return job.metadata.creation_timestamp or LONG_AGO, job.metadata.name
