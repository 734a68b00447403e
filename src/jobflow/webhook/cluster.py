"""The webhook's knowledge of the cluster: this process's store, live reads, and dry runs.

By a dry run, the API server checks a pod template without storing it. One that fails for another
reason than a fault of the template refuses nothing.
"""

import asyncio
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain
from typing import Any, TypeVar

import msgspec
import structlog

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.resources import JOBFLOWS, NAMESPACES, POD_TEMPLATES, Object, StatusCause
from jobflow.core.admission.changes import Need, need_of
from jobflow.core.manifests.volume_claims import why_spent
from jobflow.core.pods.resources import parse_quantity
from jobflow.core.violations import Reason, join_path
from jobflow.kube.client import NETWORK_ERRORS, ApiError, Client, decoder
from jobflow.store import Store
from jobflow.webhook.review.envelope import NotReady
from jobflow.webhook.tried_pods import SECONDS, TEMPLATE, DryRun

AT_ONCE = 8
LOG_SECONDS = 60.0
QUERY = (("dryRun", "All"), ("fieldValidation", "Warn"))

_UNREADABLE = re.compile(r"cannot be handled as a PodTemplate: (.+)", re.DOTALL)
"""A wrong type or a malformed quantity, which is found before validation
(k8s.io/apiserver, endpoints/handlers/rest.go, transformDecodeError)."""

log = structlog.get_logger(__name__)


class DryRunResult(StrEnum):
    PASSED = "passed"
    REFUSED = "refused"
    FORBIDDEN = "forbidden"
    NOT_SERVED = "not_served"
    BUSY = "busy"
    ERROR = "error"
    TIMEOUT = "timeout"
    UNREACHABLE = "unreachable"


_RESULTS = {
    403: DryRunResult.FORBIDDEN,
    404: DryRunResult.NOT_SERVED,
    429: DryRunResult.BUSY,
    504: DryRunResult.TIMEOUT,
}

Observe = Callable[[str], None]
T = TypeVar("T")


@dataclass(eq=False)
class DryRuns:
    client: Client
    observe: Observe
    clock: Callable[[], float] = time.monotonic
    _logged: dict[DryRunResult, float] = field(default_factory=dict)

    async def of(self, namespace: str, templates: Sequence[bytes]) -> list[DryRun | None]:
        """Return the answer to each of these pod templates (JSON), or None if it came too late."""
        answers: list[DryRun | None] = [None] * len(templates)
        # 64 requests at once would take the connections of other reviews
        room = asyncio.Semaphore(AT_ONCE)

        async def ask(i: int) -> None:
            async with room:
                answers[i] = await self._try(namespace, templates[i])

        with suppress(TimeoutError):
            async with asyncio.timeout(SECONDS), asyncio.TaskGroup() as group:
                for i in range(len(templates)):
                    group.create_task(ask(i))
        # only now is it sure that they came too late
        for _ in range(answers.count(None)):
            self._ignore(DryRunResult.TIMEOUT, namespace, f"no answer within {SECONDS:g} s")
        return answers

    async def _try(self, namespace: str, template: bytes) -> DryRun | None:
        warnings: list[str] = []
        obj = {
            **POD_TEMPLATES.type_meta,
            "metadata": {"generateName": "jobflow-"},  # never in use
            "template": msgspec.Raw(template),
        }
        try:
            await self.client.request(
                "POST",
                POD_TEMPLATES.path(namespace),
                query=QUERY,
                body=msgspec.json.encode(obj),
                timeout=SECONDS,
                warnings=warnings,
            )
        except ApiError as error:
            # only faults of the template count; quotas and policies decide when pods are created
            if faults := tuple(_faults(error, template)):
                self.observe(DryRunResult.REFUSED)
                return DryRun(faults, tuple(warnings))
            self._ignore(_RESULTS.get(error.code, DryRunResult.ERROR), namespace, str(error))
            return DryRun()
        # `of` counts it, together with those that were not sent in time
        except TimeoutError:
            return None
        except NETWORK_ERRORS as error:
            self._ignore(DryRunResult.UNREACHABLE, namespace, str(error) or type(error).__name__)
            return DryRun()
        self.observe(DryRunResult.PASSED)
        return DryRun(warnings=tuple(warnings))

    def _ignore(self, result: DryRunResult, namespace: str, error: str) -> None:
        self.observe(result)
        now = self.clock()
        if result not in self._logged or now - self._logged[result] >= LOG_SECONDS:
            self._logged[result] = now
            # a sandbox serves no pod templates
            level = "info" if result is DryRunResult.NOT_SERVED else "warning"
            getattr(log, level)(
                "pod template not checked", namespace=namespace, result=result, error=error
            )


def _faults(error: ApiError, template: bytes) -> Iterator[StatusCause]:
    """Yield the faults of the template. An admission policy denies with 422 too, without a
    field."""
    details = error.status.details
    if error.code == 422 and details is not None:
        yield from (cause for cause in details.causes or () if TEMPLATE.match(cause.field))
    # it could not be decoded, so the message names no place
    elif error.code == 400 and (found := _UNREADABLE.search(error.message)) is not None:
        for place in decode_error_paths(msgspec.json.decode(template), found[1]):
            yield StatusCause(reason=Reason.TYPE_INVALID, message=found[1], field=place)


