"""Templates by name: those of a workflow, and of WorkflowTemplates in the same files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from jobflow.migrate.fields import Field

CLUSTER = "ClusterWorkflowTemplate"


@dataclass(slots=True)
class Library:
    """The templates that the tasks of a workflow can name."""

    templates: dict[str, Field] = field(default_factory=dict)
    others: Mapping[tuple[str, bool], Library] = field(default_factory=dict)
    """The WorkflowTemplates by name and whether they are of the cluster."""
    used: set[str] = field(default_factory=set)
    """Names of the templates that something has called."""


class Called(NamedTuple):
    """A template, and the library in which its own tasks are looked up."""

    name: str
    template: Field
    library: Library


def library_of(spec: Field, others: Mapping[tuple[str, bool], Library]) -> Library:
    """Return the templates of a spec, with the values of `templateDefaults`."""
    defaults, listed = spec.get("templateDefaults"), spec.get("templates")
    found = Library(others=others)
    for template in listed.items() if listed is not None else ():
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
        other = library.others.get((reference.text_of("name"), reference.is_true("clusterScope")))
        if other is None:
            return None
        library = other
    template = library.templates.get(name)
    if template is None:
        return None
    library.used.add(name)
    return Called(name, template, library)
