"""The reader of kubeconfigs in kubernetes_asyncio, imported without the rest of it.

That package imports all of its parts: 36 MB and a fifth of a second for a thousand model classes
that JobFlow never uses (docs/decisions/requests.md).
"""

import importlib
import importlib.util
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

_ROOT = "kubernetes_asyncio"
_CLIENT = f"{_ROOT}.client"
_OPENID = f"{_ROOT}.config.openid"


class Configuration:
    """The attributes that the reader sets. The Configuration of kubernetes_asyncio has them too,
    and imports urllib3."""

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
    """Return the module kubernetes_asyncio.config.

    While it is imported, empty packages stand in for kubernetes_asyncio and its client, from which
    it needs two names, and a module for its login by OpenID, which imports aiohttp. All are removed
    afterwards, so that a later `import kubernetes_asyncio` gets all of it.
    """
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
    openid.OpenIDRequestor = _open_id_requestor
    sys.modules.update({_ROOT: _package(_ROOT, folder), _CLIENT: client, _OPENID: openid})
    try:
        return importlib.import_module(f"{_ROOT}.config")
    finally:
        for name in [each for each in sys.modules if each.partition(".")[0] == _ROOT]:
            del sys.modules[name]


def _open_id_requestor(*args: Any, **options: Any) -> Any:
    return importlib.import_module(_OPENID).OpenIDRequestor(*args, **options)


def _package(name: str, folder: Path) -> ModuleType:
    package = ModuleType(name)
    package.__path__ = [str(folder)]
    return package
