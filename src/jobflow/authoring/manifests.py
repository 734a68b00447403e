"""Objects of Python as manifests: checked as files are, and written as YAML."""

from __future__ import annotations

import warnings
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import msgspec

from jobflow.api.flow.cronjobflow import CronJobFlowSpec
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.traits import Apart, fields_of
from jobflow.api.resources import CONFIG_MAPS, CRONJOBFLOWS, JOBFLOWS, JOBTEMPLATES, Resource
from jobflow.authoring.encode import Encoder, to_json_name
from jobflow.authoring.objects.faults import (
    Fault,
    FlowWarning,
    InvalidFlow,
    Place,
    caller,
    from_manifest,
    read_source,
    refuse,
    step_path_of,
)
from jobflow.authoring.objects.flows import NamedCron, NamedFlow
from jobflow.authoring.objects.steps import Manifest as Object
from jobflow.authoring.objects.steps import Template
from jobflow.client.manifests import yaml_nodes
from jobflow.client.manifests.check import Report
from jobflow.client.manifests.check import check as check_manifests
from jobflow.client.manifests.flag_values import set_name, set_params
from jobflow.client.manifests.objects import DEFAULT_NAMESPACE, Manifest, Manifests
from jobflow.client.manifests.sources import Source, SourcePlace
from jobflow.client.manifests.write_yaml import yaml_text
from jobflow.client.manifests.yaml_errors import Span
from jobflow.core.suggest import Suggester, did_you_mean
from jobflow.core.violations import Reason, join_path

ObjectData = Mapping[str, Mapping[str, str | bytes]]
"""Text or bytes by key, by the name of the object."""


def to_yaml(*objects: Object, check: bool = True, lenient: bool = False) -> str:
    """Return YAML, templates first. Raises InvalidFlow, unless `check` is false."""
    written = [*_all_written(objects)]
    if check:
        check_objects(objects, lenient=lenient)
    return yaml_text(*(each.data for _, each in written))


def lint(*objects: Object, lenient: bool = False) -> list[Fault]:
    """Return the warnings. Raises InvalidFlow."""
    report = check_objects(objects, lenient=lenient)
    return _warnings(report, objects)


def graph_html(obj: Object) -> str:
    """Return the graph of a flow, or of that of a schedule, as HTML; its faults if it cannot be
    drawn."""
    # a notebook alone asks for it
    from jobflow.core.drawing.flow_graph import CyclicFlowError, nested_graph
    from jobflow.core.drawing.svg import graph_svg

    body = obj.flow if isinstance(obj, NamedCron) else obj
    try:
        svg = graph_svg(nested_graph(msgspec.convert(_written(body).data, JobFlow)))
    except (msgspec.ValidationError, CyclicFlowError) as error:
        try:
            check_objects([obj], lenient=True)
        except InvalidFlow as faults:
            return f"<pre>{escape(str(faults))}</pre>"
        return f"<pre>{escape(str(error))}</pre>"
    return f'<div style="overflow-x:auto">{svg}</div>'


