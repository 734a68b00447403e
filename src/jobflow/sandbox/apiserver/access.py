"""Decides who may talk to the server: whoever has its token, and no page in a browser.

Other users of the machine reach a loopback port as well. So does any web page through the user's
browser, by a foreign name that resolves to loopback (DNS rebinding) or by a request across origins.
With `--runner process` each of them could run commands as the user.
"""

from __future__ import annotations

import secrets
import ssl
from dataclasses import dataclass, field

from jobflow.sandbox.apiserver.failures import Failure, failure
from jobflow.sandbox.apiserver.http import Request

HOSTS = frozenset({"127.0.0.1", "localhost", "[::1]"})
"""Names in the Host header that are this machine's own."""


@dataclass(frozen=True, slots=True)
class Access:
    """What a client needs: the CA that signed the server's certificate, and the token."""

    tls: ssl.SSLContext
    """Of the server. kubectl sends a token over TLS only."""
    ca: bytes
    """PEM."""
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)

    def client_tls(self) -> ssl.SSLContext:
        """Return a context that trusts this server and no other."""
        return ssl.create_default_context(cadata=self.ca.decode())


def check_access(request: Request, access: Access | None) -> None:
    """Raise Failure, 401 or 403, if the request may not be answered.

    Without `access` no token is asked for; browsers are kept out all the same.
    """
    host = request.header(b"host")
    name = host[: host.index("]") + 1] if host.startswith("[") else host.partition(":")[0]
    if name.lower() not in HOSTS:
        raise _forbidden(f'the Host header "{host}" is not an address of this machine')
    if b"origin" in request.headers:
        raise _forbidden("requests from web pages (with an Origin header) are refused")
    if access is None:
        return
    given = request.header(b"authorization")
    if not secrets.compare_digest(given.encode(), f"Bearer {access.token}".encode()):
        raise failure(401, "Unauthorized", "Unauthorized")


def check_body(request: Request) -> None:
    """Raise Failure, 415, for a body whose media type is not named: a form of a web page can send
    such a body without the browser asking first."""
    if request.body and b"content-type" not in request.headers:
        message = "the body has no Content-Type; name its media type, such as application/json"
        raise failure(415, "UnsupportedMediaType", message)


def _forbidden(why: str) -> Failure:
    return failure(403, "Forbidden", f"{why}; use the kubeconfig that the sandbox wrote")
