"""Writes docs/pictures: the page of `jobflow ui`, as PNG.

`make pictures` runs this script. It starts a sandbox with its page, submits examples, and takes
pictures of the page in a headless Chromium, which has to be installed.
"""

import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import Page, sync_playwright

FLOWS = Path(__file__).parent.parent / "examples"
WIDTH = 1280
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
FINISHED = "training-pipeline diamond containers for-each finally switch on-failure more-memory"
"""Examples that have finished in the pictures."""
RUNNING = "hyperparameter-search"
AWAITED = "retrain, Running"
PICTURES = {
    "page-list": ("/flows", 620),
    "page-flow": ("/flows/default/search", 490),
    "page-timeline": ("/flows/default/training?view=timeline", 560),
    "page-step": ("/flows/default/forecast?step=train", 720),
}
"""Address and height of each picture."""


def main() -> None:
    """Write the pictures into the folder that is the first argument."""
    folder = Path(sys.argv[1])
    browser = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if browser is None:
        sys.exit(f"none of {', '.join(BROWSERS)} is installed")
    with TemporaryDirectory() as home:
        kubeconfig = Path(home) / "kubeconfig"
        flags = ["--runner", "process", "--ui", "--no-browser", "--kubeconfig", str(kubeconfig)]
        command = [jobflow(), "sandbox", *flags]
        server = subprocess.Popen(command, cwd=home, stderr=subprocess.PIPE, text=True)
        try:
            assert server.stderr is not None
            link = server.stderr.readline().removeprefix("page: ").strip()
            submit(FINISHED.split(), kubeconfig, "--wait")
            take(link, browser, folder, kubeconfig)
        finally:
            server.terminate()
            server.wait()


def jobflow() -> str:
    return str(Path(sys.executable).parent / "jobflow")


def submit(names: list[str], kubeconfig: Path, *flags: str) -> None:
    """Submit examples. One of them fails."""
    files = [str(FLOWS / f"{name}.yaml") for name in names]
    command = [jobflow(), "submit", *files, "--kubeconfig", str(kubeconfig), *flags]
    subprocess.run(command, check=False, stdout=subprocess.DEVNULL)


def take(link: str, browser: str, folder: Path, kubeconfig: Path) -> None:
    """Take all pictures, as soon as a step of RUNNING runs again and again."""
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox"]
        chromium = playwright.chromium.launch(executable_path=browser, args=arguments)
        tab = chromium.new_page(color_scheme="light", reduced_motion="reduce")
        tab.goto(link)
        tab.wait_for_url("**/flows*")
        home = link.partition("/?")[0]
        tab.goto(f"{home}{PICTURES['page-flow'][0]}")
        submit([RUNNING], kubeconfig)
        tab.get_by_role("link", name=AWAITED).wait_for()
        for name, (address, height) in PICTURES.items():
            picture(tab, home + address, folder / f"{name}.png", height)
        chromium.close()


def picture(tab: Page, address: str, file: Path, height: int) -> None:
    """Take a picture of an address, once its stream is open and a log has lines."""
    tab.set_viewport_size({"width": WIDTH, "height": height})
    with tab.expect_response(lambda answer: "/stream?" in answer.url):
        tab.goto(address)
    if "step=" in address:
        tab.locator(".lines > div").first.wait_for()
    tab.mouse.move(0, 0)
    tab.screenshot(path=file)


if __name__ == "__main__":
    main()
