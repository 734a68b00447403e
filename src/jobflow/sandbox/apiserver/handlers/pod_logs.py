"""`pods/NAME/log`: the log of a container, as an API server and a kubelet answer together
(k8s.io/kubernetes LogLocation, ValidatePodLogOptions, validateContainerLogStatus)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from jobflow.core.violations import Reason, Violation
from jobflow.sandbox.apiserver.handlers.reads import closing_with_client
from jobflow.sandbox.apiserver.kinds import Object, value_at
from jobflow.sandbox.apiserver.requests import failures
from jobflow.sandbox.apiserver.requests.http import Receive, Request, Response
from jobflow.sandbox.apiserver.requests.targets import Target
from jobflow.sandbox.apiserver.storage import Storage

POLL_SECONDS = 0.1
_IMAGE_PROBLEMS = {
    "ErrImagePull": "image can't be pulled",
    "ImagePullBackOff": "trying and failing to pull image",
}


class RunLog(Protocol):
    def read(
        self, *, tail: int | None, since: datetime | None, timestamps: bool, follow: bool
    ) -> Generator[bytes, None, None]:
        """Yield the log in blocks; with `follow`, b"" at the present end until the run ends."""


class LogSource(Protocol):
    """The runner of the containers."""

    def log(self, pod_uid: str, container: str, run: int) -> RunLog | None:
        """Return the log of a run, from 0, of a pod's container; None if it has none."""


def get_log(
    storage: Storage, source: LogSource | None, target: Target, request: Request, receive: Receive
) -> Response:
    """Return the answer to a request for a log. Without a source, every log is empty."""
    tail, limit, seconds = (
        request.number(name) if request.query.get(name) else None
        for name in ("tailLines", "limitBytes", "sinceSeconds")
    )
    since, faults = None, []
    if text := request.query.get("sinceTime"):
        with suppress(ValueError):
            since = datetime.fromisoformat(text)
        if since is None or since.tzinfo is None or "T" not in text:
            layout = "2006-01-02T15:04:05Z07:00"
            why = f'parsing time "{text}" as "{layout}": cannot parse "{text}"'
            raise failures.bad_request(why)
    if tail is not None and tail < 0:
        detail = "must be greater than or equal to 0"
        faults.append(Violation("tailLines", Reason.INVALID, tail, detail))
    if limit is not None and limit < 1:
        faults.append(Violation("limitBytes", Reason.INVALID, limit, "must be greater than 0"))
    if seconds is not None and since is not None:
        detail = "at most one of `sinceTime` or `sinceSeconds` may be specified"
        faults.append(Violation("", Reason.FORBIDDEN, None, detail))
    elif seconds is not None and seconds < 1:
        detail = "must be greater than 0"
        faults.append(Violation("sinceSeconds", Reason.INVALID, seconds, detail))
    if faults:
        raise failures.invalid_as("", "PodLogOptions", target.name, faults)
    if seconds is not None:
        since = datetime.now(UTC) - timedelta(seconds=min(seconds, 10**9))
    stored = storage.get(target.kind.bucket, target.key)
    if stored is None:
        raise failures.not_found(target.kind, target.name)
    container = _choose_container(stored.obj, request.query.get("container", ""))
    run, log, follow = 0, None, False
    # Without a node nothing runs the pod, so its log is empty.
    if value_at(stored.obj, "spec.nodeName"):
        run = _choose_run(stored.obj, container, previous=request.flag("previous"))
        follow = request.flag("follow")
        log = source.log(stored.uid, container, run) if source is not None else None
    if log is None:
        blocks = _nothing(storage, target, stored.uid, container, run, follow=follow)
    else:
        timestamps = request.flag("timestamps")
        blocks = log.read(tail=tail, since=since, timestamps=timestamps, follow=follow)
    stream = _follow(storage, target, blocks, limit, receive)
    return Response(media_type="text/plain", stream=stream)


def _nothing(
    storage: Storage, target: Target, uid: str, container: str, run: int, *, follow: bool
) -> Generator[bytes, None, None]:
    """Yield nothing, with `follow` until the run has ended."""
    while follow:
        stored = storage.get(target.kind.bucket, target.key)
        if stored is None or stored.metadata["uid"] != uid:
            return
        status = _status_of(stored.obj, container) or {}
        if "running" not in status.get("state", {}) or status.get("restartCount", 0) != run:
            return
        yield b""


def _choose_container(pod: Object, name: str) -> str:
    """Return the container of this name, or the only one. Raises RequestFailure, 400."""
    spec, pod_name = pod.get("spec") or {}, pod["metadata"]["name"]
    main: list[str] = [each["name"] for each in spec.get("containers") or ()]
    names = [*(each["name"] for each in spec.get("initContainers") or ()), *main]
    if name:
        if name not in names:
            raise failures.bad_request(f"container {name} is not valid for pod {pod_name}")
        return name
    if len(main) != 1:
        why = f"a container name must be specified for pod {pod_name}"
        choice = f", choose one of: [{' '.join(names)}]" if main else ""
        raise failures.bad_request(why + choice)
    return main[0]


def _status_of(pod: Object, container: str) -> dict[str, Any] | None:
    status = pod.get("status") or {}
    found = (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ()))
    return next((each for each in found if each.get("name") == container), None)


def _choose_run(pod: Object, container: str, *, previous: bool) -> int:
    """Return the number of the run, from 0, whose log is meant. Raises RequestFailure, 400."""
    status = _status_of(pod, container)
    if status is None:
        init = (pod.get("spec") or {}).get("initContainers")
        reason = "PodInitializing" if init else "ContainerCreating"
        status = {"state": {"waiting": {"reason": reason}}}
    state, ended_before = status.get("state") or {}, "terminated" in (status.get("lastState") or {})
    latest = int(status.get("restartCount") or 0)
    where = f'container "{container}" in pod "{pod["metadata"]["name"]}"'
    waits = "running" not in state and "terminated" not in state
    if previous and not ended_before:
        raise failures.bad_request(f"previous terminated {where} not found")
    # The present run has the latest number, the one before it the next lower.
    if previous and not waits:
        return latest - 1
    if waits and not ended_before:
        reason = (state.get("waiting") or {}).get("reason", "")
        why = _IMAGE_PROBLEMS.get(reason, reason)
        raise failures.bad_request(f"{where} is waiting to start: {why}")
    return latest


async def _follow(
    storage: Storage,
    target: Target,
    blocks: Generator[bytes, None, None],
    limit: int | None,
    receive: Receive,
) -> AsyncGenerator[bytes]:
    """Yield the blocks up to the limit, until the client leaves or the server stops."""
    bucket = target.kind.bucket
    watch = storage.watch(bucket, storage.revision)
    async with closing_with_client(storage, bucket, watch, receive):
        with closing(blocks):
            for block in blocks:
                # The watch is closed when the client leaves and when the server stops.
                if watch.closed or (limit is not None and limit <= 0):
                    return
                if block:
                    yield block[:limit]
                    limit = None if limit is None else limit - len(block)
                    continue
                watch.pending.clear()
                watch.wake.clear()
                # A change of the pod wakes it too: its end may be the end of the log.
                with suppress(TimeoutError):
                    await asyncio.wait_for(watch.wake.wait(), POLL_SECONDS)
