"""Index of the jobs that were created from each template, by their annotation."""

from collections.abc import Mapping
from datetime import UTC, datetime
from heapq import nlargest

from jobflow.api.labels import CREATED_BY_TEMPLATE
from jobflow.api.volcano.job import Job
from jobflow.kube.cache import Cache, Key
from jobflow.store.pods import discard

EMPTY: Mapping[str, None] = {}
LONG_AGO = datetime.min.replace(tzinfo=UTC)


class TemplateJobs:
    """The index. Call `job_changed` after the cache has the change."""

    def __init__(self, jobs: Cache[Job]) -> None:
        self._jobs = jobs
        self._names: dict[Key, dict[str, None]] = {}

    def newest(self, template: Key, most: int) -> list[str]:
        """Return the names of the newest existing jobs of a template, newest first. Looks at each
        of them, so do not call it for every event."""
        namespace = template[0]
        found = (self._jobs.get(namespace, name) for name in self._names.get(template, EMPTY))
        metas = (job.metadata for job in found if job is not None)
        newest = nlargest(
            most, metas, key=lambda meta: (meta.creation_timestamp or LONG_AGO, meta.name)
        )
        return [meta.name for meta in newest]

    def job_changed(self, old: Job | None, new: Job | None) -> None:
        """Apply a change of a job."""
        before, after = template_of(old), template_of(new)
        if before == after:
            return
        if old is not None and before is not None:
            discard(self._names, before, old.metadata.name)
        if new is not None and after is not None:
            self._names.setdefault(after, {})[new.metadata.name] = None


def template_of(job: Job | None) -> Key | None:
    """Return the template that a job was created from; None without one in its own namespace.

    Volcano's own controller sets only a label, whose value it does not shorten.
    """
    if job is None:
        return None
    meta = job.metadata
    named = (meta.annotations or {}).get(CREATED_BY_TEMPLATE)
    named = named or (meta.labels or {}).get(CREATED_BY_TEMPLATE, "")
    # a namespace has no dot
    namespace, _, name = named.partition(".")
    return (namespace, name) if name and namespace == meta.namespace else None
