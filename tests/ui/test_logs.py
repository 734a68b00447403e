"""The pane of logs of a step, in a real browser."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Locator, Page, expect

from jobflow.api.labels import ATTEMPT
from jobflow.sandbox.apiserver.requests.failures import failure
from support.page.flows import flow_with_status, status_of
from support.page.page_world import PageWorld, page_world
from support.sandbox.logged_pods import LoggedPods

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

RUNNING = {"phase": "Running", "attempts": 1, "job": "f-a"}


@pytest.fixture
def pods() -> LoggedPods:
    return LoggedPods()


@pytest_asyncio.fixture(loop_scope="session")
async def world(browser: Browser, pods: LoggedPods) -> AsyncIterator[PageWorld]:
    async with page_world(browser, logs=pods) as world:
        made = flow_with_status("f", {"a": "", "b": "a"}, {"a": RUNNING})
        await world.put(made)
        yield world
        assert world.problems == []
        assert world.outside == []


async def opened(world: PageWorld, query: str = "step=a") -> Page:
    return await world.open(f"/flows/default/f?{query}")


def lines(tab: Page) -> Locator:
    return tab.locator(".lines > div:visible")


def texts(tab: Page) -> Locator:
    return tab.locator(".lines > div:visible > span")


async def is_at_end(tab: Page) -> bool:
    gap = "(e => e.scrollHeight - e.scrollTop - e.clientHeight)(document.querySelector('.log'))"
    return bool(await tab.evaluate(gap) < 24)


async def test_lines_arrive_as_they_are_written(world: PageWorld, pods: LoggedPods) -> None:
    await pods.create(world, "f-a-main-0", "a", text="one\n")
    tab = await opened(world)
    await expect(texts(tab)).to_have_text(["one"])
    pods.of("f-a-main-0").text += b"two\n"
    await expect(texts(tab)).to_have_text(["one", "two"])
    await pods.end(world, "f-a-main-0")
    await expect(texts(tab)).to_have_text(["one", "two"])


async def test_all_pods_are_shown_in_the_order_of_time(world: PageWorld, pods: LoggedPods) -> None:
    for number in range(2):
        await pods.create(world, f"f-a-main-{number}", "a", text=f"{number} first\n{number} next\n")
    tab = await opened(world)
    await expect(lines(tab)).to_have_count(4)
    firsts = await texts(tab).all_inner_texts()
    assert sorted(firsts[:2]) == ["0 first", "1 first"]
    await expect(tab.locator(".lines b").first).to_be_visible()
    names = set(await tab.locator(".lines b").all_inner_texts())
    assert names == {"main-0", "main-1"}
    await tab.get_by_label("Pod", exact=True).select_option("f-a-main-1")
    await expect(texts(tab)).to_have_text(["1 first", "1 next"])
    assert "pod=f-a-main-1" in tab.url
    await tab.reload()
    await expect(texts(tab)).to_have_text(["1 first", "1 next"])


async def test_hostile_lines_are_text(world: PageWorld, pods: LoggedPods) -> None:
    hostile = "<img src=x onerror='document.hacked=1'></span><script>document.hacked=1</script>"
    escapes = "\x1b[31mred\x1b[0m \x1b]0;title\x07done"
    await pods.create(world, "f-a-main-0", "a", text=f"{hostile}\n{escapes}\n")
    tab = await opened(world)
    await expect(texts(tab)).to_have_text([hostile, "red done"])
    assert await tab.evaluate("document.hacked") is None
    assert await tab.locator(".log img, .log script").count() == 0


async def test_lines_are_filtered_in_the_page(world: PageWorld, pods: LoggedPods) -> None:
    await pods.create(world, "f-a-main-0", "a", text="epoch 1\nloss 0.5\nEpoch 2\n")
    tab = await opened(world)
    await expect(lines(tab)).to_have_count(3)
    await tab.get_by_label("Filter log lines").fill("epoch")
    await expect(texts(tab)).to_have_text(["epoch 1", "Epoch 2"])
    await expect(tab.locator(".logs-count")).to_have_text("2 of 3 lines")
    pods.of("f-a-main-0").text += b"loss 0.4\nepoch 3\n"
    await expect(texts(tab)).to_have_text(["epoch 1", "Epoch 2", "epoch 3"])


async def test_following_pauses_while_the_user_reads_above(
    world: PageWorld, pods: LoggedPods
) -> None:
    many = "".join(f"line {number}\n" for number in range(200))
    await pods.create(world, "f-a-main-0", "a", text=many)
    tab = await opened(world)
    await expect(lines(tab)).to_have_count(200)
    assert await is_at_end(tab)
    await tab.locator(".log").hover()
    await tab.mouse.wheel(0, -900)
    await expect(tab.get_by_label("Follow")).not_to_be_checked()
    pods.of("f-a-main-0").text += b"new\n"
    await tab.get_by_role("button", name="1 new line").click()
    assert await is_at_end(tab)
    await expect(tab.get_by_label("Follow")).to_be_checked()


async def test_the_last_lines_come_first_and_earlier_ones_on_request(
    world: PageWorld, pods: LoggedPods
) -> None:
    many = "".join(f"line {number}\n" for number in range(6000))
    await pods.create(world, "f-a-main-0", "a", text=many)
    tab = await opened(world)
    await expect(lines(tab)).to_have_count(500)
    await expect(texts(tab).first).to_have_text("line 5500")
    await tab.get_by_role("button", name="Earlier lines").click()
    await expect(lines(tab)).to_have_count(2000)
    await tab.get_by_role("button", name="Earlier lines").click()
    await expect(lines(tab)).to_have_count(5000)
    await expect(tab.get_by_role("button", name="are in the download")).to_be_disabled()
    pods.of("f-a-main-0").text += b"the last\n"
    await expect(texts(tab).last).to_have_text("the last")
    assert await tab.locator(".lines > div").count() == 5000
    address = await tab.get_by_role("link", name="Download").get_attribute("href")
    answer = await world.context.request.get(world.home + str(address))
    assert answer.headers["content-type"].startswith("text/plain")
    assert (await answer.text()).splitlines()[:2] == ["line 0", "line 1"]


async def test_times_and_wrapping_are_kept_in_the_address(
    world: PageWorld, pods: LoggedPods
) -> None:
    await pods.create(world, "f-a-main-0", "a", text="one\n")
    tab = await opened(world)
    await tab.get_by_label("Times").check()
    await tab.get_by_label("Wrap").check()
    await tab.reload()
    await expect(tab.locator(".lines time")).to_have_text("12:00:00.000")
    await expect(tab.locator(".log.wraps")).to_be_visible()


async def test_an_empty_pane_says_why(world: PageWorld, pods: LoggedPods) -> None:
    tab = await opened(world, "step=b")
    empty = tab.locator(".logs-empty")
    await expect(empty).to_contain_text('Step "b" has no pods, because it has not started')
    await tab.locator("[id='node:a']").click()
    await expect(empty).to_contain_text('Step "a" has no pods at present')
    await pods.create(world, "f-a-main-0", "a", started=False)
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "x"'}}
    statuses = [{"name": "main", "state": waiting}]
    await pods.set_status(world, "f-a-main-0", phase="Pending", containerStatuses=statuses)
    await expect(empty).to_contain_text(
        'a/f-a-main-0: ImagePullBackOff: Back-off pulling image "x"'
    )
    await pods.start(world, "f-a-main-0")
    await expect(empty).to_contain_text("No line has been written yet")
    pods.of("f-a-main-0").text += b"hello\n"
    await expect(texts(tab)).to_have_text(["hello"])


async def test_deleted_pods_are_named_as_the_cause(world: PageWorld) -> None:
    ended = {"phase": "Completed", "attempts": 1, "job": "g-a"}
    await world.put(flow_with_status("g", {"a": ""}, {"a": ended}, "Succeed"))
    tab = await world.open("/flows/default/g?step=a")
    await expect(tab.locator(".logs-empty")).to_contain_text("has ended, and its pods are deleted")


async def test_a_missing_right_is_named_in_place(world: PageWorld) -> None:
    message = 'pods is forbidden: User "ann" cannot list resource "pods"'
    world.fails("GET", "/pods", failure(403, "Forbidden", message), times=None)
    tab = await opened(world)
    await expect(tab.locator(".logs-empty")).to_contain_text("You may not list and watch pods")
    await expect(tab.locator(".logs-empty")).to_contain_text(message)


async def test_a_log_that_may_not_be_read_is_named(world: PageWorld, pods: LoggedPods) -> None:
    await pods.create(world, "f-a-main-0", "a", text="secret\n")
    message = 'pods "f-a-main-0" is forbidden: cannot get resource "pods/log"'
    world.fails("GET", "/log", failure(403, "Forbidden", message), times=None)
    tab = await opened(world)
    await expect(tab.locator(".logs-notes")).to_contain_text("You may not get pods/log")
    await expect(tab.locator(".logs-empty")).to_have_text("No log can be read.")


async def test_the_key_l_opens_the_logs_of_the_selected_step(
    world: PageWorld, pods: LoggedPods
) -> None:
    await pods.create(world, "f-a-main-0", "a", text="one\n")
    tab = await opened(world)
    await expect(lines(tab)).to_have_count(1)
    await tab.keyboard.press("l")
    await expect(tab.get_by_role("log")).to_be_focused()
    assert "logs=wide" in tab.url
    await tab.keyboard.press("Escape")
    await expect(tab.locator("body")).not_to_have_class("wide-logs")
    assert tab.url.endswith("/flows/default/f?step=a")
    await tab.keyboard.press("Escape")
    await expect(tab.get_by_role("log")).to_have_count(0)
    await expect(tab.locator("[id='node:a']")).to_be_focused()
    assert tab.url.endswith("/flows/default/f")


async def test_the_address_has_no_wide_logs_without_a_step(world: PageWorld) -> None:
    tab = await world.open("/flows/default/f?logs=wide")
    await tab.wait_for_url("**/flows/default/f")


async def test_the_lines_of_attempts_are_separated(world: PageWorld, pods: LoggedPods) -> None:
    await pods.create(world, "f-a-main-0", "a", text="one\n", labels={ATTEMPT: "1"})
    await pods.end(world, "f-a-main-0", main=1)
    waiting = {"phase": "Waiting", "attempts": 1, "pastAttempts": 1, "job": "f-a"}
    await world.write("f", status_of("f", {"a": waiting}))
    tab = await opened(world)
    notes = tab.locator(".logs-notes")
    await expect(notes).to_have_text("these are the lines of attempt 1; attempt 2 has none yet")
    await pods.create(world, "f-a-r1-main-0", "a", text="two\n", labels={ATTEMPT: "2"})
    await world.write("f", status_of("f", {"a": RUNNING | {"attempts": 2}}))
    await expect(texts(tab)).to_have_text(["one", "two"])
    await expect(notes).to_be_empty()
    marked = tab.locator(".lines > [data-attempt]")
    await expect(marked).to_have_count(1)
    await expect(marked).to_have_attribute("data-attempt", "attempt 2")


async def test_another_step_shows_its_own_logs(world: PageWorld, pods: LoggedPods) -> None:
    await pods.create(world, "f-a-main-0", "a", text="of a\n")
    await pods.create(world, "f-b-main-0", "b", text="of b\n")
    tab = await opened(world, "step=a&pod=f-a-main-0")
    await expect(texts(tab)).to_have_text(["of a"])
    await tab.locator("[id='node:b']").click()
    await expect(texts(tab)).to_have_text(["of b"])
    assert tab.url.endswith("?step=b")
