"""The settings of `jobflow serve`: a flag each, and JOBFLOW_… in the environment under the same
name. It only holds and checks them; `jobflow.serve` acts on them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field, ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from jobflow.api.duration import parse_duration

PREFIX = "JOBFLOW_"
MIN_LIFETIME = 10.0
"""Seconds. Less could not be told to the API server in time; what is sensible counts in days."""

Port = Annotated[int, Field(ge=0, le=65535)]


def _seconds(value: object) -> object:
    return parse_duration(value) if isinstance(value, str) else value


Duration = Annotated[float, BeforeValidator(_seconds)]
"""Seconds, written as Go writes a duration: `90s`, `1h30m`."""
Lifetime = Annotated[Duration, Field(ge=MIN_LIFETIME)]


class Settings(BaseSettings):
    """What a flag says goes before the environment. `--webhook-port` is JOBFLOW_WEBHOOK_PORT.

    Raises pydantic.ValidationError, which `problems` turns into sentences.
    """

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_ignore_empty=True, frozen=True)

    kubeconfig: str | None = Field(
        None,
        description="The kubeconfig file [default: $KUBECONFIG, ~/.kube/config, or in a pod its "
        "service account]",
    )
    namespace: str = Field("", description="Only this namespace [default: all]")
    system_namespace: str = Field(
        "",
        description="Where the lease and the Secret of the certificates are [default: the pod's "
        "own, or that of the kubeconfig's context]",
    )
    lease_name: str = Field(
        "",
        description="The Lease whose holder carries out flows [default: jobflow, with --namespace "
        "jobflow-NS]",
    )
    lease_duration: Duration = Field(
        15.0,
        description="How long others wait for a leader that no longer renews the lease, whole "
        "seconds",
    )
    renew_deadline: Duration = Field(
        10.0, description="How long a leader carries out flows without having renewed the lease"
    )
    retry_period: Duration = Field(
        2.0, gt=0, description="Between two renewals of the lease, and after one that failed"
    )
    webhook_port: Port = Field(8443, description="HTTPS port of the webhook; 0: any free one")
    http_port: Port = Field(
        8080, description="HTTP port of /healthz, /readyz and /metrics; 0: any free one"
    )
    tls_cert: Path | None = Field(
        None,
        description="PEM file of the webhook's certificate and its chain, read again when it "
        "changes [default: make one and share it through a Secret]",
    )
    tls_key: Path | None = Field(None, description="PEM file of the certificate's key")
    certificate_secret: str = Field(
        "jobflow-webhook-certificate",
        min_length=1,
        description="The Secret that holds certificates made here",
    )
    webhook_configuration: str = Field(
        "jobflow",
        description="The ValidatingWebhookConfigurations, by comma, whose caBundle is kept level "
        "with certificates made here; empty: touch none",
    )
    webhook_host: str = Field(
        "",
        description="The names and addresses, by comma, that certificates made here are for "
        "[default: jobflow-webhook.<system namespace>.svc]",
    )
    certificate_lifetime: Lifetime = Field(
        90 * 24 * 3600.0, description="Of a serving certificate made here, such as 2160h"
    )
    ca_lifetime: Lifetime = Field(
        5 * 365 * 24 * 3600.0, description="Of a CA made here, such as 43800h"
    )
    shutdown_delay: Duration = Field(
        0.0,
        le=600.0,
        description="How long to go on answering after SIGTERM, so that nobody is sent here any "
        "more, such as 5s",
    )
    no_webhook: bool = Field(False, description="Serve no webhook")
    no_controller: bool = Field(False, description="Carry out no flows")
    no_leader_election: bool = Field(
        False,
        description="Carry out flows without holding the lease; only where no second process does",
    )

    @model_validator(mode="after")
    def _fits_together(self) -> Settings:
        if self.no_webhook and self.no_controller:
            raise ValueError("--no-webhook and --no-controller together leave nothing to do")
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError(
                "--tls-cert and --tls-key go together: give both, or neither and the certificate "
                "is made here"
            )
        if not self.retry_period < self.renew_deadline < self.lease_duration:
            raise ValueError(
                "--retry-period has to be shorter than --renew-deadline, and that shorter than "
                "--lease-duration: what lies between the last two is how long a write may take"
            )
        if self.lease_duration % 1:
            raise ValueError("--lease-duration has to be whole seconds")
        if self.ca_lifetime < 2 * self.certificate_lifetime:
            raise ValueError("--ca-lifetime has to be at least twice --certificate-lifetime")
        return self


def listed(names: str) -> list[str]:
    """The names of a list by comma."""
    return [name.strip() for name in names.split(",") if name.strip()]


def problems(error: ValidationError) -> list[str]:
    """Each setting that is wrong, by flag and environment variable, in a sentence."""
    return [
        _problem(str(fault["loc"][0]) if fault["loc"] else "", fault["msg"])
        for fault in error.errors()
    ]


def _problem(name: str, text: str) -> str:
    text = text.removeprefix("Value error, ")
    if not name:
        return text
    return f"--{name.replace('_', '-')} ({PREFIX}{name.upper()}): {text[:1].lower()}{text[1:]}"