def check_objects(
    objects: Sequence[Object],
    *,
    lenient: bool = False,
    namespace: str = DEFAULT_NAMESPACE,
    name: str | None = None,
    params: Mapping[str, Any] | None = None,
) -> Report:
    """Return the checked manifests of the objects, with warnings. `name` replaces that of the only
    flow. Raises InvalidFlow, also for params that no flow has."""
    sources: dict[str, Source] = {}
    found, manifests = [*_all_written(objects)], list[Manifest]()
    for place, written in found:
        span = _span(place, sources)
        node = _node(written.data, "", span, written.places, sources)
        assert isinstance(node, yaml_nodes.MappingNode) and span.source is not None
        manifests.append(_CodeManifest(span.source, node, default_namespace=namespace))
    problems = [
        Fault(
            written.place_of(path) or place,
            message,
            path,
            Reason.INVALID,
            written.data["kind"],
            step_path=step_path_of(path, written.data),
        )
        for place, written in found
        for path, message in written.problems
    ]
    if params:
        specs = [written.data.get("spec") or {} for _, written in found]
        specs += [each["jobFlowTemplate"]["spec"] for each in specs if "jobFlowTemplate" in each]
        known = [each["name"] for spec in specs for each in spec.get("params") or ()]
        for param in (each for each in params if each not in known):
            guess = did_you_mean(Suggester(known).nearest(param))
            refuse(caller(), f'the flow has no param "{param}"{guess}')
        set_params(param_nodes(params), manifests)
    if name is not None:
        set_name(name, manifests)
    report = check_manifests(Manifests([*sources.values()], manifests), lenient=lenient)
    if problems or report.faults:
        paths = {each.path for each in problems}
        # Values that are no JSON are left out, and then missing; that says nothing more.
        later = [
            each
            for each in (from_manifest(fault, report) for fault in report.faults)
            if each.path not in paths or "Required value" not in each.message
        ]
        faults = [*problems, *_with_uncalled(later, objects)]
        raise InvalidFlow(sorted(faults, key=lambda fault: (fault.place.file, fault.place.line)))
    return report


def data_objects(resource: Resource, named: ObjectData, namespace: str) -> Iterator[Manifest]:
    """Yield Secrets or ConfigMaps as manifests. Raises InvalidFlow for other data than text and
    bytes."""
    place, sources = caller(), dict[str, Source]()
    span = _span(place, sources)
    for name, data in named.items():
        texts, raw = dict[str, str](), dict[str, str]()
        value: Any
        for key, value in data.items():
            if isinstance(value, str):
                texts[key] = value
            elif isinstance(value, bytes):
                raw[key] = b64encode(value).decode()
            else:  # without the value, which may be secret
                what = f"{resource.kind} {name}: the value of {key} must be text or bytes"
                refuse(place, f"{what}, not {type(value).__name__}")
        fields = {"stringData": texts, "data": raw}
        if resource is CONFIG_MAPS:
            fields = {"data": texts, "binaryData": raw}
        meta = {"name": name, "namespace": namespace}
        node = _node({**resource.type_meta, "metadata": meta, **fields}, "", span, {}, sources)
        assert isinstance(node, yaml_nodes.MappingNode) and span.source is not None
        yield _CodeManifest(span.source, node)


def param_nodes(params: Mapping[str, Any]) -> dict[str, yaml_nodes.Node]:
    return {name: _node(each, "", Span(0, 0), {}, {}) for name, each in params.items()}


def _with_uncalled(faults: Sequence[Fault], objects: Iterable[Object]) -> list[Fault]:
    """Return the faults; that a flow has no step is replaced by its tasks that are not called."""
    found = [*faults]
    for each in objects:
        body = each.flow if isinstance(each, NamedCron) else each
        uncalled = [*_uncalled([each])]
        if uncalled and isinstance(body, NamedFlow) and not body._steps:
            empty = (Reason.REQUIRED, each.name)
            found = [
                fault
                for fault in found
                if (fault.reason, fault.name) != empty or not fault.path.endswith("spec.flows")
            ]
            found += uncalled
    return found


def _uncalled(objects: Iterable[Object]) -> Iterator[Fault]:
    """Yield a warning for each task that no step runs."""
    for body in (each.flow if isinstance(each, NamedCron) else each for each in objects):
        for task in body._functions if isinstance(body, NamedFlow) else ():
            if not task._is_called:
                name = task.function.__name__
                yield Fault(task._place, f"{name} is never called, so no step runs it: {name}(...)")


def show_warnings(report: Report, objects: Iterable[Object]) -> None:
    """Give Python's warnings for those of a report, at the lines that they are about."""
    for fault in _warnings(report, objects):
        message = FlowWarning(fault.sentence)
        warnings.warn_explicit(message, None, fault.place.file, fault.line)


