"""Flows that a command gets as FILE or as FLOW of a cluster, with their templates."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from jobflow.api.flow.jobflow import JobFlow, JobTemplate
from jobflow.api.resources import JOBTEMPLATES, ListMeta, Struct
from jobflow.client.errors import UNUSABLE, CommandError
from jobflow.client.flows.children import read_children
from jobflow.client.flows.find_flow import connect, find_flow, raise_unless_missing, unique_names
from jobflow.client.manifests.check import add_flows_of_crons, check_files
from jobflow.client.options import Connection, FileOptions
from jobflow.display.console import make_console
from jobflow.display.report import print_report, print_warnings
from jobflow.kube.client import ApiError, Client

_SUFFIXES = (".yaml", ".yml", ".json")


class _Templates(Struct, frozen=True, kw_only=True):
    metadata: ListMeta = ListMeta()
    items: list[JobTemplate] = []


@dataclass(slots=True)
class FoundFlows:
    """Flows and the templates of their namespaces."""

    flows: list[JobFlow] = field(default_factory=list)
    children: Mapping[str, JobFlow] = field(default_factory=dict)
    """Their child flows in the cluster, by name, if they were asked for."""
    templates: list[JobTemplate] = field(default_factory=list)


def is_file(name: str) -> bool:
    """Whether an argument names a file or folder and not a flow."""
    return (
        name == "-"
        or name.endswith(_SUFFIXES)
        or (not name.startswith(("jf/", "jobflow")) and Path(name).exists())
    )


async def flows_of(
    names: Sequence[str],
    connection: Connection,
    param: Sequence[str] = (),
    *,
    children: bool = False,
) -> FoundFlows:
    """Return the flows that FILEs contain and the flows of the cluster. Raises CommandError if one
    does not exist or has a fault; the faults are printed."""
    found = FoundFlows()
    files = [name for name in names if is_file(name)]
    if files:
        _read_files(files, param, found)
    flows = [name for name in names if not is_file(name)]
    if flows:
        async with await connect(connection) as client:
            found.flows += [await find_flow(client, name) for name in unique_names(flows)]
            found.templates += await _list_templates(client)
            if children:
                found.children = await read_children(client, found.flows)
    return found


def _read_files(files: Sequence[str], param: Sequence[str], found: FoundFlows) -> None:
    report = check_files(FileOptions([*files], [*param]))
    errors = make_console(stderr=True)
    if report.faults:
        print_report(report, errors)
        raise CommandError(UNUSABLE, "")  # all is printed
    print_warnings(report, errors)
    add_flows_of_crons(report)
    if not report.flows:
        raise CommandError(UNUSABLE, "the files contain no JobFlow")
    for manifest in report.flows:
        flow = msgspec.convert(manifest.data, JobFlow)
        found.flows.append(_with_namespace(flow, manifest.namespace))
    for manifest in report.templates:
        template = msgspec.convert(manifest.data, JobTemplate)
        metadata = msgspec.structs.replace(template.metadata, namespace=manifest.namespace)
        found.templates.append(msgspec.structs.replace(template, metadata=metadata))


def _with_namespace(flow: JobFlow, namespace: str) -> JobFlow:
    metadata = msgspec.structs.replace(flow.metadata, namespace=namespace)
    return msgspec.structs.replace(flow, metadata=metadata)


async def _list_templates(client: Client) -> list[JobTemplate]:
    found: list[JobTemplate] = []
    try:
        async for page in client.list(JOBTEMPLATES, _Templates, namespace=client.namespace):
            found += page.items
    except ApiError as error:
        raise_unless_missing(error)
    return found


def write(text: str) -> None:
    """Write text to stdout as it is."""
    sys.stdout.write(text)
