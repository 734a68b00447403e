"""CronJobFlows that a command names: `cjf/nightly`, or `nightly` where only they can be meant."""

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from jobflow.api.flow.cronjobflow import CronJobFlow
from jobflow.api.resources import CRONJOBFLOWS, FLOW_GROUP
from jobflow.client.errors import FAILED, UNUSABLE, CommandError
from jobflow.client.flows.find_flow import guess_name, list_selected
from jobflow.client.options import Selection
from jobflow.core.admission.object_names import all_names
from jobflow.kube.client import ApiError, Client, UnreadableAnswer, decoder

KINDS = frozenset({"cjf", "cronjobflow", "cronjobflows"})
CRON_PREFIXES = KINDS | {f"{name}.{FLOW_GROUP}" for name in ("cronjobflow", "cronjobflows")}
_NOT_INSTALLED = "this cluster has no CronJobFlows: install them with `jobflow crds --apply`"


@dataclass(frozen=True, slots=True)
class FoundCron:
    """A CronJobFlow, and its JSON as the API server has it."""

    cron: CronJobFlow
    raw: bytes | msgspec.Raw


def split_names(names: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the names of flows as they are, and those of CronJobFlows without `cjf/`."""
    flows: list[str] = []
    crons: dict[str, None] = {}
    for name in names:
        prefix, slash, rest = name.rpartition("/")
        if slash and prefix in CRON_PREFIXES:
            # a dict keeps the order and takes each name once
            crons[rest] = None
        else:
            flows.append(name)
    return flows, [*crons]


def means_crons(names: Iterable[str]) -> bool:
    """Whether a name is `cjf`, for all CronJobFlows, or `cjf/NAME`."""
    return any(name in KINDS or name.rpartition("/")[0] in CRON_PREFIXES for name in names)


async def find_cron(client: Client, name: str) -> FoundCron:
    """Return a CronJobFlow of the client's namespace. Raises CommandError."""
    prefix, slash, bare = name.rpartition("/")
    # `jf/nightly` names another kind
    if slash and prefix not in CRON_PREFIXES:
        raise CommandError(UNUSABLE, f'"{name}" is not a CronJobFlow: write {bare} or cjf/{bare}')
    namespace = client.namespace
    missing = f'CronJobFlow "{bare}" does not exist in namespace "{namespace}"'
    if not all_names([bare, namespace]):
        raise CommandError(UNUSABLE, missing)
    try:
        return _found(await client.request("GET", CRONJOBFLOWS.path(namespace, bare)))
    except ApiError as error:
        raise_unless_missing(error)
    raise CommandError(UNUSABLE, missing + await guess_name(client, CRONJOBFLOWS, bare))


async def list_crons(client: Client, selection: Selection) -> list[FoundCron]:
    """Return the selected CronJobFlows. Raises CommandError."""
    try:
        return [*map(_found, await list_selected(client, CRONJOBFLOWS, selection))]
    except ApiError as error:
        raise_unless_missing(error)
        return []


def raise_unless_missing(error: ApiError) -> None:
    """Raise the CommandError for an error about CronJobFlows, unless an object is missing."""
    details = error.status.details
    if error.not_found and not (details and details.name):
        raise CommandError(UNUSABLE, _NOT_INSTALLED) from None
    if not error.not_found:
        raise CommandError(FAILED, error.message) from None


def _found(raw: bytes | msgspec.Raw) -> FoundCron:
    try:
        return FoundCron(decoder(CronJobFlow).decode(raw), raw)
    except UnreadableAnswer as error:
        raise CommandError(FAILED, error.message) from None
