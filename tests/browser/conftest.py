"""The dashboard in a real Chromium, before a real server with simulated workers."""

import contextlib
import functools
import shutil
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
import pytest_asyncio
from house import House, OpenHouse, open_house
from playwright.async_api import Browser, Page, async_playwright

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

Browse = Callable[..., AbstractAsyncContextManager[Page]]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    missing = pytest.mark.skip(reason="there is no Chromium here: apt-get install chromium")
    here = Path(__file__).parent
    for item in items:
        if CHROMIUM is None and here in item.path.parents:
            item.add_marker(missing)


@pytest.fixture
def house(tmp_path: Path) -> OpenHouse:
    return functools.partial(open_house, tmp_path)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def chromium() -> AsyncIterator[Browser]:
    """One for the whole file: to start it takes longer than most tests."""
    async with async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        await browser.close()


@pytest.fixture
def dashboard(chromium: Browser) -> Browse:
    @contextlib.asynccontextmanager
    async def browse(
        h: House, *, phone: bool = False, dark: bool = False, language: str = "en-GB",
        headers: Mapping[str, str] | None = None,
    ) -> AsyncIterator[Page]:  # fmt: skip
        """The dashboard in a profile of its own. Whatever its scripts throw, and whatever its policy forbids, fails the
        test at the end."""
        troubles: list[str] = []
        profile = await chromium.new_context(
            base_url=h.url, viewport={"width": 390 if phone else 1280, "height": 844}, locale=language,
            color_scheme="dark" if dark else "light", reduced_motion="reduce",
            extra_http_headers=dict(headers or {}),
        )  # fmt: skip
        page = await profile.new_page()
        page.set_default_timeout(8_000)
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("console", lambda said: troubles.append(said.text) if "Security Policy" in said.text else None)
        await page.goto("/dashboard")
        await page.locator("h1").wait_for()
        yield page
        await profile.close()
        assert troubles == []

    return browse
