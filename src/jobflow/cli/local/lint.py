"""`jobflow lint`: everything that is wrong with manifests, without a cluster. Applies nothing."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from rich.console import Console

from jobflow.cli.display.report import print_warnings, show
from jobflow.cli.exit_codes import FAULTY, FINE, UNUSABLE, complain
from jobflow.cli.manifests.check import Report, check
from jobflow.cli.manifests.faults import UNREADABLE, Fault, Place, Source
from jobflow.cli.manifests.objects import load
from jobflow.cli.manifests.params import NotParamsError, given, put


def lint(files: Sequence[str], *, params: Sequence[str], as_json: bool, lenient: bool) -> int:
    """Check FILEs and print what is wrong: 0 nothing, 1 something, 2 something is unreadable.

    `params`: NAME=VALUE for the flows that have such a param. `lenient`: warn of what admission
    only warns of.
    """
    try:
        report = examine(files, params, lenient=lenient)
    except NotParamsError as error:
        complain("lint", *error.sentences)
        return UNUSABLE
    if as_json:
        json.dump([fault.as_json() for fault in report.faults], sys.stdout, indent=2)
        sys.stdout.write("\n")
        print_warnings(report, Console(stderr=True, highlight=False))
    else:
        show(report, Console(highlight=False))
    if report.unreadable:
        return UNUSABLE
    return FAULTY if report.faults else FINE


def examine(files: Sequence[str], params: Sequence[str], *, lenient: bool) -> Report:
    """All that can be said of FILEs; that there is nothing of ours in them is a fault too.
    NotParamsError where a param cannot be read, or no flow has it."""
    values = given(params)
    manifests = load(files, sys.stdin.buffer)
    if values and manifests.objects:
        put(values, manifests.objects)
    report = check(manifests, lenient=lenient)
    if not (report.faults or report.flows or report.templates):
        place = Place(Source(" ".join("<stdin>" if file == "-" else file for file in files)))
        report.faults.append(Fault(place, UNREADABLE, "no JobFlow and no JobTemplate in it"))
    return report