_MISTYPED = re.compile(
    r"json: cannot unmarshal (\w+)(?: (\S+))? into Go struct field \w+\.([\w.]+) of type"
)
"""A message of Go's encoding/json, with the number if it is too large or not an integer."""
_NO_QUANTITY = re.compile(r"\bquantit(?:y|ies)\b")
_QUANTITIES = frozenset({"limits", "requests", "overhead"})
_QUANTITY = frozenset({"sizeLimit", "divisor"})
_TYPES: dict[type, str] = {
    str: "string",
    bool: "bool",
    int: "number",
    float: "number",
    list: "array",
    dict: "object",
}


def decode_error_paths(template: Any, message: str) -> list[str]:
    """Return the paths of all values that may be meant; only `template` if none is found."""
    if found := _MISTYPED.search(message):
        kind, number, path = found.groups()
        fields = path.split(".")
        nodes = [("template", template)] if fields[0] == "template" else []
        for field in fields[1:]:
            lists = [_elements(*pair) if isinstance(pair[1], list) else [pair] for pair in nodes]
            nodes = [
                (join_path(at, field), each[field])
                for at, each in chain.from_iterable(lists)
                if isinstance(each, dict) and field in each
            ]
        places = [
            at
            for path, node in nodes
            for at, each in ((path, node), *_elements(path, node))
            if _TYPES.get(type(each)) == kind and number in (None, str(each))
        ]
    elif _NO_QUANTITY.search(message):
        places = []
        work: list[tuple[str, Any]] = [("template", template)]
        while work:
            for at, each in _elements(*work.pop()):
                field = at.rpartition(".")[2]
                quantities = []
                if field in _QUANTITY:
                    quantities = [(at, each)]
                elif field in _QUANTITIES and isinstance(each, dict):
                    quantities = list(_elements(at, each))
                else:
                    work.append((at, each))
                places += [path for path, value in quantities if parse_quantity(value) is None]
    else:
        places = []
    return places or ["template"]


def _elements(path: str, node: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(node, list):
        yield from ((join_path(path, i), each) for i, each in enumerate(node))
    elif isinstance(node, Mapping):
        yield from ((join_path(path, key), each) for key, each in node.items())


READ_SECONDS = 3.0
"""Timeout of a live read; a review has 10 s."""
STEPS_AT_A_TIME = 10_000
"""Steps of flows that are searched before other tasks of the event loop run."""


class StoreCluster:
    """`judges.Cluster` over a store. `only`: the one namespace that is followed, or "". `unfit`
    returns why nothing may be judged now, `outdated` why the store may not be relied on."""

    def __init__(
        self,
        store: Store,
        client: Client,
        *,
        only: str = "",
        unfit: Callable[[], str | None] = lambda: None,
        outdated: Callable[[], str | None] = lambda: None,
        observe: Observe = lambda result: None,
    ) -> None:
        self._store = store
        self._client = client
        self._only = only
        self.unfit = unfit
        self.outdated = outdated
        # these methods are the protocol's as they are
        self.templates = store.templates_in
        self.queues = store.queue_states
        self.limits = store.groups.limits_of
        self.reused_by = store.reusers.of
        self.dry_run = DryRuns(client, observe).of

    def knows(self, namespace: str) -> bool:
        return self._store.synced.is_set() and self.follows(namespace)

    def follows(self, namespace: str) -> bool:
        return self._only in ("", namespace)

    async def needed_by(self, namespace: str, template: str) -> Sequence[Need]:
        """The search yields to other tasks, because a template may be in use a million times."""
        needs, searched = [], 0
        for flow in self._store.flows_using(namespace, template):
            if (need := need_of(flow, template)) is not None:
                needs.append(need)
            searched += len(flow.steps)
            # other reviews and the Lease wait for this loop
            if searched >= STEPS_AT_A_TIME:
                searched = 0
                await asyncio.sleep(0)
        return needs

    async def namespace_terminating(self, name: str) -> bool:
        """The namespace is read live: this question is too rare for a watch of all namespaces."""
        path = NAMESPACES.path("", name)
        try:
            body = await self._client.request("GET", path, timeout=READ_SECONDS)
            found = decoder(Object).decode(body)
        except (ApiError, *NETWORK_ERRORS) as error:
            log.warning("namespace cannot be read", namespace=name, error=str(error))
            return False
        return found.metadata.deletion_timestamp is not None

    async def flow(self, namespace: str, name: str) -> JobFlow | None:
        """The flow is read live, because it may have ended a moment ago."""
        return await self._read_flow(namespace, name, JobFlow)

    def why_spent(self, namespace: str, name: str) -> str:
        flow = self._store.flows.get(namespace, name)
        return "" if flow is None else why_spent(flow, self._store.claim_takers(namespace))

    async def flow_is_gone(self, namespace: str, name: str, uid: str) -> bool:
        """The flow is read live: the garbage collector, which deletes its child flows, does not
        wait for our copy."""
        try:
            found = await self._read_flow(namespace, name, Object)
        except NotReady as error:
            log.warning("flow not known", flow=f"{namespace}/{name}", error=str(error))
            return False
        meta = None if found is None else found.metadata
        return meta is None or meta.uid != uid or meta.deletion_timestamp is not None

    async def _read_flow(self, namespace: str, name: str, kind: type[T]) -> T | None:
        """Return a flow, or None if it does not exist. Raises NotReady."""
        path = JOBFLOWS.path(namespace, name)
        try:
            body = await self._client.request("GET", path, timeout=READ_SECONDS)
            return decoder(kind).decode(body)
        except (ApiError, *NETWORK_ERRORS) as error:
            if isinstance(error, ApiError) and error.not_found:
                return None
            why = str(error) or type(error).__name__
            raise NotReady(f"flow {name} cannot be read ({why})") from error
