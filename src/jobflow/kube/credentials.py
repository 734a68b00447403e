"""Address and credentials of the API server, from a kubeconfig or from a pod's service account, by
the reader of kubernetes_asyncio without the rest of it, which takes 36 MB and a fifth of a second
(docs/decisions/requests.md)."""

import asyncio
import importlib
import importlib.util
import ipaddress
import logging
import os
import ssl
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

import yaml

from jobflow.core.suggest import Suggester, did_you_mean
from jobflow.core.text import join_names

log = logging.getLogger(__name__)

REREAD_SECONDS = 60.0
"""Maximum age of what was read from token files and credential plugins. A kubelet renews a service
account's token long before it expires, so a minute is often enough (client-go does the same)."""
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Folder where a kubelet puts a pod's token, the API server's CA and the namespace's name."""
SANDBOX_KUBECONFIG = ".jobflow/kubeconfig"
"""Where `jobflow sandbox` writes its kubeconfig, until its end."""


class ConfigError(ValueError):
    """The kubeconfig or the pod's service account cannot be used; the text says why."""


@dataclass(frozen=True, slots=True)
class Login:
    server: str
    authorization: str | None = None
    tls: ssl.SSLContext | None = None
    tls_name: str | None = None
    """The name in the server's certificate, if it is not the URL's host."""
    proxy: str | None = None
    namespace: str = "default"
    impersonate: str | None = None
    """The user to act as, which the login's own user needs the right to do (`--as`)."""


