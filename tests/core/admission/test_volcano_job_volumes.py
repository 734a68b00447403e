"""Volcano's rules for the volumes of a vcjob."""

from __future__ import annotations

from typing import Any

import pytest

from jobflow.core.admission.volcano.job import job_violations
from support.admission.reviewed import brief


def said(*volumes: Any) -> list[str]:
    task = {"replicas": 1, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}
    spec = {"tasks": [task], "volumes": list(volumes)}
    return [str(violation) for violation in job_violations(spec, "spec", None)]


VOLUMES: list[tuple[Any, list[str]]] = [
    ({"volumeClaimName": "c"}, ["spec.volumes[0].mountPath Required"]),
    ({"mountPath": "", "volumeClaimName": "c"}, ["spec.volumes[0].mountPath Required"]),
    ({"mountPath": "/a:b", "volumeClaimName": "c"}, ["spec.volumes[0].mountPath Invalid"]),
    ({"mountPath": "/a"}, ["spec.volumes[0].volumeClaimName Required"]),
    ({"mountPath": "/a", "volumeClaimName": "c", "volumeClaim": {}},
     ["spec.volumes[0].volumeClaim Forbidden"]),
    ({"mountPath": "/a", "volumeClaimName": "C"},
     ['spec.volumes[0].volumeClaimName Invalid; "c" would do']),
]  # fmt: skip


@pytest.mark.parametrize(("volume", "words"), VOLUMES)
def test_rules_of_volumes(volume: Any, words: list[str]):
    assert brief(said(volume)) == words


def test_a_path_is_mounted_once():
    volume = {"mountPath": "/a", "volumeClaim": {}}
    assert said(volume, volume) == [
        'spec.volumes[1].mountPath: Duplicate value: "/a": volumes[0] is mounted there already'
    ]
