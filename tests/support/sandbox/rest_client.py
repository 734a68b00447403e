"""A plain HTTP client of the sandbox's API server, for tests that check the answers."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from support.sandbox.api_server import ApiServer

FLOWS = "/apis/flow.volcano.sh/v1alpha1/namespaces/default/jobflows"
TEMPLATES = "/apis/flow.volcano.sh/v1alpha1/namespaces/default/jobtemplates"
VCJOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"
PODS = "/api/v1/namespaces/default/pods"
NAMESPACES = "/api/v1/namespaces"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"

MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"


@dataclass(frozen=True)
class Answer:
    """An answer: status code, JSON, warnings."""

    code: int
    json: Any
    warnings: list[str] = field(default_factory=list)

    @property
    def message(self) -> str:
        """Message of a Status."""
        return str(self.json["message"])

    @property
    def reason(self) -> str:
        return str(self.json["reason"])

    @property
    def meta(self) -> dict[str, Any]:
        """`metadata` of the answer."""
        found: dict[str, Any] = self.json["metadata"]
        return found

    @property
    def names(self) -> list[str]:
        """Names of a list's items."""
        return [item["metadata"]["name"] for item in self.json["items"]]

    @property
    def causes(self) -> dict[str, str]:
        """Messages of a Status' causes by field."""
        return {c["field"]: c["message"] for c in self.json["details"]["causes"]}


class Rest:
    """A client that sends each request unchanged."""

    def __init__(self, server: ApiServer, session: aiohttp.ClientSession) -> None:
        self.server = server
        self._session = session

    async def send(
        self, method: str, path: str, body: Any = None, *, accept: str = "*/*", **more: Any
    ) -> Answer:
        """Send a request. Keyword arguments except `content_type` are its query."""
        headers = {"accept": accept}
        if body is not None:
            headers["content-type"] = more.pop("content_type", "application/json")
        content = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
        async with self._session.request(
            method,
            path,
            data=io.BytesIO(content) if content else None,
            headers=headers,
            params=more or None,
        ) as response:
            body = await (response.json() if "json" in response.content_type else response.text())
            return Answer(response.status, body, response.headers.getall("warning", []))

    async def get(self, path: str, **more: Any) -> Answer:
        return await self.send("GET", path, **more)

    async def post(self, path: str, body: Any, **more: Any) -> Answer:
        return await self.send("POST", path, body, **more)

    async def put(self, path: str, body: Any, **more: Any) -> Answer:
        return await self.send("PUT", path, body, **more)

    async def patch(self, path: str, body: Any, content_type: str = MERGE, **more: Any) -> Answer:
        return await self.send("PATCH", path, body, content_type=content_type, **more)

    async def delete(self, path: str, body: Any = None, **more: Any) -> Answer:
        return await self.send("DELETE", path, body, **more)

    async def create(self, path: str, body: Any, **more: Any) -> dict[str, Any]:
        """Create an object and return it. Fails unless the answer is 201."""
        answer = await self.post(path, body, **more)
        assert answer.code == 201, answer.json
        created: dict[str, Any] = answer.json
        return created

    async def wait_until_deleted(self, path: str) -> None:
        """Wait until the object at this path no longer exists."""
        collection, _, name = path.rpartition("/")
        answer = await self.get(path)
        if answer.code == 404:
            return
        async with self.watch(
            collection,
            resourceVersion=answer.meta["resourceVersion"],
            fieldSelector=f"metadata.name={name}",
        ) as watch:
            while (await watch.next())["type"] != "DELETED":
                pass

    @asynccontextmanager
    async def watch(self, path: str, *, accept: str = "*/*", **query: Any) -> AsyncIterator[Watch]:
        """Open a watch, and close it at the end."""
        params = {"watch": "1", **query}
        headers = {"accept": accept}
        async with self._session.get(path, params=params, headers=headers) as response:
            assert response.status == 200, await response.text()
            yield Watch(response)


class Ended(Exception):
    """The server has ended a watch."""


class Watch:
    """The frames of a watch."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._content = response.content

    async def next(self) -> dict[str, Any]:
        """Return the next frame. Raises Ended."""
        async with asyncio.timeout(10):
            line = await self._content.readline()
        if not line:
            raise Ended
        frame: dict[str, Any] = json.loads(line)
        return frame

    async def next_name(self) -> tuple[str, str]:
        """Return the type and the object name of the next frame."""
        frame = await self.next()
        return frame["type"], frame["object"]["metadata"]["name"]


@asynccontextmanager
async def rest(**options: Any) -> AsyncIterator[Rest]:
    """A new server and its client."""
    async with ApiServer(**options) as server:
        async with aiohttp.ClientSession(server.url) as session:
            yield Rest(server, session)


def flow(name: str = "f", *steps: str, **metadata: Any) -> dict[str, Any]:
    """Return a JobFlow of steps without dependencies."""
    return {
        "apiVersion": "flow.volcano.sh/v1alpha1",
        "kind": "JobFlow",
        "metadata": {"name": name, **metadata},
        "spec": {"flows": [{"name": step} for step in steps or ("a",)]},
    }


def reference(obj: dict[str, Any]) -> dict[str, Any]:
    """Return a reference to an object."""
    names = {"name": obj["metadata"]["name"], "uid": obj["metadata"]["uid"]}
    return {"apiVersion": obj["apiVersion"], "kind": obj["kind"], **names}


def event(about: dict[str, Any], name: str, **fields: Any) -> dict[str, Any]:
    """Return an Event about an object."""
    namespace = {"namespace": about["metadata"]["namespace"]}
    head = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": name, **namespace}}
    return {**head, "involvedObject": reference(about) | namespace, "type": "Normal", **fields}


def failure_status(code: int, reason: str, message: str, **details: Any) -> dict[str, Any]:
    """Return the Status of a request that failed."""
    head = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    more = {"details": details} if details else {}
    return {**head, "message": message, "reason": reason, "code": code, **more}


def vcjob(name: str, *owners: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    """Return a vcjob that these objects own."""
    references = [reference(owner) | {"blockOwnerDeletion": True} for owner in owners]
    owned = {"ownerReferences": references} if references else {}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, **owned, **metadata},
        "spec": {"minAvailable": 1},
    }
