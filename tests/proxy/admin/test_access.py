"""Who comes in at /admin, in which role, and by which way."""

import pytest
from multidict import CIMultiDict

from proxy.admin.access import COOKIE, CSRF_HEADER, SESSION_S, Access
from proxy.auth import Door, Role, read_role
from proxy.errors import Forbidden, Unauthorized

SECRET = b"s" * 32
TOKENS = {"token-of-ann-0001": "operate ann", "token-of-bob-0002": "read"}
KEYS = {"key-ops": "ops", "key-cur": "ops", "key-ann": "ann"}


class Clock:
    now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


def access(
    tokens: dict[str, str] | None = None, keys: dict[str, str] | None = None, *, loopback: bool = True,
    clock: Clock | None = None,
) -> Access:  # fmt: skip
    door = Door(keys or {}, frozenset({"ops"}), SECRET, open_loopback=loopback, curate_keys=frozenset({"key-cur"}))
    return Access(door, tokens or {}, keys or {}, SECRET, clock or Clock())


def headers(key: str | None = None, **named: str) -> CIMultiDict[str]:
    sent = CIMultiDict({"Host": "127.0.0.1:8080", **{name.replace("_", "-"): text for name, text in named.items()}})
    if key:
        sent["Authorization"] = f"Bearer {key}"
    return sent


# ── this machine, without a token ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("host", [None, "127.0.0.1:8080", "localhost", "LOCALHOST:8080", "[::1]:8080", "127.1.2.3"])
def test_somebody_on_this_machine_may_do_everything(host: str | None) -> None:
    sent = CIMultiDict({"Host": host} if host else {})
    assert access().enter("DELETE", sent, {}).role is Role.OPERATE


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "10.0.0.1:8080", "[::2]", "a]b", "127.x"])
def test_a_page_whose_own_name_points_here_may_not(host: str) -> None:
    """DESIGN 8: DNS rebinding; such a page sends no Origin with a GET, or its own, which is our Host."""
    for more in ({}, {"Origin": f"http://{host}"}):
        with pytest.raises(Forbidden, match=r"127\.0\.0\.1"):
            access().enter("GET", headers(**{"Host": host, **more}), {})


@pytest.mark.parametrize("header", ["Forwarded", "X_Forwarded_Proto", "X_Real_IP", "Via", "CF_Connecting_IP"])
def test_without_a_token_nobody_comes_in_through_another_proxy(header: str) -> None:
    with pytest.raises(Forbidden, match="direct callers"):
        access().enter("GET", headers(**{header: "x"}), {})
    assert access(TOKENS).enter("GET", headers("token-of-bob-0002", **{header: "x"}), {}).role is Role.READ


def test_nginx_as_it_is_installed_names_nobody_but_speaks_an_old_protocol() -> None:
    with pytest.raises(Forbidden, match=r"another proxy \(HTTP/1\.0\)"):
        access().enter("POST", headers(Connection="close"), {}, (1, 0))
    assert access(TOKENS).enter("POST", headers("token-of-ann-0001"), {}, (1, 0)).role is Role.OPERATE


@pytest.mark.parametrize("origin", ["https://evil.example", "http://127.0.0.1:9", "http://localhost:8080", "null"])
def test_no_page_of_another_origin_comes_in_whoever_it_says_it_is(origin: str) -> None:
    for who, key in ((access(), None), (access(TOKENS), "token-of-ann-0001"), (access(keys=KEYS), "key-ops")):
        with pytest.raises(Forbidden, match="another origin"):
            who.enter("POST", headers(key, Origin=origin), {})
        with pytest.raises(Forbidden, match="another site"):
            who.enter("GET", headers(key, Sec_Fetch_Site="cross-site"), {})
        assert who.enter("POST", headers(key, Origin="http://127.0.0.1:8080", Sec_Fetch_Site="same-origin"), {})


def test_a_bind_that_is_public_lets_nobody_in_without_a_token() -> None:
    with pytest.raises(Forbidden, match="admin_tokens"):
        access(loopback=False).enter("GET", headers(), {})


