"""Keys to tenants: who is let in, under which name, and that no key can be read off a name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.auth import NOBODY, Door, Tenant
from proxy.errors import Unauthorized

SECRET = b"s" * 32
KEYS = {"sk-shop": "shop", "sk-shop-2": "shop", "sk-bank": "bank"}


def door(
    keys: dict[str, str] = KEYS, *, trusted: frozenset[str] = frozenset(), loopback: bool = True, secret: bytes = SECRET
) -> Door:
    return Door(keys, trusted, secret, open_loopback=loopback)


def said(authorization: str | None, api_key: str | None = None) -> dict[str, str]:
    named = {"Authorization": authorization, "X-Api-Key": api_key}
    return {name: value for name, value in named.items() if value is not None}


@pytest.mark.parametrize("authorization", ["Bearer sk-shop", "bearer  sk-shop ", "BEARER sk-shop", "sk-shop"])
def test_a_known_key_is_its_tenant(authorization: str) -> None:
    assert door().enter(said(authorization)) == Tenant("shop", False)


def test_a_key_may_come_as_anthropics_clients_send_it() -> None:
    assert door().enter(said(None, "sk-bank")) == Tenant("bank", False)
    assert door().enter(said("Bearer ", "sk-bank")) == Tenant("bank", False)


def test_two_keys_of_one_tenant_share() -> None:
    assert door().enter(said("Bearer sk-shop")) == door().enter(said("Bearer sk-shop-2"))


@pytest.mark.parametrize("authorization", [None, "", "Bearer", "Bearer   "])
def test_who_brings_no_key_is_told_how(authorization: str | None) -> None:
    with pytest.raises(Unauthorized, match="Authorization: Bearer") as refused:
        door().enter(said(authorization))
    assert (refused.value.status, refused.value.code) == (401, "invalid_api_key")


@pytest.mark.parametrize("key", ["sk-wrong", "sk-sho", "sk-shop-", "SK-SHOP", "sk-shop\x00", "ключ", "\udce9"])
def test_a_wrong_key_is_refused_and_not_repeated(key: str) -> None:
    with pytest.raises(Unauthorized, match="Incorrect API key") as refused:
        door().enter(said(f"Bearer {key}"))
    assert key not in refused.value.message


def test_the_bearer_key_counts_where_two_keys_come() -> None:
    with pytest.raises(Unauthorized):
        door().enter(said("Bearer sk-wrong", "sk-shop"))


def test_only_named_tenants_are_trusted() -> None:
    watched = door(trusted=frozenset({"bank"}))
    assert watched.enter(said("Bearer sk-bank")).trusted
    assert not watched.enter(said("Bearer sk-shop")).trusted


def test_loopback_is_trusted_only_without_keys() -> None:
    assert door({}, loopback=True).enter({}) == Tenant(NOBODY, True)
    assert door({}, loopback=False).enter({}) == Tenant(NOBODY, False)
    assert not door(loopback=True).enter(said("Bearer sk-shop")).trusted


def test_without_keys_everybodys_own_key_is_a_tenant_of_its_own() -> None:
    house = door({})
    one, two = house.enter(said("Bearer key-one")), house.enter(said("Bearer key-two"))
    assert len({one.name, two.name, NOBODY}) == 3
    assert one == house.enter(said(None, "key-one"))
    assert not house.authenticates
    assert door().authenticates


@given(st.text(min_size=1, max_size=60).filter(lambda key: key.strip() == key and " " not in key))
def test_a_tenants_name_tells_nothing_of_the_key(key: str) -> None:
    name = door({}).enter(said(f"Bearer {key}")).name
    assert len(name) == 32
    assert set(name) <= set("0123456789abcdef")
    assert name != door({}, secret=b"t" * 32).enter(said(f"Bearer {key}")).name