class Credentials:
    """A login that is kept up to date: token files are read again, expired tokens renewed."""

    def __init__(
        self,
        login: Login,
        *,
        reread: Callable[[], Awaitable[Login]] | None = None,
        renew: Callable[[], Awaitable[Login]] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._login = login
        self._reread = reread
        self._renew = renew
        self._clock = clock
        self._read_at = clock()
        self._lock = asyncio.Lock()

    async def login(self) -> Login:
        """Return the login for the next request; it is read again if it is old enough."""
        if self._reread is not None and self._clock() - self._read_at >= REREAD_SECONDS:
            async with self._lock:
                # another request may have read it while this one waited
                if self._clock() - self._read_at >= REREAD_SECONDS:
                    await self._replace(self._reread)
        return self._login

    async def renewed(self, refused: Login) -> Login | None:
        """Return another login after the server refused this one (401); None if there is none."""
        async with self._lock:
            # many requests are refused at once, and one renewal serves them all
            if self._login == refused and self._renew is not None:
                await self._replace(self._renew)
        return None if self._login == refused else self._login

    async def _replace(self, read: Callable[[], Awaitable[Login]]) -> None:
        try:
            self._login = await read()
        except ConfigError as error:
            log.warning(
                "credentials could not be renewed, keeping the old ones",
                extra={"error": str(error)},
            )
        # also after an error: a broken plugin is not run for every request
        self._read_at = self._clock()


def is_loopback(server: str) -> bool:
    """Return whether the server is on this machine. No proxy is used for such a server."""
    host = urlsplit(server).hostname or ""
    try:
        # a proxy would look for the server on its own machine
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


async def find(
    path: str | None, *, context: str | None = None, impersonate: str | None = None
) -> Credentials:
    """Return credentials from this kubeconfig. None: from KUBECONFIG, the user's file or, in a pod,
    its service account. `context` is one of the kubeconfig's instead of the current one. Raises
    ConfigError."""
    candidate = path or os.environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")
    if path or context or _any_exists(candidate):
        return await _from_kubeconfig(candidate, context, impersonate)
    if "KUBERNETES_SERVICE_HOST" not in os.environ or impersonate is not None:
        missing = f"no kubeconfig at {candidate} and not inside a pod"
        sandbox = ""
        if _any_exists(SANDBOX_KUBECONFIG):
            export = f"`export KUBECONFIG={SANDBOX_KUBECONFIG}`"
            sandbox = f"; {export} uses the sandbox that was started in this folder"
        raise ConfigError(f"{missing}: pass --kubeconfig or set KUBECONFIG{sandbox}")
    config = import_config()

    async def read() -> Login:
        configuration = config.kube_config.Configuration()
        try:
            config.load_incluster_config(
                configuration,
                try_refresh_token=False,
                token_filename=str(SERVICE_ACCOUNT / "token"),
                cert_filename=str(SERVICE_ACCOUNT / "ca.crt"),
            )
            file = SERVICE_ACCOUNT / "namespace"
            return _login(configuration, file.read_text().strip() if file.is_file() else None)
        except (config.ConfigException, OSError) as error:
            raise ConfigError(f"service account of this pod: {error}") from error

    return Credentials(await read(), reread=read, renew=read)


def _any_exists(kubeconfig: str) -> bool:
    return any(Path(part).expanduser().is_file() for part in kubeconfig.split(os.pathsep))


async def _from_kubeconfig(path: str, context: str | None, impersonate: str | None) -> Credentials:
    config = import_config()
    loader: Any = None

    async def renew() -> Login:
        """Read everything again, and run a credential plugin even if its token is still valid."""
        nonlocal loader
        if not _any_exists(path):
            raise ConfigError(f"kubeconfig {path}: no such file")
        if context is not None:
            _check_context(path, context)
        configuration = config.kube_config.Configuration()
        try:
            loader = await config.load_kube_config(
                path, context=context, client_configuration=configuration
            )
            return login_of(configuration)
        except (config.ConfigException, OSError, yaml.YAMLError, ssl.SSLError) as error:
            why = str(error)
            if isinstance(error, FileNotFoundError) and error.filename:
                why = f"the credential plugin or file {error.filename} does not exist: install it"
            elif why.startswith("exec: "):
                end = why.removeprefix("exec: ").replace("process returned", "exit code", 1)
                why = f"its credential plugin gives no login ({end}); log in again, then retry"
            raise ConfigError(f"kubeconfig {path}: {why}") from error
        except (AssertionError, AttributeError, KeyError, TypeError, ValueError) as error:
            raise ConfigError(f"kubeconfig {path}: not a kubeconfig") from error

    async def reread() -> Login:
        """Read token files again, and run a plugin only if its token is about to expire."""
        configuration = config.kube_config.Configuration()
        try:
            await loader.load_and_set(configuration)
        except (config.ConfigException, OSError, ssl.SSLError) as error:
            raise ConfigError(f"kubeconfig {path}: {error}") from error
        return login_of(configuration)

    def login_of(configuration: Any) -> Login:
        # kubernetes_asyncio reads everything of a context but its namespace
        namespace = loader.current_context["context"].get("namespace")
        return replace(_login(configuration, namespace), impersonate=impersonate)

    login = await renew()
    user = loader._user or {}
    changes = "tokenFile" in user or "auth-provider" in user
    if "exec" in user:
        # a plugin whose token has no expiry runs again only after a 401 (client-go's rule)
        changes = hasattr(loader, "exec_plugin_expiry")
    return Credentials(login, reread=reread if changes else None, renew=renew)


def _check_context(path: str, context: str) -> None:
    """Raise ConfigError, with the nearest name, if the files have no such context."""
    known: list[str] = []
    for part in path.split(os.pathsep):
        try:
            content = yaml.safe_load(Path(part).expanduser().read_text())
            known += [str(entry["name"]) for entry in content["contexts"]]
        except (OSError, UnicodeDecodeError, yaml.YAMLError, KeyError, TypeError):
            continue
    if known and context not in known:
        guess = did_you_mean(Suggester(known).nearest(context))
        raise ConfigError(
            f'kubeconfig {path} has no context "{context}", only {join_names(known)}{guess}'
        )


_contexts: dict[tuple[object, ...], ssl.SSLContext] = {}


def _login(configuration: Any, namespace: str | None) -> Login:
    server: str = configuration.host
    token = configuration.api_key.get("BearerToken")
    tls = None
    if server.startswith("https"):
        files = [getattr(configuration, name) for name in ("ssl_ca_cert", "cert_file", "key_file")]
        verify: bool = getattr(configuration, "verify_ssl", True)
        key = (verify, *(Path(f).read_bytes() if f else None for f in files))
        # one context for the same content of files, so that open connections are kept
        if (tls := _contexts.get(key)) is None:
            authority, certificate, private_key = files
            tls = ssl.create_default_context(cafile=authority)
            if certificate:
                tls.load_cert_chain(certificate, keyfile=private_key)
            if not verify:
                tls.check_hostname = False
                tls.verify_mode = ssl.CERT_NONE
            # the content of files that have changed is not used again
            _contexts.clear()
            _contexts[key] = tls
    return Login(
        server=server.rstrip("/"),
        authorization=token.strip() if token else None,
        tls=tls,
        tls_name=configuration.tls_server_name,
        proxy=configuration.proxy,
        namespace=namespace or "default",
    )


_ROOT = "kubernetes_asyncio"
_CLIENT = f"{_ROOT}.client"
_OPENID = f"{_ROOT}.config.openid"


class Configuration:
    """The attributes that the reader sets. kubernetes_asyncio's Configuration imports urllib3."""

    def __init__(self) -> None:
        self.host = "http://localhost"
        self.api_key: dict[str, str] = {}
        self.ssl_ca_cert: str | None = None
        self.cert_file: str | None = None
        self.key_file: str | None = None
        self.verify_ssl = True
        self.tls_server_name: str | None = None
        self.proxy: str | None = None


@cache
def import_config() -> Any:
    """Return the module kubernetes_asyncio.config. While it is imported, empty packages stand in
    for kubernetes_asyncio and its client, and a module for its login by OpenID, which imports
    aiohttp. All are removed afterwards, so that a later `import kubernetes_asyncio` gets all of
    it."""
    # somebody has imported all of it, which must stay whole
    if _ROOT in sys.modules:
        return importlib.import_module(f"{_ROOT}.config")
    spec = importlib.util.find_spec(_ROOT)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"No module named {_ROOT!r}", name=_ROOT)
    folder = Path(spec.origin).parent
    client: Any = _package(_CLIENT, folder / "client")
    client.Configuration = Configuration
    client.ApiClient = None  # only new_client_from_config calls it
    openid: Any = ModuleType(_OPENID)
    openid.OpenIDRequestor = lambda *args, **options: importlib.import_module(
        _OPENID
    ).OpenIDRequestor(*args, **options)
    sys.modules.update({_ROOT: _package(_ROOT, folder), _CLIENT: client, _OPENID: openid})
    try:
        return importlib.import_module(f"{_ROOT}.config")
    finally:
        for name in [each for each in sys.modules if each.partition(".")[0] == _ROOT]:
            del sys.modules[name]


def _package(name: str, folder: Path) -> ModuleType:
    package = ModuleType(name)
    package.__path__ = [str(folder)]
    return package
