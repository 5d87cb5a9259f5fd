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


@pytest.mark.parametrize("authorization", ["Bearer sk-shop", "bearer  sk-shop ", "BEARER sk-shop", "sk-shop"])
def test_a_known_key_is_its_tenant(authorization: str) -> None:
    assert door().enter(authorization, None) == Tenant("shop", False)


def test_a_key_may_come_as_anthropics_clients_send_it() -> None:
    assert door().enter(None, "sk-bank") == Tenant("bank", False)
    assert door().enter("Bearer ", "sk-bank") == Tenant("bank", False)


def test_two_keys_of_one_tenant_share() -> None:
    assert door().enter("Bearer sk-shop", None) == door().enter("Bearer sk-shop-2", None)


@pytest.mark.parametrize("authorization", [None, "", "Bearer", "Bearer   "])
def test_who_brings_no_key_is_told_how(authorization: str | None) -> None:
    with pytest.raises(Unauthorized, match="Authorization: Bearer") as refused:
        door().enter(authorization, None)
    assert (refused.value.status, refused.value.code) == (401, "invalid_api_key")


@pytest.mark.parametrize("key", ["sk-wrong", "sk-sho", "sk-shop-", "SK-SHOP", "sk-shop\x00", "ключ", "\udce9"])
def test_a_wrong_key_is_refused_and_not_repeated(key: str) -> None:
    with pytest.raises(Unauthorized, match="Incorrect API key") as refused:
        door().enter(f"Bearer {key}", None)
    assert key not in refused.value.message


def test_the_bearer_key_counts_where_two_keys_come() -> None:
    with pytest.raises(Unauthorized):
        door().enter("Bearer sk-wrong", "sk-shop")


def test_only_named_tenants_are_trusted() -> None:
    watched = door(trusted=frozenset({"bank"}))
    assert watched.enter("Bearer sk-bank", None).trusted
    assert not watched.enter("Bearer sk-shop", None).trusted


def test_loopback_is_trusted_only_without_keys() -> None:
    assert door({}, loopback=True).enter(None, None) == Tenant(NOBODY, True)
    assert door({}, loopback=False).enter(None, None) == Tenant(NOBODY, False)
    assert not door(loopback=True).enter("Bearer sk-shop", None).trusted


def test_without_keys_everybodys_own_key_is_a_tenant_of_its_own() -> None:
    house = door({})
    one, two = house.enter("Bearer key-one", None), house.enter("Bearer key-two", None)
    assert len({one.name, two.name, NOBODY}) == 3
    assert one == house.enter(None, "key-one")
    assert not house.authenticates
    assert door().authenticates


@given(st.text(min_size=1, max_size=60).filter(lambda key: key.strip() == key and " " not in key))
def test_a_tenants_name_tells_nothing_of_the_key(key: str) -> None:
    name = door({}).enter(f"Bearer {key}", None).name
    assert len(name) == 32
    assert set(name) <= set("0123456789abcdef")
    assert name != door({}, secret=b"t" * 32).enter(f"Bearer {key}", None).name
