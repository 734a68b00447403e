"""`jobflow migrate`: workflows of Argo, and manifests from before JobFlow moved into Volcano."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from itertools import groupby

from jobflow.client.errors import FAILED, SUCCESS, UNUSABLE
from jobflow.client.manifests.check import check
from jobflow.client.manifests.objects import Manifest, load
from jobflow.client.manifests.write_yaml import write_yaml
from jobflow.display.console import make_console
from jobflow.display.report import print_faults, print_warnings
from jobflow.migrate.old_manifests import migrate_old
from jobflow.migrate.report import convert_argo


def migrate_files(files: Sequence[str], *, as_json: bool = False) -> int:
    """Print all objects of FILEs as YAML, the old ones in their new form and those of Argo as
    JobFlows, and return the exit code. Changes, and what is left to do, are printed to stderr; with
    `as_json`, what is left to do is printed as a list instead of the objects."""
    manifests = load(files, sys.stdin.buffer)
    errors = make_console(stderr=True)
    if manifests.faults:
        print_faults(manifests.faults, errors)
        return UNUSABLE
    argo = convert_argo(manifests)
    order = [argo.texts.get(id(manifest)) for manifest in manifests.objects]
    ours = [each for each in manifests.objects if id(each) not in argo.texts]
    manifests.objects = migrate_old(ours, quiet=bool(argo.converted))
    report = check(manifests)
    if as_json:
        found = [{"severity": "error"} | fault.as_json() for fault in report.faults]
        print(json.dumps(argo.as_json() + found, indent=2, ensure_ascii=False))
    else:
        argo.print(errors)
        print_faults(report.faults, errors)
        print_warnings(report, errors)
        _print_objects(order, manifests.objects)
    return FAILED if report.faults or not argo.is_complete else SUCCESS


def _print_objects(order: Sequence[str | None], manifests: Sequence[Manifest]) -> None:
    """Print the objects in their order; an entry is the YAML of one of Argo, or None."""
    others, is_first = iter(manifests), True
    for is_argo, group in groupby((text for text in order if text != ""), lambda t: t is not None):
        if not is_first:
            print("---")
        if is_argo:
            print("---\n".join(str(text) for text in group), end="")
        else:
            write_yaml([next(others).data for _ in group], sys.stdout)
        is_first = False
