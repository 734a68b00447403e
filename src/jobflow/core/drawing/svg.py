"""The parts of all SVG documents: frame, style sheet for light and dark, and escaped text."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from jobflow.core.drawing.phase_looks import LOOKS

MARGIN = 16
"""Pixels around everything."""
CHAR = 7.2
"""Pixels of an average character; a browser decides the true width."""
_MAX_CHARS = 40

_STYLE = """
.jf{font:12px system-ui,-apple-system,"Segoe UI",sans-serif;fill:#1f2328}
.jf .back{fill:#fff}
.jf .node{fill:#f6f8fa;stroke:#8c959f;stroke-width:1.5}
.jf .box{fill:#fff}
.jf .arrow{fill:none;stroke:#8c959f;stroke-width:1.3}
.jf .tip{fill:#8c959f}
.jf .conditional{stroke-dasharray:5 3}
.jf .small{font-size:11px;fill:#57606a}
.jf .halo{stroke:#fff;stroke-width:4;paint-order:stroke}
.jf .grid{stroke:#d0d7de;stroke-width:1}
.jf .bold{font-weight:600}
.jf .end{text-anchor:end}
.jf .daemon .node{stroke-dasharray:2 3}
.jf .failed .node,.jf .running .node{stroke-width:2.5}
.jf .skipped .node{fill:none}.jf .skipped text{fill:#57606a}
.jf .bar{fill:#6e7781}.jf .queued{fill:#d4a72c}.jf rect.waiting{fill:#d0d7de}
.jf .critical{fill:#8250df}
LIGHT
@media(prefers-color-scheme:dark){
.jf{fill:#e6edf3}.jf .back{fill:#0d1117}
.jf .node{fill:#161b22}.jf .box{fill:#0d1117}.jf .skipped .node{fill:none}
.jf .small,.jf .skipped text{fill:#9198a1}.jf .halo{stroke:#0d1117}
.jf .grid{stroke:#30363d}.jf rect.waiting{fill:#3d444d}.jf .critical{fill:#ab7df8}
DARK
}
"""


def _style() -> str:
    """Return the style sheet, with the colours of the phases."""
    drawn = [(each.name, each.line) for each in LOOKS if each.line]
    light = [_lines(name, line.light) for name, line in drawn]
    dark = [_lines(name, line.dark) for name, line in drawn]
    return _STYLE.replace("LIGHT", "\n".join(light)).replace("DARK", "\n".join(dark))


def _lines(name: str, colour: str) -> str:
    return f".jf .{name} .node{{stroke:{colour}}}.jf .{name} .bar{{fill:{colour}}}"


def document(title: str, width: float, height: float, body: Iterable[str]) -> str:
    """Return a standalone document, which needs no script, font or other file. It is in ASCII, so
    that any output can encode it."""
    text = (
        '<svg xmlns="http://www.w3.org/2000/svg" class="jf" role="img" '
        f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}">\n'
        f"<title>{xml_text(title)}</title>\n<style>{_style()}</style>\n"
        '<rect class="back" width="100%" height="100%"/>\n' + "\n".join(body) + "\n</svg>\n"
    )
    return text.encode("ascii", "xmlcharrefreplace").decode()


def xml_text(text: str) -> str:
    """Return text for XML, without characters that XML cannot contain."""
    return escape("".join(char if char.isprintable() else "\ufffd" for char in text))


def cut(text: str) -> str:
    """Return text, cut with an ellipsis if it is long."""
    return text if len(text) <= _MAX_CHARS else text[: _MAX_CHARS - 1] + "…"
