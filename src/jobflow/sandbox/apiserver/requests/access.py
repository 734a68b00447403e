"""Access to the server: only with its token, and never from a web page.

Other users of the machine can reach a loopback port. So can any web page through the user's
browser, by a foreign name that resolves to loopback (DNS rebinding) or by a cross-origin request.
With `--runner process`, each of them could run commands as the user.
"""

import secrets
import ssl
from dataclasses import dataclass, field
from typing import Any

from jobflow.sandbox.apiserver.requests.failures import RequestFailure, failure
from jobflow.sandbox.apiserver.requests.http import Request

HOSTS = frozenset({"127.0.0.1", "localhost", "[::1]"})
"""Values of the Host header that name this machine."""


User = dict[str, Any]
"""A user as `userInfo` of a review has it."""
ADMIN: User = {
    "username": "kubernetes-admin",
    "groups": ["system:masters", "system:authenticated"],
}
"""User of every request that impersonates nobody (`jobflow --as`)."""


def service_account(namespace: str, name: str) -> User:
    """Return the user that a ServiceAccount is."""
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}"]
    return {"username": f"system:serviceaccount:{namespace}:{name}", "groups": groups}


CONTROLLER = service_account("jobflow-system", "jobflow")
"""User of JobFlow's controller in a sandbox."""


@dataclass(frozen=True, slots=True)
class Access:
    """The CA that signed the server's certificate, and the tokens that clients send."""

    tls: ssl.SSLContext
    """TLS context of the server. kubectl sends a token over TLS only."""
    ca: bytes
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    controller_token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    """Known to the controller only."""


def user_of(request: Request, access: Access | None) -> User:
    """Return the user of a request. Raises RequestFailure, 401 or 403, if it may not be answered.
    Without `access`, no token is required, but browsers are still refused."""
    host = request.header(b"host")
    name = host[: host.index("]") + 1] if host.startswith("[") else host.partition(":")[0]
    # A foreign name that resolves to this machine is DNS rebinding.
    if name.lower() not in HOSTS:
        raise _forbidden(f'the Host header "{host}" is not an address of this machine')
    # Browsers send it, clients of Kubernetes do not.
    if b"origin" in request.headers:
        raise _forbidden("requests from web pages (with an Origin header) are refused")
    user = ADMIN
    if access is not None:
        given = request.header(b"authorization").encode()
        users = ((access.token, ADMIN), (access.controller_token, CONTROLLER))
        tokens = [(f"Bearer {token}".encode(), user) for token, user in users]
        found = [user for token, user in tokens if secrets.compare_digest(given, token)]
        # compare_digest for all tokens: the time tells nothing about them.
        if not found:
            raise failure(401, "Unauthorized", "Unauthorized")
        [user] = found
    if impersonated := request.header(b"impersonate-user"):
        # it may do everything as well; the sandbox checks no rights
        return {"username": impersonated, "groups": ["system:authenticated"]}
    return user


def check_body(request: Request) -> None:
    """Raise RequestFailure, 415, if the body has no media type: a web page's form can send such a
    body without a preflight request."""
    if request.body and b"content-type" not in request.headers:
        message = "the body has no Content-Type; name its media type, such as application/json"
        raise failure(415, "UnsupportedMediaType", message)


def _forbidden(why: str) -> RequestFailure:
    return failure(403, "Forbidden", f"{why}; use the kubeconfig that the sandbox wrote")
