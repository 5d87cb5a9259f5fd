"""Settings of those who watch."""

import pytest

from proxy.settings import SettingsError, load


def test_nothing_is_told_unless_somebody_wants_it() -> None:
    settings, _ = load({})
    assert (settings.log_format, settings.log_requests, settings.otel_endpoint) == ("text", "off", None)


@pytest.mark.parametrize("written, read", [("http://c:4318/", "http://c:4318"), ("none", None)])
def test_the_collectors_address(written: str, read: str | None) -> None:
    assert load({"otel_endpoint": written})[0].otel_endpoint == read


def test_what_is_no_url_is_refused_with_an_example() -> None:
    with pytest.raises(SettingsError, match=r"such as http://127.0.0.1:4318"):
        load({"otel_endpoint": "collector:4318"})
