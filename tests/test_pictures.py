"""The pictures in docs: which there are, and what those of terminals may contain."""

import re

import pytest
from tools import page_pictures
from tools.terminal_pictures import PICTURES, draw

from support.paths import ROOT

FOLDER = ROOT / "docs" / "pictures"
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
LARGEST = 120_000
"""Bytes of a picture of the page."""


def test_the_scripts_draw_the_pictures_that_the_docs_show() -> None:
    drawn = {f"{name}.svg" for name in PICTURES} | {
        f"{name}.png" for name in page_pictures.PICTURES
    }
    texts = [page.read_text(encoding="utf-8") for page in PAGES]
    shown = {name for text in texts for name in re.findall(r"\((?:docs/)?pictures/([^)]+)\)", text)}
    assert drawn == {path.name for path in FOLDER.iterdir()} == shown


@pytest.mark.parametrize("name", page_pictures.PICTURES)
def test_a_picture_of_the_page_is_small(name: str) -> None:
    picture = (FOLDER / f"{name}.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) < LARGEST


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_shows_its_commands_and_loads_nothing(name: str) -> None:
    svg = (FOLDER / f"{name}.svg").read_text(encoding="utf-8").replace("&#160;", " ")
    assert all(command in svg for command in PICTURES[name])
    assert set(re.findall(r"https?://[^\"]+", svg)) == {"http://www.w3.org/2000/svg"}


def test_colours_of_the_terminal_are_drawn() -> None:
    svg = draw("test", [("jobflow get", "\x1b[32mSucceed\x1b[0m <x>\n")])
    assert "Succeed" in svg and "&lt;x&gt;" in svg and "fill: #98e024" in svg