# ── tokens and keys ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_token_has_the_role_and_the_name_that_stand_beside_it() -> None:
    ann = access(TOKENS).enter("GET", headers("token-of-ann-0001"), {})
    assert (ann.name, ann.role, ann.tenant.trusted) == ("ann", Role.OPERATE, True)
    bob = access(TOKENS).enter("GET", headers("token-of-bob-0002"), {})
    assert bob.role is Role.READ and bob.name.startswith("read token ") and "bob-0002" not in bob.name


def test_once_there_are_tokens_this_machine_is_nobody_either() -> None:
    for sent in (headers(), headers("wrong-token-00001")):
        with pytest.raises(Unauthorized):
            access(TOKENS).enter("GET", sent, {})


def test_keys_of_trusted_tenants_look_and_those_of_curators_curate() -> None:
    roles = {key: access(keys=KEYS).enter("GET", headers(key), {}).role for key in ("key-ops", "key-cur")}
    assert roles == {"key-ops": Role.READ, "key-cur": Role.CURATE}
    with pytest.raises(Forbidden, match="trusted_tenants"):
        access(keys=KEYS).enter("GET", headers("key-ann"), {})


def test_who_is_not_known_is_told_the_same_words_whatever_he_shows() -> None:
    words = set()
    for sent in (headers(), headers("nonsense"), headers("token-of-ann-000"), headers("ключ")):
        with pytest.raises(Unauthorized) as refused:
            access(TOKENS, KEYS).enter("GET", sent, {COOKIE: "x.y.z.0"})
        words.add(refused.value.message)
    assert len(words) == 1


def test_a_role_is_written_with_a_name_or_without() -> None:
    assert read_role("read") == (Role.READ, "")
    assert read_role("OPERATE  Ann B. ") == (Role.OPERATE, "Ann B.")


@pytest.mark.parametrize("written", ["", "admin", "read\nann\x00", "curate " + "x" * 65])
def test_a_role_that_is_none_is_refused(written: str) -> None:
    with pytest.raises(ValueError, match=r"no role|a name has"):
        read_role(written)


# ── a browser's session ──────────────────────────────────────────────────────────────────────────────────────────────


def test_a_session_looks_with_its_cookie_and_changes_with_its_csrf_token() -> None:
    clock = Clock()
    who = access(TOKENS, clock=clock)
    person, cookie = who.open_session("token-of-ann-0001")
    assert person.role is Role.OPERATE and len(person.csrf) == 32 and person.csrf not in cookie
    assert "token-of-ann" not in cookie
    assert who.enter("GET", headers(), {COOKIE: cookie}) == person
    for csrf in ({}, {"X_CSRF_Token": "0" * 32}, {"X_CSRF_Token": "é"}):
        with pytest.raises(Forbidden, match=CSRF_HEADER):
            who.enter("DELETE", headers(**csrf), {COOKIE: cookie})
    assert who.enter("DELETE", headers(X_CSRF_Token=person.csrf), {COOKIE: cookie}) == person
    clock.now_s += SESSION_S
    with pytest.raises(Unauthorized):
        who.enter("GET", headers(), {COOKIE: cookie})


def test_a_session_ends_with_its_token_and_cannot_be_made_up() -> None:
    _, cookie = access(TOKENS).open_session("token-of-ann-0001")
    fewer = access({"token-of-bob-0002": "read"})
    with pytest.raises(Unauthorized):
        fewer.enter("GET", headers(), {COOKIE: cookie})
    until, *rest = cookie.split(".")
    for forged in ("", "....", f"{int(until) + 9}.{'.'.join(rest)}", cookie[:-1], "é" + cookie, cookie + "é"):
        with pytest.raises(Unauthorized):
            access(TOKENS).enter("GET", headers(), {COOKIE: forged})
    with pytest.raises(Unauthorized):
        access(TOKENS).open_session("token-of-nobody-1")


def test_the_session_of_one_does_not_carry_the_csrf_token_of_another() -> None:
    who = access(TOKENS)
    ann, _ = who.open_session("token-of-ann-0001")
    _, other = who.open_session("token-of-ann-0001")
    with pytest.raises(Forbidden):
        who.enter("POST", headers(X_CSRF_Token=ann.csrf), {COOKIE: other})
