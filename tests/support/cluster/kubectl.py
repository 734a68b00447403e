"""kubectl for tests, with its own home and cache, and both output streams."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a kubectl command."""

    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[list[str]]:
        """The table on stdout, cell by cell; cells must not hold blanks."""
        return [line.split() for line in self.out.splitlines()]


@dataclass(frozen=True, slots=True)
class Kubectl:
    """Runs kubectl; called directly it expects success, `.refused` expects a failure."""

    kubeconfig: Path
    home: Path

    def run(self, *arguments: str, stdin: str | None = None, timeout: float = 60) -> Answer:
        process = subprocess.run(
            ["kubectl", "--cache-dir", str(self.home / "cache"), *arguments],
            env=self.environment,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        return Answer(process.returncode, process.stdout, process.stderr)

    @property
    def environment(self) -> dict[str, str]:
        return os.environ | {"KUBECONFIG": str(self.kubeconfig), "HOME": str(self.home)}

    def __call__(self, *arguments: str, stdin: str | None = None) -> Answer:
        answer = self.run(*arguments, stdin=stdin)
        assert answer.code == 0, answer.err
        return answer

    def refused(self, *arguments: str, stdin: str | None = None) -> str:
        answer = self.run(*arguments, stdin=stdin)
        assert answer.code == 1, f"not refused: {answer.out}{answer.err}"
        return answer.err
