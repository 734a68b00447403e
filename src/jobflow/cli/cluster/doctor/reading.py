"""Objects of the cluster as the checks read them, and the results of checks."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import msgspec

from jobflow.api.resources import Resource
from jobflow.client.flows.find_flow import raise_unless_missing
from jobflow.kube.answers import ItemList
from jobflow.kube.client import ApiError, Client, Query

Json = dict[str, Any]

READ_RIGHTS = "Ask an administrator of the cluster for this right, or to run `jobflow doctor`."


class Status(StrEnum):
    OK = "ok"
    WARNING = "warning"
    FAULT = "fault"


@dataclass(frozen=True, slots=True)
class Result:
    """A sentence on what a check found, and a sentence on what to do about it."""

    status: Status
    message: str
    remedy: str = ""


def ok(message: str) -> Result:
    return Result(Status.OK, message)


def warning(message: str, remedy: str) -> Result:
    """Return what may be intended: it does not change the exit code."""
    return Result(Status.WARNING, message, remedy)


def fault(message: str, remedy: str) -> Result:
    """Return what keeps flows from working."""
    return Result(Status.FAULT, message, remedy)


class NotReadable(Exception):
    """A check ends, because an object cannot be read. The text is a sentence for the user."""

    def __init__(self, message: str, remedy: str = READ_RIGHTS) -> None:
        super().__init__(message)
        self.remedy = remedy


class NotServed(NotReadable):
    """A kind that the cluster does not serve."""


@dataclass
class Cluster:
    """Reads of one run of the command. Lists are read once."""

    client: Client
    _lists: dict[tuple[str, Query], list[Json]] = field(default_factory=dict)

    @property
    def namespace(self) -> str:
        return self.client.namespace

    async def serves(self, resource: Resource) -> bool:
        """Return whether the cluster serves a kind. Raises NotReadable."""
        try:
            found = await self.client.resource_of_kind(resource.api_version, resource.kind)
        except ApiError as error:
            raise not_readable(error, "get", resource, "") from None
        return found is not None

    async def read(self, resource: Resource, namespace: str, name: str) -> Json | None:
        """Return an object, or None if it does not exist. Raises NotReadable."""
        try:
            body = await self.client.request("GET", resource.path(namespace, name))
        except ApiError as error:
            # an answer without a name is about the kind, which is not served
            if error.not_found and error.status.details and error.status.details.name:
                return None
            raise not_readable(error, "get", resource, namespace) from None
        return msgspec.json.decode(body, type=Json)

    async def read_all(
        self, resource: Resource, namespace: str = "", *, query: tuple[tuple[str, str], ...] = ()
    ) -> list[Json]:
        """Return the objects of a namespace, by default of all. Raises NotReadable."""
        path = resource.path(namespace)
        if (path, query) not in self._lists:  # several checks read the same lists
            pages = self.client.list(resource, ItemList[Json], namespace=namespace, query=query)
            try:
                found = [item async for page in pages for item in page.items or ()]
            except ApiError as error:
                raise not_readable(error, "list", resource, namespace) from None
            self._lists[path, query] = found
        return self._lists[path, query]


Check = Callable[[Cluster], AsyncIterator[Result]]
"""A check. It may end with NotReadable, which becomes a warning."""


def not_readable(error: ApiError, verb: str, resource: Resource, namespace: str) -> NotReadable:
    """Return the error for an answer to a read. Raises CommandError if the login has expired."""
    if error.code == 401:  # no other check would be answered
        raise_unless_missing(error)
    if error.code == 403:
        everywhere = " in all namespaces" if resource.namespaced else ""
        place = f" in namespace {namespace}" if namespace else everywhere
        right = f"{verb} {resource.qualified}{place}"
        return NotReadable(f"This was not checked: it needs the right to {right}.")
    if error.not_found:
        message = f"This was not checked: the cluster does not serve {resource.qualified}."
        return NotServed(message, "")
    why = f"{resource.qualified} could not be read: {error.message.rstrip('.')}"
    return NotReadable(f"This was not checked: {why}.", "Run the command again later.")


def name_of(obj: Json) -> str:
    return str((obj.get("metadata") or {}).get("name") or "")
