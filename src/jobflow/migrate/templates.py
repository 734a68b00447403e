"""Templates by name, and how their tasks use outputs and inputs, which decides how these are
converted."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from jobflow.client.manifests.yaml_nodes import ListNode, MappingNode, Node
from jobflow.migrate.fields import Field

CLUSTER = "ClusterWorkflowTemplate"


@dataclass(slots=True)
class Library:
    """The templates that the tasks of a workflow can name."""

    spec: Field
    """The spec that has them."""
    templates: dict[str, Field] = field(default_factory=dict)
    others: Mapping[tuple[str, bool], Library] = field(default_factory=dict)
    """The WorkflowTemplates by name and whether they are of the cluster."""
    used: set[str] = field(default_factory=set)

    def find(self, name: str) -> Called | None:
        """Return a template that something calls, or None if there is none."""
        template = self.templates.get(name)
        if template is None:
            return None
        self.used.add(name)
        return Called(name, template, self)


class Called(NamedTuple):
    """A template, and the library in which its own tasks are looked up."""

    name: str
    template: Field
    library: Library


def is_flow(template: Field) -> bool:
    """Whether a template has tasks of its own, and becomes a flow."""
    return template.first("dag", "steps") is not None


def library_of(spec: Field, others: Mapping[tuple[str, bool], Library]) -> Library:
    """Return the templates of a spec, with the values of `templateDefaults`."""
    defaults, found = spec.get("templateDefaults"), Library(spec, others=others)
    for template in spec.listed("templates"):
        found.templates[template.text_of("name")] = template.with_defaults(defaults)
    return found


def template_of(task: Field, library: Library) -> Called | None:
    """Return the template that a task calls, or None if the files do not contain it."""
    inline, reference = task.get("inline"), task.get("templateRef")
    if inline is not None:
        return Called(task.text_of("name"), inline, library)
    name = task.text_of("template")
    if reference is not None:
        name = reference.text_of("template")
        # A template of another object calls those beside it, not those of this workflow.
        other = library.others.get((reference.text_of("name"), reference.is_true("clusterScope")))
        if other is None:
            return None
        library = other
    return library.find(name)


_SOLE = re.compile(r"\s*\{\{=?([^{}]*)\}\}\s*")
_PARSED = re.compile(r"(?:jsonpath|fromJson|fromJSON)\(([^,()]+)[,)]")
_RESULT = re.compile(
    r"(?:steps|tasks)(?:\.([^\s.{}()\[\]]+)|\[['\"]([^'\"]*)['\"]\])\.outputs\.result"
)
_OUTPUT = re.compile(r"(?:steps|tasks)\.([^.]+)\.outputs\.(.*)", re.DOTALL)
# Templates inside of each other that are read for the uses of a value: one more than a flow has.
_LEVELS = 5


def texts_of(node: Node) -> Iterator[str]:
    if isinstance(node, MappingNode):
        for entry in node.entries.values():
            yield from texts_of(entry.value)
    elif isinstance(node, ListNode):
        for item in node.items:
            yield from texts_of(item)
    elif isinstance(node.value, str):
        yield node.value


def tasks_of(template: Field) -> Iterator[Field]:
    """Yield the tasks of a dag, or the steps of all groups."""
    yield from template.listed("dag", "tasks")
    for group in template.listed("steps"):
        yield from group.items() if group.is_list else (group,)


class Uses:
    """The uses of values in templates. Each template is read once for all its tasks."""

    def __init__(self) -> None:
        self._inputs: dict[tuple[Node, bool, int], frozenset[str]] = {}
        """Inputs of a template that are looped over or parsed as JSON, by its node and the number
        of levels of templates in it that are read."""
        self._results: dict[Node, frozenset[str]] = {}
        self._outputs: dict[tuple[Node, bool], dict[str, set[str]]] = {}
        """Outputs of tasks by the names of these."""

    def is_result_used(self, template: Field, task: str) -> bool:
        """Whether a dag or steps template uses `outputs.result` of one of its tasks."""
        if (node := template.node) not in self._results:
            found = (each for text in texts_of(node) for each in _RESULT.finditer(text))
            self._results[node] = frozenset(each[1] or each[2] for each in found)
        return task in self._results[node]

    def outputs(self, template: Field, task: str, library: Library, *, loops: bool) -> set[str]:
        """Return the outputs of a task, `""` for its result, that others loop over or parse as
        JSON."""
        key = (template.node, loops)
        if key not in self._outputs:
            found = self._outputs[key] = dict[str, set[str]]()
            for path in self._paths(template, library, loops=loops):
                if output := _OUTPUT.fullmatch(path):
                    name = output[2].removeprefix("parameters.")
                    found.setdefault(output[1], set()).add("" if output[2] == "result" else name)
        return self._outputs[key].get(task, set())

    def params_as_lists(self, library: Library, entrypoint: str) -> set[str]:
        """Return the parameters of the workflow that templates loop over."""
        found: set[str] = set()
        prefix = "workflow.parameters."
        for name, template in library.templates.items():
            for used in self._paths(template, library, loops=True):
                # The inputs of the entrypoint are the parameters of the workflow.
                is_entry = name == entrypoint
                path = used.replace("inputs.parameters.", prefix, 1) if is_entry else used
                if path.startswith(prefix):
                    found.add(path.removeprefix(prefix))
        return found

    def _inputs_of(
        self, template: Field, library: Library, levels: int, *, loops: bool
    ) -> frozenset[str]:
        key = (template.node, loops, levels)
        if key not in self._inputs:
            # A template may call itself.
            self._inputs[key] = frozenset()
            prefix = "inputs.parameters."
            paths = self._paths(template, library, levels, loops=loops) if levels else set()
            self._inputs[key] = frozenset(
                path.removeprefix(prefix) for path in paths if path.startswith(prefix)
            )
        return self._inputs[key]

    def _paths(
        self, template: Field, library: Library, levels: int = _LEVELS, *, loops: bool
    ) -> set[str]:
        """Return the paths of values that the template, or one of the levels of templates that it
        calls, loops over or parses as JSON."""
        found: set[str] = set()
        if not loops:
            for text in texts_of(template.node):
                found |= {_dotted(match[1]) for match in _PARSED.finditer(text)}
        for task in tasks_of(template):
            listed = task.get("withParam")
            if loops and listed is not None and (sole := _SOLE.fullmatch(listed.text)):
                found.add(_dotted(sole[1]))
            called = template_of(task, library)
            if called is None:
                continue
            inputs = self._inputs_of(called.template, called.library, levels - 1, loops=loops)
            for argument in task.listed("arguments", "parameters"):
                value = argument.get("value")
                sole = _SOLE.fullmatch(value.text) if value is not None else None
                if sole and argument.text_of("name") in inputs:
                    found.add(_dotted(sole[1]))
        return found


def _dotted(path: str) -> str:
    return re.sub(r"\[['\"]([^'\"]*)['\"]\]", r".\1", path.strip())
