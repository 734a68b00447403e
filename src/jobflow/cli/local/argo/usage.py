"""How the templates of a workflow use outputs and inputs, found before anything is converted."""

from __future__ import annotations

import re
from collections.abc import Iterator

from jobflow.cli.local.argo.fields import Field
from jobflow.cli.local.argo.library import Library, template_of
from jobflow.cli.manifests.yaml_nodes import ListNode, MappingNode, Node

_SOLE = re.compile(r"\s*\{\{=?\s*([^{}]*?)\s*\}\}\s*")
_PARSED = re.compile(r"(?:jsonpath|fromJson|fromJSON)\(\s*([^,()]+?)\s*[,)]")


def texts_of(node: Node) -> Iterator[str]:
    """Yield all texts in a part of a manifest."""
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
    dag = template.at("dag", "tasks")
    if dag is not None:
        yield from dag.items()
    steps = template.get("steps")
    for group in steps.items() if steps is not None else ():
        yield from group.items() if group.is_list else (group,)


class Uses:
    """The uses of values in the templates of a library."""

    def __init__(self) -> None:
        self._inputs: dict[int, frozenset[str]] = {}
        """Inputs of a template that are parsed as JSON, by the identity of its node."""

    def is_result_used(self, template: Field, task: str) -> bool:
        """Whether a dag or steps template uses `outputs.result` of one of its tasks."""
        name = re.escape(task)
        pattern = rf"(?:steps|tasks)(?:\.{name}|\[['\"]{name}['\"]\])\.outputs\.result"
        return any(re.search(pattern, text) for text in texts_of(template.node))

    def outputs_as_lists(self, template: Field, task: str, library: Library) -> set[str]:
        """Return the outputs of a task that another one loops over; `""` is its result."""
        return self._used(template, task, library, loops=True)

    def outputs_as_json(self, template: Field, task: str, library: Library) -> set[str]:
        """Return the outputs of a task that expressions parse as JSON."""
        return self._used(template, task, library, loops=False)

    def params_as_lists(self, library: Library, entrypoint: str) -> set[str]:
        """Return the parameters of the workflow that templates loop over."""
        found: set[str] = set()
        prefix = "workflow.parameters."
        for name, template in library.templates.items():
            for used in self._paths(template, library, loops=True):
                is_entry = name == entrypoint
                path = used.replace("inputs.parameters.", prefix, 1) if is_entry else used
                if path.startswith(prefix):
                    found.add(path.removeprefix(prefix))
        return found

    def _used(self, template: Field, task: str, library: Library, *, loops: bool) -> set[str]:
        return {
            _output_name(path, task)
            for path in self._paths(template, library, loops=loops)
            if re.match(rf"(steps|tasks)\.{re.escape(task)}\.outputs\.", path)
        }

    def _inputs_of(self, template: Field, library: Library, *, loops: bool) -> frozenset[str]:
        key = id(template.node) * 2 + loops
        if key not in self._inputs:
            self._inputs[key] = frozenset()  # a template may call itself
            prefix = "inputs.parameters."
            paths = self._paths(template, library, loops=loops)
            self._inputs[key] = frozenset(
                path.removeprefix(prefix) for path in paths if path.startswith(prefix)
            )
        return self._inputs[key]

    def _paths(self, template: Field, library: Library, *, loops: bool) -> set[str]:
        """Return the paths of values that the template loops over, or parses as JSON."""
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
            inputs = self._inputs_of(called.template, called.library, loops=loops)
            for argument in parameters_of(task, "arguments"):
                value = argument.get("value")
                sole = _SOLE.fullmatch(value.text) if value is not None else None
                if sole and argument.text_of("name") in inputs:
                    found.add(_dotted(sole[1]))
        return found


def parameters_of(value: Field, key: str) -> list[Field]:
    """Return the entries of `key.parameters`."""
    found = value.at(key, "parameters")
    return found.items() if found is not None else []


def _dotted(path: str) -> str:
    return re.sub(r"\[['\"]([^'\"]*)['\"]\]", r".\1", path)


def _output_name(path: str, task: str) -> str:
    rest = path.split(f".{task}.outputs.", 1)[1]
    return "" if rest == "result" else rest.removeprefix("parameters.")
