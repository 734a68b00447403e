"""Where the project and its parts are."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
