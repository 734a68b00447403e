"""Bounds that both roads know: how many and how much of something there may be. No code."""

from __future__ import annotations

MAX_RUNS = 1000
"""Items of a forEach, and repeats: each stands in the status. Admission refuses more; past it the
others do not count."""

MAX_TTL = 2**31 - 1
"""Seconds; the API's own limit of an int32."""

MAX_NEXT_JOBS = 100
"""Names that are told."""

MAX_MESSAGE_BYTES = 4096
"""Bytes at which the kubelet cuts a termination message: one of this size may have lost its end."""

MAX_STEP_OUTPUTS = 4096
"""Bytes of a step's outputs as they are stored, in JSON."""

MAX_FLOW_OUTPUTS = 64 * 1024
"""The same of all steps of a flow, with their field's name."""
