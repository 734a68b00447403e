"""Settings: flags before the environment before defaults, and errors that name both."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from jobflow.settings import Settings, problems


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in Settings.model_fields:
        monkeypatch.delenv(f"JOBFLOW_{name.upper()}", raising=False)


def refused(**flags: object) -> list[str]:
    with pytest.raises(ValidationError) as raised:
        Settings(**flags)  # type: ignore[arg-type]
    return problems(raised.value)


def test_the_defaults() -> None:
    settings = Settings(no_webhook=True)
    assert (settings.webhook_port, settings.http_port) == (8443, 8080)
    assert (settings.kubeconfig, settings.namespace) == (None, "")
    assert not settings.no_controller and not settings.no_leader_election


def test_every_setting_is_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    said = {
        "KUBECONFIG": "/etc/kube",
        "NAMESPACE": "team-a",
        "WEBHOOK_PORT": "9443",
        "HTTP_PORT": "9080",
        "TLS_CERT": "tls.crt",
        "TLS_KEY": "tls.key",
        "NO_WEBHOOK": "false",
        "NO_CONTROLLER": "true",
        "NO_LEADER_ELECTION": "1",
    }
    assert {name.lower() for name in said} == Settings.model_fields.keys()
    for name, value in said.items():
        monkeypatch.setenv(f"JOBFLOW_{name}", value)
    assert Settings().model_dump() == {
        "kubeconfig": "/etc/kube",
        "namespace": "team-a",
        "webhook_port": 9443,
        "http_port": 9080,
        "tls_cert": Path("tls.crt"),
        "tls_key": Path("tls.key"),
        "no_webhook": False,
        "no_controller": True,
        "no_leader_election": True,
    }


def test_a_flag_goes_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOBFLOW_HTTP_PORT", "9080")
    assert Settings(no_webhook=True, http_port=7000).http_port == 7000


def test_an_empty_or_foreign_variable_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOBFLOW_HTTP_PORT", "")
    monkeypatch.setenv("JOBFLOW_REQUIRE_TOOLS", "1")
    assert Settings(no_webhook=True).http_port == 8080


@pytest.mark.parametrize("flags", [{}, {"tls_cert": "tls.crt"}, {"tls_key": "tls.key"}], ids=str)
def test_a_webhook_without_a_certificate_is_told_what_to_do(flags: dict[str, str]) -> None:
    (text,) = refused(**flags)
    assert "--tls-cert and --tls-key" in text and "--no-webhook" in text


def test_nothing_to_do_is_refused() -> None:
    assert refused(no_webhook=True, no_controller=True) == [
        "--no-webhook and --no-controller together leave nothing to do"
    ]


def test_every_wrong_setting_is_named_by_flag_and_variable() -> None:
    texts = refused(no_webhook="perhaps", http_port=70000, webhook_port="x")
    assert [text.partition(": ")[0] for text in texts] == [
        "--webhook-port (JOBFLOW_WEBHOOK_PORT)",
        "--http-port (JOBFLOW_HTTP_PORT)",
        "--no-webhook (JOBFLOW_NO_WEBHOOK)",
    ]
    assert texts[1].endswith("input should be less than or equal to 65535")


def test_an_unknown_setting_is_refused() -> None:
    assert refused(no_webhook=True, colour="red")


def test_no_leader_election_says_what_it_does_not_do() -> None:
    assert "never elects" in (Settings.model_fields["no_leader_election"].description or "")
