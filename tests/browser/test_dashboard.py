"""A support lead and an engineer at the dashboard: what they see, click, type, and what must never happen to them."""

from typing import Any

import orjson
import pytest
from axe_playwright_python.async_playwright import Axe
from house import House, OpenHouse
from playwright.async_api import Page, expect

from proxy.demo import Pace, SimulatedWorker

pytestmark = pytest.mark.asyncio(loop_scope="module")

VIEWS = ("Overview", "Review", "Lab", "Playground", "System")
ATTACK = "Why <script>window.hacked = 1</script><img src=x onerror='window.hacked = 2'> is it?"
TOKENS = {"token-of-ann-0001": "operate ann", "token-of-bob-0002": "read bob"}


async def go(page: Page, view: str) -> None:
    await page.get_by_role("navigation").get_by_role("link", name=view).click()
    await expect(page.get_by_role("heading", level=1, name=view)).to_be_visible()
    await page.locator("#view > *").first.wait_for()


async def rate(h: House, told: Any, rating: str, comment: str) -> None:
    body = {"reply": told.headers["X-Rejoinder-Reply"], "rating": rating, "comment": comment}
    assert (await h.post("/v1/feedback", orjson.dumps(body))).status == 200


async def test_the_overview_tells_what_was_served_and_moves_workers(house: OpenHouse, dashboard: Any) -> None:
    async with house(2, gpu_hour_price=2.0, currency="EUR") as h:
        for question in ("How do I reset my password?", "Why is the sky blue?"):
            await h.ask(question)
        async with dashboard(h) as page:
            card = page.locator(".card", has_text="Served from the cache")
            await expect(card).to_contain_text("0 of 2 lookups")
            for _ in range(3):
                await h.ask("Why is the sky blue?")
            await expect(card).to_contain_text("3 of 5 lookups")  # live: nobody reloads the page
            await expect(card).to_contain_text("60%")
            await expect(page.locator(".card", has_text="Wrong, of what")).to_contain_text("Not enough evidence")
            await expect(page.locator(".card", has_text="Money saved")).to_contain_text("EUR")
            await expect(page.get_by_role("img", name="Lookups of the last two minutes")).to_be_visible()
            await expect(page.locator(".bars", has_text="nothing-near")).to_be_visible()

            row = page.get_by_role("row", name=h.url.partition("://")[2].partition(":")[0]).first
            await row.get_by_role("button", name="Drain").click()
            await expect(row).to_contain_text("draining")
            await row.get_by_role("button", name="Undrain").click()
            await expect(row).to_contain_text("up")
            await row.get_by_role("button", name="Remove").click()
            await page.get_by_role("dialog").get_by_role("button", name="Remove").click()
            await expect(page.get_by_role("button", name="Remove")).to_have_count(1)
            await page.reload()
            await expect(page.get_by_role("row", name="Why is the sky blue?")).to_contain_text("3")


async def test_a_stored_text_is_never_html(house: OpenHouse, dashboard: Any) -> None:
    """DESIGN 8: a question with a script in it is shown as it was written, wherever it is shown."""
    async with house() as h:
        await h.ask(ATTACK)
        told = await h.ask(ATTACK)
        assert told.hit
        async with dashboard(h) as page:
            await expect(page.get_by_role("row", name="window.hacked")).to_contain_text("<script>")
            await rate(h, told, "bad", "<img src=x onerror='window.hacked = 3'>")
            await go(page, "Review")
            await expect(page.locator("article")).to_contain_text("<script>window.hacked = 1</script>")
            await go(page, "Playground")
            await page.get_by_label("Your question").fill(ATTACK)
            await page.keyboard.press("Enter")
            await expect(page.locator(".said").last).to_contain_text("onerror='window.hacked = 2'")
            assert await page.evaluate("window.hacked") is None
            assert await page.locator("main script, main img").count() == 0


