"""Flows that a command gets as FILE or as FLOW of a cluster, with their templates."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from jobflow.api.flow.jobflow import JobFlow, JobTemplate
from jobflow.api.resources import JOBTEMPLATES
from jobflow.client.errors import UNUSABLE, CommandError
from jobflow.client.flows.children import read_children
from jobflow.client.flows.find_flow import connect, find_flow, raise_unless_missing, unique_names
from jobflow.client.manifests.check import add_flows_of_crons, check_files
from jobflow.client.manifests.objects import Manifest
from jobflow.client.manifests.sources import SUFFIXES
from jobflow.client.options import Connection, FileOptions, ParamValues
from jobflow.client.verbs.reuse import read_reused
from jobflow.display.console import make_console
from jobflow.display.report import print_report, print_warnings
from jobflow.kube.answers import ItemList
from jobflow.kube.client import ApiError

T = TypeVar("T", JobFlow, JobTemplate)


@dataclass(slots=True)
class FoundFlows:
    """Flows and the templates of their namespaces."""

    flows: list[JobFlow] = field(default_factory=list)
    children: Mapping[str, JobFlow] = field(default_factory=dict)
    """Their child flows in the cluster, by name, if they were asked for."""
    templates: list[JobTemplate] = field(default_factory=list)
    sources: Mapping[str, JobFlow] = field(default_factory=dict)
    """The flows of the cluster that they reuse, and the child flows of these, by name, if they were
    asked for."""


def is_file(name: str) -> bool:
    """Whether an argument names a file or folder and not a flow."""
    return (
        name == "-"
        or name.endswith(SUFFIXES)
        # a folder may have the name of a flow; its prefix tells them apart
        or (not name.startswith(("jf/", "jobflow")) and Path(name).exists())
    )


async def flows_of(
    names: Sequence[str],
    connection: Connection,
    params: ParamValues | None = None,
    *,
    children: bool = False,
    sources: bool = False,
) -> FoundFlows:
    """Return the flows that FILEs contain and the flows of the cluster. Raises CommandError if one
    does not exist or has a fault, after it has printed the faults."""
    found = FoundFlows()
    if files := [name for name in names if is_file(name)]:
        values = (params.param, params.param_file) if params is not None else ()
        report = check_files(FileOptions(files, *values))
        errors = make_console(stderr=True)
        if report.faults:
            print_report(report, errors)
            raise CommandError(UNUSABLE, "")  # the report has said all
        print_warnings(report, errors)
        add_flows_of_crons(report)  # a schedule is drawn or planned by one flow of it
        if not report.flows:
            raise CommandError(UNUSABLE, "the files contain no JobFlow")
        found.flows += [_decoded(each, JobFlow) for each in report.flows]
        found.templates += [_decoded(each, JobTemplate) for each in report.templates]
    if flows := [name for name in names if not is_file(name)]:
        async with await connect(connection) as client:
            found.flows += [await find_flow(client, name) for name in unique_names(flows)]
            pages = client.list(JOBTEMPLATES, ItemList[JobTemplate], namespace=client.namespace)
            try:
                async for page in pages:
                    found.templates += page.items or ()
            except ApiError as error:  # a cluster without the kind has no templates
                raise_unless_missing(error)
            if sources:
                found.sources = await read_reused(client, found.flows)
            if children:
                found.children = await read_children(client, found.flows)
    return found


def _decoded(manifest: Manifest, kind: type[T]) -> T:
    decoded = msgspec.convert(manifest.data, kind)
    metadata = replace(decoded.metadata, namespace=manifest.namespace)
    return replace(decoded, metadata=metadata)
