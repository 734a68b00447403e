"""What the dialogs of actions say of a flow, as far as no browser is needed."""

from datetime import UTC, datetime
from typing import Any

import msgspec

from jobflow.api.flow.jobflow import JobFlow
from jobflow.page.actions import list_offers
from jobflow.page.web.fragments import Fragment
from support.page.flows import flow_with_status


def offers(made: dict[str, Any]) -> str:
    flow = msgspec.convert(made, JobFlow)
    shown = list_offers(flow, {}, datetime.now(UTC), is_deleted=False)
    return Fragment("actions", "actions.html", shown).render()


def test_the_dialog_of_a_resubmit_lists_the_params_of_the_flow() -> None:
    made = flow_with_status("f", {"a": ""}, {"a": "Failed"}, "Failed")
    made["spec"]["params"] = [{"name": "rate", "value": "0.01"}, {"name": "<b>", "value": [1]}]
    shown = offers(made)
    assert "<td>rate</td><td>0.01</td>" in shown
    assert "<td>&lt;b&gt;</td><td>[1]</td>" in shown
    assert 'id="note-resubmit"' not in offers(flow_with_status("f", {"a": ""}, {"a": "Failed"}))


def test_a_resubmit_reuses_what_a_failed_flow_has_completed() -> None:
    done = {"phase": "Completed", "job": "f-a", "fingerprint": "x"}

    def preset(phase: str, condition: dict[str, Any] | str) -> bool:
        made = flow_with_status("f", {"a": "", "b": ""}, {"a": condition, "b": "Failed"}, phase)
        return 'data-preset="reuse"' in offers(made)

    assert preset("Failed", done)
    assert not preset("Failed", done | {"phase": "Failed"})
    assert not preset("Failed", "Completed")
    assert not preset("Succeed", done)
