"""Kubeconfig of a sandbox: private, and locked by one running sandbox at a time."""

import base64
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from jobflow.kube.credentials import ConfigError
from jobflow.sandbox.apiserver.requests.access import Access

NAME = "jobflow-sandbox"
"""Name of cluster, user and context."""


def kubeconfig(url: str, access: Access | None) -> str:
    """Return the YAML of a kubeconfig for the server at `url`, with the token of `access`."""
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
def written(path: Path, text: str) -> Iterator[None]:
    """Keep `text` in the file at `path`, mode 0600, while the body runs; create its folders.

    Raises ConfigError if another sandbox uses the file, or if it is not a sandbox's; OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
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
