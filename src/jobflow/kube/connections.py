"""HTTP connections to one API server: requests are signed here, and nothing is retried except once
after a 401, with renewed credentials. `pooled_connections` and `light_connections` send them."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import NamedTuple, Protocol
from urllib.parse import quote, urlencode

import jobflow
from jobflow.kube.clock import ServerClock, boot_clock
from jobflow.kube.credentials import Credentials, Login

Query = Sequence[tuple[str, str]]

METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
"""The Accept header of a list without specs and statuses."""
CONNECT_SECONDS = 5.0
CONNECTIONS = 100
"""Connections that one client has open at once. A request beyond them waits."""


class Limits(NamedTuple):
    """Seconds for an exchange; None: any time."""

    total: float | None = None
    """From the wait for a connection to the end of the answer."""
    silence: float | None = None
    """Between two parts of an answer."""


class Request(NamedTuple):
    method: str
    path: str
    """Below the server, encoded, with the query."""
    body: bytes | None
    headers: Mapping[str, str]
    """With those that name the user."""
    limits: Limits


class Headers(Protocol):
    def get(self, name: str, /) -> str | None: ...

    def getall(self, name: str, default: Sequence[str], /) -> Sequence[str]: ...


class Answer(Protocol):
    """An answer whose body is not read yet. Reading it raises one of NETWORK_ERRORS."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Headers: ...

    async def read(self) -> bytes: ...

    def iter_any(self) -> AsyncIterator[bytes]:
        """Yield the body in chunks, as they come."""

    def close(self) -> None:
        """Close the connection, unless the answer was read to its end."""


class Connections:
    def __init__(self, auth: Credentials, clock: ServerClock | None = None) -> None:
        self.auth = auth
        self.clock = clock or ServerClock()
        """The server's time, by all answers that come over these connections and siblings."""

    def sibling(self) -> "Connections":
        return type(self)(self.auth, self.clock)

    async def close(self) -> None:
        """Close all connections. A later request opens new ones."""

    async def open(
        self,
        method: str,
        path: str,
        *,
        limits: Limits,
        query: Query = (),
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send a request and return the answer, whose body is not read yet. Raises one of
        NETWORK_ERRORS."""
        text = quote(path, safe="/:") + (f"?{urlencode(query)}" if query else "")
        login = await self.auth.login()
        request = Request(method, text, body, headers or {}, limits)
        sent_at = boot_clock()
        answer = await self._send(login, _sign(request, login))
        if answer.status == 401 and (other := await self.auth.renewed(login)) is not None:
            # nobody reads its body
            answer.close()
            answer = await self._send(other, _sign(request, other))
        self.clock.answered(answer.headers.get("Date"), sent_at, boot_clock())
        return answer

    async def _send(self, login: Login, request: Request) -> Answer:
        raise NotImplementedError


def common_headers() -> Mapping[str, str]:
    return {
        "Accept": "application/json",
        # compressing a list costs an API server more than sending it
        "Accept-Encoding": "identity",
        "User-Agent": f"jobflow/{jobflow.__version__}",
    }


def _sign(request: Request, login: Login) -> Request:
    user = {"Authorization": login.authorization, "Impersonate-User": login.impersonate}
    named = {name: text for name, text in user.items() if text is not None}
    return request._replace(headers={**request.headers, **named})
