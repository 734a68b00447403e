"""The reader of kubeconfigs in kubernetes_asyncio, imported without the rest of it.

That package imports all of its parts: 36 MB and a fifth of a second for a thousand model classes
that JobFlow never uses (docs/decisions/requests.md).
"""

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

_ROOT, _CLIENT = "kubernetes_asyncio", "kubernetes_asyncio.client"


def import_config() -> Any:
    """Return the module kubernetes_asyncio.config.

    While it is imported, empty packages stand in for kubernetes_asyncio and its client, from which
    it needs two names. They are removed afterwards: a later `import kubernetes_asyncio` gets all of
    it, with the same Configuration.
    """
    if _ROOT in sys.modules:
        return importlib.import_module(f"{_ROOT}.config")
    spec = importlib.util.find_spec(_ROOT)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"No module named {_ROOT!r}", name=_ROOT)
    folder = Path(spec.origin).parent
    stand_ins = {_ROOT: _package(_ROOT, folder), _CLIENT: _package(_CLIENT, folder / "client")}
    sys.modules.update(stand_ins)
    try:
        client: Any = stand_ins[_CLIENT]
        client.Configuration = importlib.import_module(f"{_CLIENT}.configuration").Configuration
        client.ApiClient = None  # only new_client_from_config calls it
        return importlib.import_module(f"{_ROOT}.config")
    finally:
        for name in stand_ins:
            del sys.modules[name]


def _package(name: str, folder: Path) -> ModuleType:
    package = ModuleType(name)
    package.__path__ = [str(folder)]
    return package
