"""The settings of `jobflow serve`: a flag each, and JOBFLOW_… in the environment under the same
name. It only holds and checks them; `jobflow.serve` acts on them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

PREFIX = "JOBFLOW_"
Port = Annotated[int, Field(ge=0, le=65535)]


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
    webhook_port: Port = Field(8443, description="HTTPS port of the webhook; 0: any free one")
    http_port: Port = Field(
        8080, description="HTTP port of /healthz, /readyz and /metrics; 0: any free one"
    )
    tls_cert: Path | None = Field(
        None, description="PEM file of the webhook's certificate and its chain"
    )
    tls_key: Path | None = Field(None, description="PEM file of the certificate's key")
    no_webhook: bool = Field(False, description="Serve no webhook")
    no_controller: bool = Field(False, description="Carry out no flows")
    no_leader_election: bool = Field(
        False,
        description="Accepted, and changes nothing: this version never elects a leader, so let "
        "one process only carry out flows",
    )

    @model_validator(mode="after")
    def _fits_together(self) -> Settings:
        if self.no_webhook and self.no_controller:
            raise ValueError("--no-webhook and --no-controller together leave nothing to do")
        if not self.no_webhook and (self.tls_cert is None or self.tls_key is None):
            raise ValueError(
                "the webhook needs a certificate: give --tls-cert and --tls-key (`jobflow certs "
                "DIR` makes a pair for development), or --no-webhook"
            )
        return self


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
