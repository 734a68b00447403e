"""The reader of kubeconfigs without the models of kubernetes_asyncio."""

import subprocess
import sys

import pytest


def run(*lines: str) -> list[str]:
    """Run Python in a process of its own, and return the lines that it prints."""
    script = "\n".join(("import sys", *lines))
    answer = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return answer.stdout.splitlines()


LOAD = "from jobflow.kube.credentials import import_config; config = import_config()"
MODELS = "print('kubernetes_asyncio.client.models' in sys.modules)"


@pytest.mark.long
def test_the_models_are_not_imported() -> None:
    assert run(LOAD, "print(callable(config.load_kube_config))", MODELS) == ["True", "False"]


@pytest.mark.long
def test_the_whole_package_can_be_imported_later() -> None:
    assert run(
        LOAD,
        "import kubernetes_asyncio",
        "from kubernetes_asyncio.client import Configuration, V1Pod",
        "print(V1Pod(kind='Pod').kind)",
        "print({*vars(config.kube_config.Configuration())} - {*dir(Configuration())})",
        "print(kubernetes_asyncio.config is config)",
    ) == ["Pod", "set()", "False"]


@pytest.mark.long
def test_the_whole_package_may_be_imported_before() -> None:
    assert run("import kubernetes_asyncio", LOAD, "print(kubernetes_asyncio.config is config)") == [
        "True"
    ]


@pytest.mark.long
def test_a_login_by_openid_imports_its_module() -> None:
    make = "made = config.kube_config.OpenIDRequestor('id', 'secret', 'https://issuer', None)"
    assert run(LOAD, "print('aiohttp' in sys.modules)", make, "print(type(made).__name__)") == [
        "False",
        "OpenIDRequestor",
    ]


def test_a_package_that_is_not_installed_is_an_import_error() -> None:
    name = "No module named 'kubernetes_asyncio'"
    hide = "import importlib.util; importlib.util.find_spec = lambda name: None"
    catch = (
        f"try: import_config()\nexcept ModuleNotFoundError as error: print(str(error) == {name!r})"
    )
    load = "from jobflow.kube.credentials import import_config"
    assert run(load, hide, catch) == ["True"]
