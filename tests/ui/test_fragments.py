"""What a browser is sent of a page that has changed: no more than what it does not show."""

from pathlib import Path

import pytest
from jinja2 import DictLoader

from jobflow.page.web import fragments as module
from jobflow.page.web.fragments import Fragment, Shown, environment
from jobflow.page.web.stream import MAX_PAGES, Pages

TEMPLATES = {
    "item": "<li id={{ id }}>{{ it }}</li>",
    "list": "<ul id={{ id }} title={{ it }}>{{ children }}</ul>",
}


@pytest.fixture(autouse=True)
def templates(monkeypatch: pytest.MonkeyPatch) -> None:
    made = environment().overlay()
    made.loader = DictLoader(TEMPLATES)
    monkeypatch.setattr(module, "environment", lambda: made)


def shopping(title: str = "t", **items: str) -> list[Fragment]:
    children = [Fragment(name, "item", text) for name, text in items.items()]
    return [Fragment("list", "list", title, children)]


def shown(fragments: list[Fragment]) -> Shown:
    made = Shown()
    made.mark(fragments)
    return made


def test_nothing_is_sent_while_nothing_has_changed() -> None:
    assert shown(shopping(a="1", b="2")).update(shopping(a="1", b="2")) is None


def test_only_a_changed_child_is_sent() -> None:
    update = shown(shopping(a="1", b="2")).update(shopping(a="1", b="3"))
    assert update is not None
    assert (update.html, update.order) == ({"b": "<li id=b>3</li>"}, {})


def test_a_new_child_is_sent_with_the_order_of_all() -> None:
    before = shown(shopping(a="1", b="2"))
    update = before.update(shopping(c="0", a="1"))
    assert update is not None
    assert (update.html, update.order) == ({"c": "<li id=c>0</li>"}, {"list": ["c", "a"]})


def test_a_changed_parent_is_sent_with_its_children() -> None:
    update = shown(shopping(a="1")).update(shopping("new", a="2"))
    assert update is not None
    assert (update.html, update.order) == (
        {"list": "<ul id=list title=new><li id=a>2</li></ul>"},
        {},
    )


def test_values_are_escaped() -> None:
    update = Shown().update([Fragment("a", "item", "<script>")])
    assert update is not None
    assert update.html == {"a": "<li id=a>&lt;script&gt;</li>"}


def test_a_stream_goes_on_after_the_document() -> None:
    pages = Pages()
    number = pages.add(shopping(a="1"))
    update = pages.find(number, "0").update(shopping(a="2"))
    assert update is not None and [*update.html] == ["a"]


def test_a_stream_that_lost_an_update_sends_everything() -> None:
    pages = Pages()
    number = pages.add(shopping(a="1"))
    pages.find(number, "0").update(shopping(a="2"))
    update = pages.find(number, "0").update(shopping(a="2"))
    assert update is not None and [*update.html] == ["list"]


def test_a_stream_that_missed_nothing_sends_nothing_twice() -> None:
    pages = Pages()
    number = pages.add(shopping(a="1"))
    pages.find(number, "0").update(shopping(a="2"))
    assert pages.find(number, "1").update(shopping(a="2")) is None


def test_an_older_stream_of_a_page_changes_nothing_for_a_newer_one() -> None:
    pages = Pages()
    number = pages.add(shopping(a="1"))
    older, newer = pages.find(number, "0"), pages.find(number, "0")
    older.update(shopping(a="2"))
    update = newer.update(shopping(a="2"))
    assert update is not None and [*update.html] == ["a"]


def test_a_forgotten_page_gets_everything() -> None:
    pages = Pages()
    first = pages.add(shopping(a="1"))
    for _ in range(MAX_PAGES):
        pages.add(shopping())
    update = pages.find(first, "0").update(shopping(a="1"))
    assert update is not None and [*update.html] == ["list"]


FILES = sorted((Path(module.__file__).parent.parent / "templates").iterdir())


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_no_template_has_inline_script_or_style_or_unescaped_values(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    for word in ("style=", "<style", "onclick", "onload", "|safe", "autoescape", "javascript:"):
        assert word not in text
