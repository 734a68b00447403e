"""`jobflow lint`: checks manifests without a cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice

from jobflow.api.flow.cronjobflow import CronJobFlow
from jobflow.api.flow.jobflow import JobFlow
from jobflow.client.errors import FAILED, SUCCESS, UNUSABLE, CommandError, exit_on, print_error
from jobflow.client.manifests.check import Report, check_files
from jobflow.client.manifests.sources import UNREADABLE, ManifestFault
from jobflow.client.options import FileOptions
from jobflow.core.admission.applied_nulls import WAYS, null_places
from jobflow.core.violations import MAX_FINDINGS
from jobflow.display.console import make_console
from jobflow.display.report import first_of_each_file, print_report, print_warnings


def lint_files(files: FileOptions, *, as_json: bool) -> int:
    """Check FILEs, print the report and return the exit code."""
    with exit_on(UNUSABLE, CommandError):
        report = check_files(files)
    report.warnings += _dropped_nulls(report)
    if as_json:
        shown, others = first_of_each_file(report.faults, MAX_FINDINGS)
        print(json.dumps([fault.as_json() for fault in shown], indent=2))
        print_error(*others, severity="warning")
        print_warnings(report, make_console(stderr=True))
    else:
        print_report(report, make_console())
    if any(fault.reason == UNREADABLE for fault in report.faults):
        return UNUSABLE
    return FAILED if report.faults else SUCCESS


def _dropped_nulls(report: Report) -> Iterator[ManifestFault]:
    """Yield a warning of each null that `kubectl apply` removes."""
    detail = f"kubectl apply removes this null before it sends the object; {WAYS}"
    for typed in report.typed:
        if isinstance(typed.object, JobFlow | CronJobFlow):
            manifest = typed.manifest
            for path in islice(null_places(typed.object), MAX_FINDINGS):
                place = manifest.place(path)
                yield ManifestFault(place, "", detail, path, typed.kind, manifest.name)
