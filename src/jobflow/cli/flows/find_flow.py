"""The JobFlow that a command names, read from the cluster, and the errors that prevent it."""

from __future__ import annotations

import logging
from collections.abc import Coroutine
from typing import Any

from jobflow.api.jobflow import JobFlow
from jobflow.api.meta import ListMeta, Object, Struct
from jobflow.api.resources import JOBFLOWS
from jobflow.cli.errors import FAILED, UNUSABLE, CommandError, print_error, unreachable
from jobflow.core.admission.object_names import all_names
from jobflow.core.suggest import Suggester, did_you_mean
from jobflow.kube.client import NETWORK_ERRORS, ApiError, Client
from jobflow.kube.credentials import ConfigError
from jobflow.kube.reflector import METADATA_ONLY
from jobflow.runtime import logs


class _Objects(Struct, frozen=True, kw_only=True):
    metadata: ListMeta = ListMeta()
    items: list[Object] = []


def run_command(work: Coroutine[Any, Any, int]) -> int:
    """Run a command to its exit code; print the error that ends it."""
    from jobflow.runtime.event_loop import run

    logs.configure(level=logging.CRITICAL)
    try:
        return run(work)
    except CommandError as error:
        print_error(error)
        return error.code
    except ConfigError as error:
        print_error(error)
    except NETWORK_ERRORS as error:
        print_error(unreachable(error))
    return UNUSABLE


async def find_flow(client: Client, namespace: str, name: str) -> JobFlow:
    """Return the flow. Raises CommandError, with the nearest name if it does not exist."""
    missing = f'JobFlow "{name}" does not exist in namespace "{namespace}"'
    if not all_names([name, namespace]):
        raise CommandError(UNUSABLE, missing)
    try:
        return await client.get(JOBFLOWS, namespace, name, JobFlow)
    except ApiError as error:
        details = error.status.details
        if error.not_found and not (details and details.name):
            install = "this cluster has no JobFlows: install them with `jobflow crds --apply`"
            raise CommandError(UNUSABLE, install) from None
        if not error.not_found:
            raise CommandError(FAILED, error.message) from None
    raise CommandError(UNUSABLE, missing + did_you_mean(await _nearest(client, namespace, name)))


async def _nearest(client: Client, namespace: str, name: str) -> str | None:
    """Return the most similar name on the first page of flows, if they can be listed."""
    pages = client.list(JOBFLOWS, _Objects, namespace=namespace, accept=METADATA_ONLY)
    try:
        async for page in pages:
            return Suggester([item.metadata.name for item in page.items]).nearest(name)
    except ApiError:  # a guess is optional: many users may read a flow but not list them
        pass
    finally:
        await pages.aclose()
    return None
