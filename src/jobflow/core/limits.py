"""Bounds that both roads know: how many and how much of something there may be. No code."""

from __future__ import annotations

MOST_RUNS = 1000
"""Items of a forEach, and repeats: each stands in the status. Admission refuses more; past it the
others do not count."""

LONGEST_TTL = 2**31 - 1
"""Seconds; the API's own limit of an int32."""

MOST = 100
"""Names that are told."""

MOST_OF_A_MESSAGE = 4096
"""Bytes at which the kubelet cuts a termination message: one of this size may have lost its end."""

MOST_OF_A_STEP = 4096
"""Bytes of a step's outputs as they are stored, in JSON."""

MOST_OF_A_FLOW = 64 * 1024
"""The same of all steps of a flow, with their field's name."""
