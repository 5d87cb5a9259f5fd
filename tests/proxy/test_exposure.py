"""Who comes straight from this machine, and who was let through by another proxy that stands on it."""

import pytest
from multidict import CIMultiDict

from proxy.exposure import loopback_host, passed_on

HERE = ["127.0.0.1:8080", "localhost", "LOCALHOST:8080", "[::1]:8080", "127.1.2.3"]
ELSEWHERE = ["evil.example", "127.0.0.1.evil.example", "10.0.0.1:8080", "[::2]", "a]b", "127.x", "", "null", "0.0.0.0"]


@pytest.mark.parametrize(
    "name",
    [
        "Forwarded", "X-Forwarded-For", "x-forwarded-host", "X-Forwarded-Proto", "X-Forwarded-Prefix", "X-Real-IP",
        "via", "CF-Connecting-IP", "True-Client-IP",
    ],
)  # fmt: skip
def test_a_proxy_that_names_itself_or_its_caller_is_seen(name: str) -> None:
    sign = passed_on(CIMultiDict({"Host": "127.0.0.1:8080", name: ""}))
    assert sign == f"the header {name}"


def test_nginx_without_a_header_of_its_own_is_seen_by_its_protocol() -> None:
    """`location / { proxy_pass http://127.0.0.1:8080; }` sends Host 127.0.0.1:8080, Connection close, HTTP/1.0."""
    assert passed_on(CIMultiDict({"Host": "127.0.0.1:8080", "Connection": "close"}), (1, 0)) == "HTTP/1.0"


def test_curl_and_python_on_this_machine_are_no_proxies() -> None:
    said = {"Host": "127.0.0.1:8080", "User-Agent": "curl/8", "Accept": "*/*", "Connection": "close", "Forward": "x"}
    assert passed_on(CIMultiDict(said), (1, 1)) is None


@pytest.mark.parametrize("host", HERE)
def test_this_machine_by_any_of_its_loopback_names(host: str) -> None:
    assert loopback_host(CIMultiDict(Host=host))


@pytest.mark.parametrize("host", ELSEWHERE)
def test_any_other_name_is_not_this_machine(host: str) -> None:
    assert not loopback_host(CIMultiDict(Host=host))


def test_who_names_no_host_is_judged_by_the_rest() -> None:
    assert loopback_host({})
