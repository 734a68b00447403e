"""Figures of docs/performance.md: `python -m bench`. Nothing here is part of the product."""
