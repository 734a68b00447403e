"""Flows that a command gets as FILE or as FLOW of a cluster, with their templates."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from jobflow.api.flow.jobflow import JobFlow, JobTemplate
from jobflow.api.resources import JOBFLOWS, JOBTEMPLATES
from jobflow.client.errors import UNUSABLE, CommandError
from jobflow.client.flows.children import read_children
from jobflow.client.flows.find_flow import (
    connect,
    raise_unless_missing,
    read_flow,
    to_flow,
    unique_names,
)
from jobflow.client.manifests.check import add_flows_of_crons, check_files
from jobflow.client.manifests.flag_values import read_params
from jobflow.client.manifests.objects import Manifest
from jobflow.client.manifests.sources import SUFFIXES
from jobflow.client.manifests.yaml_nodes import Node
from jobflow.client.options import Connection, FileOptions, ParamValues
from jobflow.client.verbs.copy import check_flows
from jobflow.client.verbs.reuse import read_reused
from jobflow.display.console import make_console
from jobflow.display.report import print_report, print_warnings, print_without_file
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
    found, errors = FoundFlows(), make_console(stderr=True)
    if files := [name for name in names if is_file(name)]:
        values = (params.param, params.param_file) if params is not None else ()
        report = check_files(FileOptions(files, *values))
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
            raws = [await read_flow(client, name) for name in unique_names(flows)]
            stored = [*map(to_flow, raws)]
            given = read_params(params) if params is not None else {}
            if files:  # which have such params, or they would have been refused
                known = {each.name for flow in stored for each in flow.spec.params or ()}
                given = {name: value for name, value in given.items() if name in known}
            found.flows += _with_params(stored, raws, given) if given else stored
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


def _with_params(
    flows: Sequence[JobFlow], raws: Sequence[bytes], values: Mapping[str, Node]
) -> Iterator[JobFlow]:
    """Yield stored flows with values of params. Raises CommandError after it has printed faults."""
    bodies = [
        {
            **JOBFLOWS.type_meta,
            "metadata": {"name": flow.metadata.name, "namespace": flow.metadata.namespace},
            "spec": json.loads(raw).get("spec", {}),
        }
        for flow, raw in zip(flows, raws, strict=True)
    ]
    report = check_flows(bodies, values, [flow.metadata.name for flow in flows])
    print_without_file(report)
    if report.faults:
        raise CommandError(UNUSABLE, "")  # they have said all
    for flow, manifest in zip(flows, report.flows, strict=True):
        yield replace(flow, spec=_decoded(manifest, JobFlow).spec)


def _decoded(manifest: Manifest, kind: type[T]) -> T:
    decoded = msgspec.convert(manifest.data, kind)
    metadata = replace(decoded.metadata, namespace=manifest.namespace)
    return replace(decoded, metadata=metadata)
