"""The style sheet of phases: the variable `--failed` and the class `is-failed`, for each look."""

from __future__ import annotations

from functools import cache

from jobflow.core.drawing.phase_looks import LOOKS


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
