"""Settings of the operator's day: roles are roles, tokens are long, and no secret is shown."""

import pytest

from proxy.settings import SettingsError, load, shown


def test_tokens_are_shown_as_their_roles_only() -> None:
    settings, origins = load({"admin_tokens": {"a-secret-of-sixteen": "operate ann"}})
    (tokens,) = [each for each in origins if each.name == "admin_tokens"]
    assert shown(tokens.value) == "1 keys for operate ann" and tokens.origin == "flag"
    assert "a-secret" not in repr(settings)
    assert [each.origin for each in settings.origins() if each.name == "audit_days"] == ["default"]


@pytest.mark.parametrize(("token", "role"), [("short", "read"), ("a-secret-of-sixteen", "boss")])
def test_a_weak_token_or_an_unknown_role_is_refused(token: str, role: str) -> None:
    with pytest.raises(SettingsError, match="admin_tokens"):
        load({"admin_tokens": {token: role}})


def test_a_price_may_be_none_and_never_below_nothing() -> None:
    assert load({"gpu_hour_price": "none"})[0].gpu_hour_price is None
    assert load({"gpu_hour_price": "2.5"})[0].gpu_hour_price == 2.5
    with pytest.raises(SettingsError, match="gpu_hour_price"):
        load({"gpu_hour_price": -1})