async def test_the_review_queue_puts_back_takes_out_and_deletes(house: OpenHouse, dashboard: Any) -> None:
    keys = {"key-a": "acme", "key-b": "acme"}
    async with house(api_keys=keys, admin_tokens=TOKENS) as h:
        told = await h.ask("Why is the sky blue?", key="key-a")
        body = {"reply": told.headers["X-Rejoinder-Reply"], "rating": "bad", "comment": "It is green."}
        await h.post("/v1/feedback", orjson.dumps(body), {"Authorization": "Bearer key-a"})
        async with dashboard(h) as page:
            await sign_in(page, "token-of-ann-0001")
            await go(page, "Review")
            article = page.locator("article")
            await expect(article).to_contain_text("It is green.")
            await article.get_by_role("button", name="Take out").click()
            await expect(article).to_contain_text("an operator said so")
            await article.get_by_role("button", name="Put back").click()
            await expect(page.get_by_text("Out of service (0)")).to_be_visible()
            assert (await h.ask("Why is the sky blue?", key="key-a")).hit


async def sign_in(page: Page, token: str) -> None:
    await page.get_by_label("Admin token").fill(token)
    await page.get_by_role("button", name="Sign in").click()


async def test_who_signs_in_sees_what_his_role_may_and_no_script_can_act_for_him(
    house: OpenHouse, dashboard: Any
) -> None:
    async with house(admin_tokens=TOKENS) as h, dashboard(h) as page:
        await sign_in(page, "token-of-nobody-1")
        await expect(page.get_by_role("alert")).to_contain_text("token")
        await sign_in(page, "token-of-bob-0002")
        await expect(page.get_by_text("bob · read")).to_be_visible()
        await expect(page.get_by_role("button", name="Drain")).to_have_count(0)
        await page.get_by_role("button", name="Sign out").click()
        await sign_in(page, "token-of-ann-0001")
        await expect(page.get_by_role("button", name="Drain")).to_be_visible()
        assert await page.evaluate("document.cookie") == ""
        drain = "fetch('/admin/workers/x/drain', {method: 'POST'}).then((reply) => reply.status)"
        assert await page.evaluate(drain) == 403, "a session without its CSRF token changes nothing"
        await page.get_by_role("button", name="Drain").click()
        await expect(page.get_by_role("button", name="Undrain")).to_be_visible()
        await page.reload()
        await expect(page.get_by_text("ann · operate")).to_be_visible()
        await go(page, "System")
        await page.get_by_label("Filter").fill("admin_tokens")
        await expect(page.get_by_role("row", name="admin_tokens")).to_contain_text("2 keys for operate ann, read bob")
        await expect(page.get_by_role("row", name="Give a worker nothing new")).to_contain_text("done")
        assert "token-of" not in await page.content()


async def test_the_playground_streams_and_says_where_an_answer_came_from(house: OpenHouse, dashboard: Any) -> None:
    slowly = SimulatedWorker(pace=Pace(first_token_s=0.05, token_s=0.05))
    async with slowly as worker, house([worker]) as h, dashboard(h) as page:
        await go(page, "Playground")
        question = page.get_by_label("Your question")
        await question.fill("Why is the sky blue?")
        await page.keyboard.press("Enter")
        first = page.locator("article.said:not(.mine)").first
        await expect(first).to_contain_text("This is")
        await expect(first).to_contain_text("Loading")  # words came before the end did
        await expect(first.locator(".origin")).to_contain_text("From worker 127.0.0.1")
        await expect(first.locator(".cost")).to_contain_text("cost")

        await page.get_by_role("button", name="New chat").click()
        await question.fill("Why is the sky blue?")
        await page.keyboard.press("Enter")
        await expect(first.locator(".origin")).to_contain_text("From the cache: recent exact")
        await expect(first).to_contain_text("first byte")
        await expect(first.locator(".cost")).to_contain_text("spared")
        await first.get_by_role("button", name="Good answer").click()
        await expect(page.get_by_role("status")).to_contain_text("Thank you")
        await first.get_by_role("button", name="Delete").click()
        await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        await expect(page.get_by_role("status")).to_contain_text("Deleted")
        assert await h.stored() == 0


