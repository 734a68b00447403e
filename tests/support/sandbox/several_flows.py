"""Manifests of several files carried through in one sandbox, each in a namespace of its own."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jobflow.cli.manifests.objects import load
from support.sandbox.command_line import jobflow


def carried_through(files: Mapping[str, Path]) -> dict[str, dict[str, Any]]:
    """The flow of each file as it ends, by the namespace that the file is given. Jobs run ten
    times as fast as they say."""
    documents = []
    for namespace, path in files.items():
        for each in load([str(path)], io.BytesIO()).objects:
            if each.kind != "Queue":
                each.data["metadata"]["namespace"] = namespace
            documents.append(json.dumps(each.data))
    text = "\n---\n".join(documents)
    answer = jobflow("run", "--speed", "10", "-o", "json", "-", stdin=text)
    assert answer.out, answer.err
    return {flow["metadata"]["namespace"]: flow for flow in answer.json["items"]}
