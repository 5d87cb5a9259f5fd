"""Many entries, curated answers and purges on the page, before a stand-in that has their doors."""

from typing import Any

import pytest
from axe_playwright_python.async_playwright import Axe
from house import OpenHouse
from playwright.async_api import Page, expect
from stand_in import StandIn

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def view(page: Page, name: str) -> None:
    await page.get_by_role("navigation").get_by_role("link", name=name).click()
    await expect(page.get_by_role("heading", level=1, name=name)).to_be_visible()


async def test_a_hundred_thousand_entries_are_found_read_and_mended(house: OpenHouse, dashboard: Any) -> None:
    server = StandIn(100_000)
    async with house() as h, dashboard(h) as page:
        await server.stand(page)
        await view(page, "Entries")
        rows = page.locator("tbody tr")
        await expect(rows).to_have_count(50)
        await page.get_by_role("button", name="Next").click()
        await expect(page.get_by_text("Page 2")).to_be_visible()
        await expect(rows.first).to_contain_text("rule 50?")
        await page.get_by_role("button", name="Previous").click()
        await expect(rows.first).to_contain_text("rule 0?")

        await page.get_by_label("Words", exact=True).fill("rule 99999")  # found while it is typed
        await expect(rows).to_have_count(1)
        assert (await Axe().run(page)).response["violations"] == []
        await page.get_by_role("link", name="What is rule 99999?").click()
        await expect(page.locator("#view")).to_contain_text("Rule <b>99999</b>.")
        await page.get_by_role("textbox", name="Answer").fill("Rule 99999, second version.")
        await page.get_by_label("Tags").fill("rules\nv2")
        await page.get_by_role("button", name="Save").click()
        await expect(page.locator("#view")).to_contain_text("second version")
        assert server.entries[f"{99_999:016x}"]["tags"] == ["rules", "v2"]
        await page.get_by_role("button", name="Delete").click()
        await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        await expect(page.get_by_label("Words", exact=True)).to_have_value("rule 99999")
        await expect(page.locator("#view")).to_contain_text("Nothing yet.")
        assert len(server.entries) == 99_999


async def test_a_curated_answer_is_written_changed_and_deleted(house: OpenHouse, dashboard: Any) -> None:
    server = StandIn(0)
    async with house() as h, dashboard(h) as page:
        await server.stand(page)
        await view(page, "Curated")
        await page.get_by_role("button", name="New curated answer").click()
        await page.get_by_role("textbox", name="Question").fill("How do I return it?")
        await page.get_by_label("Other wordings").fill("Can I send it back?\nReturn policy?")
        await page.get_by_role("textbox", name="Answer").fill("Within 30 days.")
        await page.get_by_role("button", name="Save").click()
        row = page.get_by_role("row", name="How do I return it?")
        await expect(row).to_contain_text("Can I send it back?")
        assert server.curated["1"] == {
            "id": "1", "question": "How do I return it?", "wordings": ["Can I send it back?", "Return policy?"],
            "answer": "Within 30 days.",
        }  # fmt: skip
        await row.get_by_role("button", name="Edit").click()
        assert (await Axe().run(page)).response["violations"] == []
        await page.get_by_role("textbox", name="Answer").fill("Within 14 days.")
        await page.get_by_role("button", name="Save").click()
        await expect(row).to_contain_text("Within 14 days.")
        await row.get_by_role("button", name="Delete").click()
        await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        await expect(row).to_have_count(0)
        assert server.curated == {}


async def test_a_purge_counts_first_and_deletes_what_was_counted(house: OpenHouse, dashboard: Any) -> None:
    server = StandIn(1_000)
    async with house() as h, dashboard(h) as page:
        await server.stand(page)
        await view(page, "Purge")
        await page.get_by_label("Tag").fill("rules")
        await page.get_by_role("button", name="Count first").click()
        await expect(page.locator("#view")).to_contain_text("1000")
        now = page.get_by_role("button", name="Forget it now")
        await page.get_by_label("Tag").fill("rule")
        await expect(now).to_have_count(0)  # what was counted is not what stands there any more
        await page.get_by_label("Tag").fill("rules")
        await page.get_by_role("button", name="Count first").click()
        await now.click()
        assert len(server.entries) == 1_000
        await page.get_by_role("dialog").get_by_role("button", name="Forget it now").click()
        await expect(page.get_by_role("heading", name="Forgotten.")).to_be_visible()
        assert server.entries == {}
        purges = [body for method, path, body in server.asked if path == "/admin/purge"]
        assert purges == [{"tag": "rules", "dry_run": True}] * 2 + [{"tag": "rules", "dry_run": False}]