async def test_the_lab_tells_two_questions_apart(house: OpenHouse, dashboard: Any) -> None:
    async with house() as h, dashboard(h) as page:
        await go(page, "Lab")
        await page.get_by_label("Somebody asks").fill("Can I return it within 5 days?")
        await page.get_by_label("Asked before").fill("Can I return it within 7 days?")
        await page.get_by_role("button", name="Compare").click()
        await expect(page.locator("#view")).to_contain_text("A worker would be asked")
        await expect(page.get_by_role("listitem").filter(has_text="numbers")).to_contain_text("7200 minutes")
        await page.get_by_role("button", name="Swap").click()
        assert await page.get_by_label("Somebody asks").input_value() == "Can I return it within 7 days?"


async def test_everything_can_be_reached_by_keyboard(house: OpenHouse, dashboard: Any) -> None:
    async with house() as h, dashboard(h) as page:
        await page.keyboard.press("Tab")
        await expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
        for view in VIEWS:
            await page.keyboard.press("Tab")
            await expect(page.get_by_role("navigation").get_by_role("link", name=view)).to_be_focused()
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", level=1, name="System")).to_be_visible()
        await expect(page.get_by_role("main")).to_be_focused()
        await go(page, "Overview")
        remove = page.get_by_role("button", name="Remove")
        await remove.focus()
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("dialog")).to_be_visible()
        await page.keyboard.press("Escape")
        await expect(page.get_by_role("dialog")).to_have_count(0)
        await expect(remove).to_have_count(1)


@pytest.mark.parametrize(
    ("phone", "dark", "language"), [(False, False, "en-GB"), (True, True, "zh-CN")], ids=["desk", "phone"]
)
async def test_no_view_shuts_anybody_out(
    house: OpenHouse, dashboard: Any, phone: bool, dark: bool, language: str
) -> None:
    """axe-core: no serious violation, in every view; and nothing is wider than a phone."""
    async with house() as h:
        told = await h.ask("Why is the sky blue?")
        await h.ask("Why is the sky blue?")
        await rate(h, told, "bad", "It is green.")
        async with dashboard(h, phone=phone, dark=dark, language=language) as page:
            links = page.get_by_role("navigation").get_by_role("link")
            assert await links.count() == len(VIEWS)
            for number in range(len(VIEWS)):
                await links.nth(number).click()
                await page.locator("#view > *").first.wait_for()
                found = (await Axe().run(page)).response["violations"]
                serious = [each for each in found if each["impact"] in ("serious", "critical")]
                assert serious == [], [(each["id"], [node["html"] for node in each["nodes"]]) for each in serious]
                assert await page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
            assert await page.evaluate("document.documentElement.lang") == ("zh-CN" if language == "zh-CN" else "en")


async def test_both_languages_say_the_same(house: OpenHouse, dashboard: Any) -> None:
    async with house() as h, dashboard(h) as page:
        words = await page.evaluate("import('/dashboard/words.js').then((words) => words.WORDS)")
        assert set(words["en"]) == set(words["zh"])
        for key, text in words["en"].items():
            holes = {hole for hole in ("{0}", "{1}", "{2}") if hole in text}
            assert {hole for hole in ("{0}", "{1}", "{2}") if hole in words["zh"][key]} == holes, key
        await page.get_by_role("button", name="中文").click()
        await expect(page.get_by_role("heading", level=1, name="总览")).to_be_visible()
        await page.reload()
        await expect(page.get_by_role("heading", level=1, name="总览")).to_be_visible()


async def test_who_may_not_come_in_this_way_is_told_why(house: OpenHouse, dashboard: Any) -> None:
    async with house() as h, dashboard(h, headers={"X-Forwarded-For": "10.0.0.9"}) as page:
        await expect(page.get_by_role("heading", name="You cannot come in this way")).to_be_visible()
        await expect(page.locator("main")).to_contain_text("admin_tokens")
