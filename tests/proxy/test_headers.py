import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.headers import retry_after_s, strip_hop_by_hop, upstream_headers


def to_worker(
    *raw: tuple[bytes, bytes], forward: bool = False, key: str | None = None, session: str | None = None
) -> list[tuple[str, str]]:
    return upstream_headers(
        raw, forward_authorization=forward, worker_api_key=key, session_id=session, request_id="r-1"
    )


STAMP = ("X-Request-Id", "r-1")


@pytest.mark.parametrize(
    "name",
    [
        b"Connection",
        b"keep-alive",
        b"Proxy-Authorization",
        b"TE",
        b"Trailer",
        b"Upgrade",
        b"TRANSFER-ENCODING",
        b"Proxy-Connection",
        b"HTTP2-Settings",
    ],
)
def test_hop_by_hop_headers_stop_here_in_both_directions(name: bytes) -> None:
    assert to_worker((name, b"x"), (b"Accept", b"*/*")) == [("Accept", "*/*"), STAMP]
    assert strip_hop_by_hop([(name, b"x"), (b"Age", b"1")]) == [("Age", "1")]


def test_headers_that_connection_names_stop_here() -> None:
    raw = [
        (b"Connection", b"close, X-Hop ,"),
        (b"x-hop", b"1"),
        (b"connection", b"x-two"),
        (b"X-Two", b"2"),
        (b"X-Stay", b"3"),
    ]
    assert to_worker(*raw) == [("X-Stay", "3"), STAMP]
    assert strip_hop_by_hop(raw) == [("X-Stay", "3")]


@pytest.mark.parametrize(
    "name", [b"Host", b"Content-Length", b"Expect", b"X-Session-ID", b"x-session-id", b"X-Request-Id"]
)
def test_what_we_write_ourselves_is_not_copied(name: bytes) -> None:
    assert to_worker((name, b"client's")) == [STAMP]


def test_the_worker_sees_the_digest_as_session() -> None:
    assert to_worker((b"X-Session-ID", b"raw"), session="d" * 32) == [("X-Session-ID", "d" * 32), STAMP]


@pytest.mark.parametrize("name", [b"Authorization", b"X-Api-Key", b"api-key", b"X-Goog-Api-Key"])
def test_client_credentials_stop_here_when_we_authenticate(name: bytes) -> None:
    assert to_worker((name, b"sk-secret")) == [STAMP]
    assert to_worker((name, b"sk-secret"), key="w") == [("Authorization", "Bearer w"), STAMP]
    assert to_worker((name, b"sk-secret"), forward=True) == [(name.decode(), "sk-secret"), STAMP]


def test_the_worker_s_own_key_replaces_a_forwarded_one() -> None:
    assert to_worker((b"authorization", b"Bearer c"), forward=True, key="w") == [("Authorization", "Bearer w"), STAMP]


def test_cookies_stop_here() -> None:
    """They are for this host; and a worker that read them would give people different answers under one tenant."""
    assert to_worker((b"Cookie", b"a=1; rejoinder_session=x.y"), forward=True) == [STAMP]
    assert to_worker((b"Cookie", b"a=1"), forward=False) == [STAMP]


def test_order_and_duplicates_are_kept() -> None:
    raw = [
        (b"B", b"1"),
        (b"A", b"2"),
        (b"b", b"3"),
        (b"Content-Length", b"7"),
        (b"Set-Cookie", b"x"),
        (b"set-cookie", b"y"),
    ]
    assert strip_hop_by_hop(raw) == [
        ("B", "1"),
        ("A", "2"),
        ("b", "3"),
        ("Content-Length", "7"),
        ("Set-Cookie", "x"),
        ("set-cookie", "y"),
    ]


def test_values_that_cannot_be_written_are_dropped_and_all_others_survive() -> None:
    assert strip_hop_by_hop([(b"A", b"x\ry"), (b"B", b"\x00"), (b"C", b"tab\tok")]) == [("C", "tab\tok")]
    assert strip_hop_by_hop([(b"A", "é 会".encode()), (b"B", b"caf\xe9")]) == [("A", "é 会"), ("B", "café")]


@given(st.lists(st.tuples(st.sampled_from([b"A", b"Connection", b"Cookie", b"X"]), st.binary(max_size=20))))
def test_any_bytes_give_text_that_can_be_written(raw: list[tuple[bytes, bytes]]) -> None:
    for headers in (to_worker(*raw, forward=True), strip_hop_by_hop(raw)):
        for name, value in headers:
            assert not {"\r", "\n", "\0"} & set(name + value)
            value.encode()


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("3", 3.0), (" 120 ", 120.0), ("0", 0.0), ("Tue, 14 Nov 2023 22:13:30 GMT", 10.0),
        ("Tue, 14 Nov 2023 22:13:00 GMT", 0.0), ("soon", None), ("-3", None), ("", None), ("1.5", None),
        ("9" * 400, 999_999_999.0), ("Tue, 99 Nov 2023 22:13:30 GMT", None), ("\u0663", None),
    ],
)  # fmt: skip
def test_how_long_a_busy_worker_wants_to_be_left_alone(value: str, seconds: float | None) -> None:
    assert retry_after_s([("Content-Type", "x"), ("retry-after", value)], 1_700_000_000.0) == seconds


def test_a_worker_that_does_not_say_how_long_is_not_guessed_at() -> None:
    assert retry_after_s([("Content-Type", "x")], 0.0) is None
