"""Finds the flow that a command is about on a cluster, or says why it cannot. It only reads."""

from __future__ import annotations

import logging
from collections.abc import Coroutine
from typing import Any

from jobflow.api.jobflow import JobFlow
from jobflow.api.meta import ListMeta, Object, Struct
from jobflow.api.resources import JOBFLOWS
from jobflow.cli.exit_codes import FAULTY, UNUSABLE, complain
from jobflow.core.admission.object_names import all_names
from jobflow.core.suggest import Suggester, did_you_mean
from jobflow.kube.client import NETWORK_ERRORS, ApiError, Client
from jobflow.kube.credentials import ConfigError
from jobflow.kube.reflector import METADATA_ONLY
from jobflow.runtime import logs


class Stopped(Exception):
    """It ends here; `code` is the exit code, the text the reason."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class _Objects(Struct, frozen=True, kw_only=True):
    metadata: ListMeta = ListMeta()
    items: list[Object] = []


def ended(command: str, work: Coroutine[Any, Any, int]) -> int:
    """Run a command's work to its exit code; what stops it is told in a sentence."""
    from jobflow.runtime.event_loop import run

    logs.configure(level=logging.CRITICAL)
    try:
        return run(work)
    except Stopped as stopped:
        complain(command, str(stopped))
        return stopped.code
    except ConfigError as error:
        complain(command, str(error))
    except NETWORK_ERRORS as error:
        complain(command, f"the API server does not answer: {str(error) or type(error).__name__}")
    return UNUSABLE


async def found_flow(client: Client, namespace: str, name: str) -> JobFlow:
    """The flow as it is now. Raises Stopped."""
    missing = f'there is no JobFlow "{name}" in the namespace "{namespace}"'
    if not all_names([name, namespace]):
        raise Stopped(UNUSABLE, missing)
    try:
        return await client.get(JOBFLOWS, namespace, name, JobFlow)
    except ApiError as error:
        details = error.status.details
        if error.not_found and not (details and details.name):
            raise Stopped(UNUSABLE, "this cluster serves no JobFlows: see `jobflow crds`") from None
        if not error.not_found:
            raise Stopped(FAULTY, error.message) from None
    raise Stopped(UNUSABLE, missing + did_you_mean(await _nearest(client, namespace, name)))


async def _nearest(client: Client, namespace: str, name: str) -> str | None:
    """The flow that may be meant, of the first that the server lists."""
    pages = client.list(JOBFLOWS, _Objects, namespace=namespace, accept=METADATA_ONLY)
    try:
        async for page in pages:
            return Suggester([item.metadata.name for item in page.items]).nearest(name)
    except ApiError:  # whoever may not list gets no guess
        pass
    finally:
        await pages.aclose()
    return None
