"""Settings: precedence of flags, environment and defaults, and the names in errors."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from jobflow.app.settings import Settings, describe_errors, split_names


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in Settings.model_fields:
        monkeypatch.delenv(f"JOBFLOW_{name.upper()}", raising=False)


def refused(**flags: object) -> list[str]:
    with pytest.raises(ValidationError) as raised:
        Settings(**flags)  # type: ignore[arg-type]
    return describe_errors(raised.value)


def test_the_default_settings() -> None:
    settings = Settings()
    assert (settings.webhook_port, settings.http_port, settings.tls_cert) == (8443, 8080, None)
    assert (settings.kubeconfig, settings.namespace) == (None, "")
    assert not settings.no_controller and not settings.no_leader_election


VALUES = {
    "KUBECONFIG": ("/etc/kube", "/etc/kube"),
    "NAMESPACE": ("team-a", "team-a"),
    "SYSTEM_NAMESPACE": ("jobflow-system", "jobflow-system"),
    "LEASE_NAME": ("ours", "ours"),
    "LEASE_DURATION": ("30s", 30.0),
    "RENEW_DEADLINE": ("20s", 20.0),
    "RETRY_PERIOD": ("500ms", 0.5),
    "MAX_COPY_AGE": ("1m", 60.0),
    "WEBHOOK_PORT": ("9443", 9443),
    "HTTP_PORT": ("9080", 9080),
    "TLS_CERT": ("tls.crt", Path("tls.crt")),
    "TLS_KEY": ("tls.key", Path("tls.key")),
    "CERTIFICATE_SECRET": ("mine", "mine"),
    "WEBHOOK_CONFIGURATION": ("a,b", "a,b"),
    "WEBHOOK_HOST": ("localhost,127.0.0.1", "localhost,127.0.0.1"),
    "CERTIFICATE_LIFETIME": ("90m", 5400.0),
    "CA_LIFETIME": ("3h", 10800.0),
    "CLIENT_CA": ("clients.crt", Path("clients.crt")),
    "SUBJECT_ACCESS_REVIEW": ("true", True),
    "CONTROLLER_USER": ("a,b", ("a", "b")),
    "SHUTDOWN_DELAY": ("2s", 2.0),
    "LOG_LEVEL": ("debug", "debug"),
    "NO_WEBHOOK": ("false", False),
    "NO_CONTROLLER": ("true", True),
    "NO_LEADER_ELECTION": ("1", True),
}


def test_every_setting_is_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert {name.lower() for name in VALUES} == Settings.model_fields.keys()
    for name, (text, _) in VALUES.items():
        monkeypatch.setenv(f"JOBFLOW_{name}", text)
    expected = {name.lower(): value for name, (_, value) in VALUES.items()}
    assert Settings().model_dump() == expected


def test_a_flag_takes_precedence_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOBFLOW_HTTP_PORT", "9080")
    assert Settings(no_webhook=True, http_port=7000).http_port == 7000


def test_an_empty_or_unknown_variable_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOBFLOW_HTTP_PORT", "")
    monkeypatch.setenv("JOBFLOW_REQUIRE_TOOLS", "1")
    assert Settings(no_webhook=True).http_port == 8080


TIMES = "--retry-period has to be shorter than --renew-deadline"
CERTIFICATE = "--tls-cert and --tls-key go together"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"tls_cert": "tls.crt"}, CERTIFICATE),
        ({"tls_key": "tls.key"}, CERTIFICATE),
        (
            {"certificate_lifetime": "90 days"},
            "--certificate-lifetime (JOBFLOW_CERTIFICATE_LIFETIME): "
            '"90 days" is not a duration: write it like 2s, 500ms or 1m30s',
        ),
        (
            {"certificate_lifetime": "1s"},
            '--certificate-lifetime (JOBFLOW_CERTIFICATE_LIFETIME): "1s" is less than 10s',
        ),
        (
            {"certificate_lifetime": "48h", "ca_lifetime": "72h"},
            "--ca-lifetime has to be at least twice",
        ),
        (
            {"no_webhook": True, "no_controller": True},
            "--no-webhook and --no-controller together leave nothing to do",
        ),
        ({"renew_deadline": "15s"}, TIMES),
        ({"retry_period": "10s"}, TIMES),
        ({"lease_duration": "10s"}, TIMES),
        ({"lease_duration": "15500ms"}, "--lease-duration has to be whole seconds"),
    ],
    ids=str,
)
def test_invalid_settings_are_refused(flags: dict[str, object], message: str) -> None:
    (text,) = refused(**flags)
    assert text.startswith(message)


def test_a_comma_separated_list_has_no_empty_names() -> None:
    assert split_names(" a, b,,") == ["a", "b"]
    assert split_names("") == []


def test_errors_name_the_flag_and_the_variable() -> None:
    texts = refused(no_webhook="perhaps", http_port=70000, webhook_port="x")
    assert [text.partition(": ")[0] for text in texts] == [
        "--webhook-port (JOBFLOW_WEBHOOK_PORT)",
        "--http-port (JOBFLOW_HTTP_PORT)",
        "--no-webhook (JOBFLOW_NO_WEBHOOK)",
    ]
    assert texts[1].endswith('"70000" is more than 65535')


def test_an_unknown_setting_is_refused() -> None:
    assert refused(no_webhook=True, colour="red")
