"""Access to the server: only with its token, and never from a web page.

Other users of the machine can reach a loopback port, and so can web pages, by a foreign name that
resolves to loopback (DNS rebinding) or by a cross-origin request. With `--runner process`, each of
them could run commands as the user.
"""

import base64
import fcntl
import os
import secrets
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from jobflow.kube.credentials import ConfigError
from jobflow.sandbox.apiserver.requests.failures import RequestFailure, failure
from jobflow.sandbox.apiserver.requests.http import Request

HOSTS = frozenset({"127.0.0.1", "localhost", "[::1]"})

User = dict[str, Any]
"""A user as `userInfo` of a review has it."""
ADMIN: User = {"username": "kubernetes-admin", "groups": ["system:masters", "system:authenticated"]}
"""User of every request that impersonates nobody (`jobflow --as`)."""


def service_account(namespace: str, name: str) -> User:
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


def user_of(request: Request, access: Access | None) -> User:
    """Return the user of a request. Raises RequestFailure, 401 or 403. Without `access`, no token
    is required, but browsers are still refused."""
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
    """Raise RequestFailure, 415, if the body has no media type."""
    # A web page's form can send such a body without a preflight request.
    if request.body and b"content-type" not in request.headers:
        message = "the body has no Content-Type; name its media type, such as application/json"
        raise failure(415, "UnsupportedMediaType", message)


def _forbidden(why: str) -> RequestFailure:
    return failure(403, "Forbidden", f"{why}; use the kubeconfig that the sandbox wrote")


NAME = "jobflow-sandbox"


def kubeconfig(url: str, access: Access | None) -> str:
    cluster: dict[str, Any] = {"server": url}
    user: dict[str, Any] = {}
    if access is not None:
        cluster["certificate-authority-data"] = base64.b64encode(access.ca).decode()
        user["token"] = access.token
    context = {"cluster": NAME, "user": NAME}
    entries = {"cluster": cluster, "user": user, "context": context}
    config = {f"{kind}s": [{"name": NAME, kind: entry}] for kind, entry in entries.items()}
    head = {"apiVersion": "v1", "kind": "Config", "current-context": NAME}
    return yaml.safe_dump(head | config, sort_keys=False)


@contextmanager
def kubeconfig_file(path: Path, text: str) -> Iterator[None]:
    """Keep `text` in the file at `path`, mode 0600, while the body runs; create its folders. Raises
    ConfigError if the file is another sandbox's in use, or no sandbox's; OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # Not truncated yet: the file may be another sandbox's, or no sandbox's.
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            other = "stop that one, or choose another file with --kubeconfig"
            raise ConfigError(f"{path} is in use by another sandbox; {other}") from None
        before = os.pread(file, os.fstat(file).st_size, 0)
        if before.strip() and f"current-context: {NAME}".encode() not in before:
            why = "is not a kubeconfig of a sandbox and is not overwritten"
            raise ConfigError(f"{path} {why}; choose another file with --kubeconfig")
        # A file that was there already may be readable for others.
        os.fchmod(file, 0o600)
        os.ftruncate(file, 0)
        os.pwrite(file, text.encode(), 0)
        try:
            yield
        finally:
            # Somebody may have replaced the file meanwhile; theirs stays.
            if path.exists() and os.path.samestat(path.stat(), os.fstat(file)):
                path.unlink()
    finally:
        os.close(file)