def _warnings(report: Report, objects: Iterable[Object]) -> list[Fault]:
    return [*(from_manifest(each, report) for each in report.warnings), *_uncalled(objects)]


def _all_written(objects: Iterable[Object]) -> Iterator[tuple[Place, Encoder]]:
    """Yield each object once, the templates of all flows first."""
    templates = {id(each): each for each in objects if isinstance(each, Template)}
    others = [(each._place, _written(each)) for each in objects if not isinstance(each, Template)]
    for _, encoder in others:
        templates |= encoder.templates
    # First, because a flow that is created before its templates waits for them.
    for template in templates.values():
        yield template._place, _written(template)
    yield from others


def _written(obj: Object) -> Encoder:
    encoder = Encoder()
    if isinstance(obj, Template):
        encoder.data = _object(JOBTEMPLATES, obj, encoder.value(obj.spec, "spec"))
    elif isinstance(obj, NamedCron):
        fields = {each.name: each for each in fields_of(CronJobFlowSpec) if each.get(Apart) is None}
        spec: dict[str, Any] = {"schedule": obj.schedule}
        for name, (value, place) in obj._values.items():
            path = f"spec.{to_json_name(name)}"
            encoder.places[path] = place
            if name in fields:
                spec[to_json_name(name)] = value
            else:
                encoder.unknown(path, name, fields)
        metadata = obj.flow._metadata
        # Name and namespace are those of the schedule.
        kept = {key: dict(metadata[key]) for key in ("labels", "annotations") if key in metadata}
        flow = encoder.spec(obj.flow, "spec.jobFlowTemplate.spec")
        spec["jobFlowTemplate"] = ({"metadata": kept} if kept else {}) | {"spec": flow}
        encoder.data = _object(CRONJOBFLOWS, obj, spec)
    else:
        assert isinstance(obj, NamedFlow)
        encoder.data = _object(JOBFLOWS, obj, encoder.spec(obj, "spec"))
    return encoder


def _object(resource: Resource, obj: Object, spec: Any) -> dict[str, Any]:
    named = {"name": obj.name} if obj.name else {}
    metadata = named | {
        key: dict(value) if isinstance(value, Mapping) else value
        for key, value in obj._metadata.items()
    }
    return {**resource.type_meta, "metadata": metadata, "spec": spec}


@dataclass(frozen=True, slots=True)
class _CodeSpan(Span):
    source: Source | None = None


@dataclass(frozen=True, eq=False)
class _CodeManifest(Manifest):
    """An object whose parts may come from several files."""

    def _place(self, span: Span) -> SourcePlace:
        source = span.source if isinstance(span, _CodeSpan) else None
        return SourcePlace(source or self.source, span.line, span.column, span.width)


def _span(place: Place, sources: dict[str, Source]) -> _CodeSpan:
    if place.file not in sources:
        sources[place.file] = Source(place.file, read_source(place.file))
    return _CodeSpan(place.line, place.column, place.width, sources[place.file])


def _node(
    value: Any, path: str, span: Span, places: Mapping[str, Place], sources: dict[str, Source]
) -> yaml_nodes.Node:
    """Return JSON as nodes, each at the place of its path or of the nearest path above it."""
    if (place := places.get(path)) is not None:
        span = _span(place, sources)
    if isinstance(value, Mapping):
        entries = {}
        for key, each in value.items():
            node = _node(each, join_path(path, key) if path else key, span, places, sources)
            entries[key] = yaml_nodes.MappingEntry(node.span, node)
        return yaml_nodes.MappingNode(span, entries=entries)
    if isinstance(value, list | tuple):
        items = [_node(each, f"{path}[{i}]", span, places, sources) for i, each in enumerate(value)]
        return yaml_nodes.ListNode(span, items=items)
    return yaml_nodes.ScalarNode(span, value)
