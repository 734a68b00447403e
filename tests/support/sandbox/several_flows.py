"""Manifests of several files, run in one sandbox with a namespace for each."""

import io
import json
import os
import signal
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jobflow.client.errors import INTERRUPTED
from jobflow.client.manifests.objects import load
from support.sandbox.command_line import jobflow

WITHIN_SECONDS = 90


def run_flows(files: Mapping[str, Path]) -> dict[str, dict[str, Any]]:
    """Run the flows of all files at ten times the speed, and return them by namespace."""
    documents = []
    for namespace, path in files.items():
        for each in load([str(path)], io.BytesIO()).objects:
            if each.kind != "Queue":
                each.data["metadata"]["namespace"] = namespace
            documents.append(json.dumps(each.data))
    text = "\n---\n".join(documents)
    # an error of the planner ends no flow, and `run` would wait for its end
    interrupt = threading.Timer(WITHIN_SECONDS, os.kill, (os.getpid(), signal.SIGINT))
    interrupt.start()
    try:
        answer = jobflow("run", "--speed", "10", "-o", "json", "-", stdin=text)
    finally:
        interrupt.cancel()
    assert answer.code != INTERRUPTED, f"not ended in {WITHIN_SECONDS} s: {answer.err}"
    assert answer.out, answer.err
    return {flow["metadata"]["namespace"]: flow for flow in answer.json["items"]}
