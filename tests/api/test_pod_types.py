"""The generated table of pod types."""

import subprocess
import sys
from pathlib import Path

import pytest

from support.paths import ROOT

TABLE = ROOT / "src" / "jobflow" / "api" / "pod_types.txt"


@pytest.mark.long
def test_the_table_is_the_output_of_its_generator(tmp_path: Path) -> None:
    """`make manifests` updates it. A process runs the generator, because its models are large."""
    output = tmp_path / "pod_types.txt"
    subprocess.run([sys.executable, ROOT / "tools" / "pod_types.py", output], check=True)
    assert output.read_text() == TABLE.read_text()


def test_the_check_of_fields_imports_no_models() -> None:
    code = (
        "import sys; from jobflow.core.manifests.job_fields import misfits; "
        "misfits({'tasks': [{}]}, 'spec'); "
        "print([name for name in sys.modules if name.startswith('kubernetes_asyncio')])"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    )
    assert process.stdout == "[]\n"
