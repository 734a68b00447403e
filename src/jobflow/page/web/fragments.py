"""Fragments of a page, their templates, and what of them a browser does not show yet."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from jobflow.core.drawing.phase_looks import LOOKS, look_of
from jobflow.core.text import format_duration, format_elapsed, format_time


def look(phase: str) -> str:
    """Return the name of a phase's icon and class: `completed`, `failed`, … or `other`."""
    return look_of(phase).name


def elapsed(since: datetime | None, end: datetime | None = None) -> str:
    """Return the time from `since` to `end`, or to now: `3m20s`, or `4.2s` if the end has fractions
    of a second; "" for None."""
    if since is not None and end is not None:
        return format_duration(max(end - since, timedelta()), tenths=True)
    return "" if since is None else format_elapsed(since, datetime.now(UTC))


def iso(moment: datetime | None) -> str:
    """Return a time in RFC 3339; "" for None."""
    return "" if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def clock(moment: datetime) -> str:
    """Return a time as `12:00:03 UTC`, with its date if it is not today's."""
    return format_time(moment, datetime.now(UTC))


def remaining(moment: datetime) -> str:
    """Return the time until `moment`, at least `0s`."""
    return format_elapsed(datetime.now(UTC), moment)


def percent(since: datetime, seconds: float) -> float:
    """Return how much of a number of seconds has passed since a time, in percent up to 100."""
    passed = (datetime.now(UTC) - since).total_seconds()
    return round(min(max(passed / seconds * 100, 0.0), 100.0), 3)


def slider_value(slider: Any) -> int:
    """Return the value of a slider: the time that is shown, or the present one, in seconds."""
    # a slider that nobody has moved is at the end
    shown = slider.at or slider.end or datetime.now(UTC)
    passed = int((shown - slider.start).total_seconds())
    most: int = slider.seconds
    return min(max(passed, 0), most)


def flow_path(namespace: str, name: str) -> str:
    return f"/flows/{quote(namespace, safe='')}/{quote(name, safe='')}"


def value_text(value: Any, most: int) -> str:
    """Return a text as it is, and another value as JSON; at most so many characters."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= most else f"{text[:most]}…"


_COMMAND = re.compile("`([^`]+)`")


def with_code(sentence: str) -> Markup:
    """Return a sentence as HTML whose commands in backquotes are code. All else is escaped."""
    parts = _COMMAND.split(sentence)
    code = Markup("<code>{}</code>")
    return Markup("").join(code.format(each) if at % 2 else each for at, each in enumerate(parts))


_FILTERS = (look, elapsed, iso, clock, remaining, percent, slider_value, flow_path, with_code)
FILTERS: dict[str, Callable[..., Any]] = {
    **{each.__name__: each for each in _FILTERS},
    "duration": format_duration,
}


@cache
def phase_styles() -> str:
    """Return CSS with the colours of the table of looks, on light and on dark ground."""
    light = " ".join(f"--{each.name}: {each.text.light};" for each in LOOKS)
    dark = " ".join(f"--{each.name}: {each.text.dark};" for each in LOOKS)
    classes = (f".is-{each.name} {{ color: var(--{each.name}); }}" for each in LOOKS)
    return "\n".join(
        (
            f":root {{ {light} }}",
            f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}",
            *classes,
            "",
        )
    )


_TEMPLATES = Path(__file__).parent.parent / "templates"


@dataclass(frozen=True, slots=True)
class Fragment:
    """An element of the page that is replaced as a whole when its content changes."""

    id: str
    """The id of the element, which the template sets."""
    template: str
    """A file of the folder `templates`. It sees `id`, `it` and `children`."""
    it: object
    """The content of the element: a value that equals another one if both look the same. Times are
    datetimes, not durations, so that it changes only if something has happened."""
    children: Sequence[Fragment] = ()
    """Fragments in the element whose id is this one: they are replaced, added, moved and removed
    one by one. The element contains nothing else if their number can change."""

    def render(self) -> Markup:
        template = environment().get_template(self.template)
        inner = Markup("").join(child.render() for child in self.children)
        return Markup(template.render(id=self.id, it=self.it, children=inner))


@cache
def environment() -> Environment:
    """Return the templates. Every value is escaped: nothing of the cluster becomes HTML."""
    made = Environment(
        autoescape=True,
        loader=FileSystemLoader(_TEMPLATES),
        lstrip_blocks=True,
        trim_blocks=True,
        undefined=StrictUndefined,
        auto_reload=False,
    )
    made.filters.update(FILTERS)
    return made


def render_page(template: str, fragments: Iterable[Fragment], **values: Any) -> str:
    """Return a whole document, whose template sees each fragment's HTML by id as `parts`."""
    parts = {fragment.id: fragment.render() for fragment in fragments}
    return environment().get_template(template).render(parts=parts, **values)


_Content = tuple[str, object, tuple[str, ...]]
"""Template and value of a fragment, and the ids of its children."""


class Update(msgspec.Struct, omit_defaults=True):
    """The changes for a browser."""

    html: dict[str, str] = {}
    """New content of elements by id, also of elements that `order` adds."""
    order: dict[str, list[str]] = {}
    """The ids of all children of an element, in order; other children are removed."""


@dataclass(slots=True)
class Shown:
    """The parts of a page that a browser shows."""

    sequence: int = 0
    """The number of the last update."""
    _contents: dict[str, _Content] = field(default_factory=dict)

    def mark(self, fragments: Iterable[Fragment]) -> None:
        """Note that the browser got a document with these fragments."""
        self._contents.clear()
        for fragment in fragments:
            self._mark(fragment, self._contents)

    def update(self, fragments: Iterable[Fragment]) -> Update | None:
        """Return what to send so that the browser shows these fragments, None if it already does.
        Only what has changed is rendered."""
        # a new dict, so that elements that are gone are forgotten
        update, contents = Update({}, {}), dict[str, _Content]()
        for fragment in fragments:
            self._compare(fragment, update, contents)
        self._contents = contents
        if not update.html and not update.order:
            return None
        self.sequence += 1
        return update

    def copy(self) -> Shown:
        """Return one that can change without this one."""
        return Shown(self.sequence, dict(self._contents))

    def _compare(self, fragment: Fragment, update: Update, contents: dict[str, _Content]) -> None:
        now = _content(fragment)
        before = self._contents.get(fragment.id)
        # the new HTML has the children too, so they are noted, not compared
        if before is None or before[:2] != now[:2]:
            update.html[fragment.id] = str(fragment.render())
            self._mark(fragment, contents)
            return
        # the element itself stays: only its children can differ
        contents[fragment.id] = now
        if before[2] != now[2]:
            update.order[fragment.id] = list(now[2])
        for child in fragment.children:
            self._compare(child, update, contents)

    def _mark(self, fragment: Fragment, contents: dict[str, _Content]) -> None:
        contents[fragment.id] = _content(fragment)
        for child in fragment.children:
            self._mark(child, contents)


def _content(fragment: Fragment) -> _Content:
    return fragment.template, fragment.it, tuple(child.id for child in fragment.children)
