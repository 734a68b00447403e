"""deploy/ for `kubectl apply -f deploy/`, rendered from the chart.

Hooks and Helm's own labels are left out. The definitions, which a hook applies, are files here.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import helm_python
import yaml

CHART = Path(__file__).with_name("jobflow")
RELEASE = "jobflow"
NAMESPACE = "jobflow-system"
HOOK = "helm.sh/hook"
HELM_LABELS = ("helm.sh/chart", "app.kubernetes.io/managed-by")


def rendered(image: str = "") -> dict[str, str]:
    """Return file names and contents. kubectl takes the files in the order of their names.

    `image`: REPOSITORY@sha256:DIGEST, as a registry names the image that was pushed; empty: the
    default of the chart. Raises ValueError if there is no digest in it.
    """
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    files = {"00-namespace.yaml": _yaml([namespace])}
    for path in sorted((CHART / "crds").glob("*.yaml")):
        files[f"10-{path.name}"] = path.read_text()
    with helm_python.Chart.load(CHART) as chart:
        values = {"image": _image(image)} if image else {}
        chart.validate_schema(values)
        templates = chart.render(values, name=RELEASE, namespace=NAMESPACE)
    for path, text in sorted(templates.items()):
        if path.endswith(".yaml") and (manifests := list(_manifests(text))):
            files[f"20-{Path(path).name}"] = _yaml(manifests)
    return files


def _image(image: str) -> dict[str, str]:
    repository, at, digest = image.partition("@")
    if not at:
        raise ValueError(f"{image} has no digest; write it as REPOSITORY@sha256:DIGEST")
    return {"repository": repository, "digest": digest}


def write(folder: Path, image: str = "") -> None:
    """Write the files of `rendered`, and remove files that it no longer has."""
    folder.mkdir(exist_ok=True)
    files = rendered(image)
    for old in folder.glob("*.yaml"):
        if old.name not in files:
            old.unlink()
    for name, text in files.items():
        (folder / name).write_text(text)


def _manifests(text: str) -> Iterator[dict[str, Any]]:
    """What `kubectl apply` is to see of a rendered template."""
    for manifest in yaml.safe_load_all(text):
        if manifest and HOOK not in manifest["metadata"].get("annotations", {}):
            for label in HELM_LABELS:
                manifest["metadata"]["labels"].pop(label, None)
            yield manifest


def _yaml(manifests: list[dict[str, Any]]) -> str:
    return yaml.safe_dump_all(manifests, sort_keys=False, width=100)


if __name__ == "__main__":
    write(Path(sys.argv[1]), *sys.argv[2:])
