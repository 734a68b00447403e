"""The one switch of the model test: the primitives that `plan` carries out already."""

from __future__ import annotations

from model.random_flows import EVERY

LANDED = EVERY
