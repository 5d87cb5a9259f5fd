"""Where settings come from, what is refused, and that secrets stay secret."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.settings import Settings, SettingsError, load, shown


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in [name for name in os.environ if name.startswith("REJOINDER_")]:
        monkeypatch.delenv(name)
    yield


def origins(flags: dict[str, Any], file: Path | None = None) -> dict[str, tuple[Any, str]]:
    return {origin.name: (origin.value, origin.origin) for origin in load(flags, file)[1]}


def toml(folder: Path, text: str) -> Path:
    path = folder / "rejoinder.toml"
    path.write_text(text)
    return path


# ── precedence ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_defaults_alone_are_a_whole() -> None:
    settings, told = load({})
    assert settings == Settings()
    assert {origin.origin for origin in told} == {"default"}
    assert [origin.name for origin in told] == list(Settings.model_fields)


def test_flags_beat_the_environment_which_beats_the_file_which_beats_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = toml(tmp_path, "port = 1001\nttl_s = 11.0\ncapacity = 5\n")
    monkeypatch.setenv("REJOINDER_TTL_S", "12")
    monkeypatch.setenv("REJOINDER_CAPACITY", "6")
    found = origins({"capacity": 7, "host": None}, file)
    assert found["port"] == (1001, "file")
    assert found["ttl_s"] == (12.0, "environment")
    assert found["capacity"] == (7, "flag")
    assert found["host"] == ("127.0.0.1", "default")


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("WORKERS", "http://a:8000 http://b:8000", ("http://a:8000", "http://b:8000")),
        ("WORKERS", "http://a:8000,http://b:8000/v1/", ("http://a:8000", "http://b:8000")),
        ("WORKERS", '["http://a:8000"]', ("http://a:8000",)),
        ("API_KEYS", '{"sk-1": "shop"}', {"sk-1": "shop"}),
        ("METRICS", "false", False),
        ("SIMILARITY_THRESHOLD", "0.95", 0.95),
        ("IDLE_S", "none", None),
        ("FIRST_BYTE_S", "None", None),
        ("STATE_DIR", "/tmp/x", Path("/tmp/x")),
        ("CORS_ORIGINS", "https://a.example", ("https://a.example",)),
    ],
)  # fmt: skip
def test_the_environment_is_read_as_people_write_it(
    monkeypatch: pytest.MonkeyPatch, name: str, text: str, value: object
) -> None:
    monkeypatch.setenv(f"REJOINDER_{name}", text)
    assert origins({})[name.lower()] == (value, "environment")


def test_a_file_may_say_the_same(tmp_path: Path) -> None:
    file = toml(tmp_path, 'workers = ["http://a:8000"]\nidle_s = "none"\nstore = "memory"\n[api_keys]\nsk-1 = "shop"\n')
    settings, _ = load({}, file)
    assert settings.workers == ("http://a:8000",)
    assert settings.idle_s is None
    assert settings.store == "memory"
    assert settings.api_keys == {"sk-1": "shop"}


# ── what is refused, and how ─────────────────────────────────────────────────────────────────────────────────────────


def test_an_unknown_key_is_refused_from_each_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingsError, match=r"ttl_seconds \(from the flag\): there is no such setting"):
        load({"ttl_seconds": 5})
    with pytest.raises(SettingsError, match=r"ttl_seconds \(from the file\): there is no such setting"):
        load({}, toml(tmp_path, "ttl_seconds = 5"))
    monkeypatch.setenv("REJOINDER_TTL_SECONDS", "5")
    with pytest.raises(SettingsError, match="Unknown in the environment: REJOINDER_TTL_SECONDS"):
        load({})


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ({"port": 70000}, "port .from the flag.: Input should be less than or equal to 65535"),
        ({"ttl_s": -1}, "ttl_s .from the flag.:"),
        ({"ttl_s": float("nan")}, "ttl_s .from the flag.:"),
        ({"reach": "everywhere"}, "reach .from the flag.:.*'similar'"),
        ({"account_questions": "all"}, "account_questions .from the flag.:.*'shared'"),
        ({"workers": ("vllm:8000",)}, "'vllm:8000' is not a URL such as"),
        ({"workers": ("http://vllm:8000/openai/v1",)}, "give only scheme, host and port"),
        ({"workers": ("http://me:secret@vllm:8000",)}, "set worker_api_key"),
        ({"workers": ("http://vllm:99999",)}, "workers .from the flag.:.*[Pp]ort"),
        ({"workers": ("dns://vllm",)}, "dns://HOST:PORT"),
        ({"workers": ("dns+srv://vllm",)}, "is not a URL such as"),
        ({"workers_refresh_s": 0}, "workers_refresh_s .from the flag.:"),
        ({"processes": 2}, "processes > 1 needs redis_url"),
        ({"redis_url": "redis://h"}, "redis_url needs a secret"),
        ({"api_keys": ["sk-1"]}, "api_keys .from the flag.:"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_named_with_its_source(flags: dict[str, Any], says: str) -> None:
    with pytest.raises(SettingsError) as refused:
        load(flags)
    assert re.search(says, str(refused.value)), str(refused.value)


def test_several_mistakes_are_told_at_once() -> None:
    with pytest.raises(SettingsError) as refused:
        load({"port": -1, "capacity": 0, "typo": 1})
    assert len(str(refused.value).splitlines()) == 3


def test_processes_are_many_where_redis_is_shared() -> None:
    assert load({"processes": 4, "redis_url": "redis://h", "secret": "x" * 32})[0].processes == 4


@pytest.mark.parametrize("threshold", [-0.9, -0.01, 1.01])
def test_a_threshold_that_is_no_cosine_stops_the_start(threshold: float) -> None:
    """A loose one loosens nothing: trust decides, and the threshold only tightens it (tests/cache/test_trust.py)."""
    with pytest.raises(SettingsError, match=r"similarity_threshold \(from the flag\)"):
        load({"similarity_threshold": threshold})


def test_a_stricter_threshold_is_welcome_and_its_direction_is_said() -> None:
    assert load({"similarity_threshold": 0.97})[0].similarity_threshold == 0.97
    assert "higher is stricter" in str(Settings.model_fields["similarity_threshold"].description)


@pytest.mark.parametrize(("text", "says"), [("port = ", "cannot be read"), ("port = 1\nport = 2", "cannot be read")])
def test_a_file_that_is_no_toml_is_said_so(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        load({}, toml(tmp_path, text))


def test_a_file_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="There is no settings file"):
        load({}, tmp_path / "none.toml")
    with pytest.raises(SettingsError, match="cannot be read"):
        load({}, tmp_path)


def test_settings_do_not_change_once_they_are_read() -> None:
    settings, _ = load({})
    with pytest.raises(ValueError, match="frozen"):
        settings.port = 1  # type: ignore[misc]


# ── secrets ──────────────────────────────────────────────────────────────────────────────────────────────────────────

SECRETS = {
    "secret": "s3cret-of-the-house-0123456789abcdef", "worker_api_key": "wk-77", "redis_url": "redis://:pw-88@h",
    "api_keys": {"sk-99": "shop", "sk-98": "bank"},
}  # fmt: skip


def test_no_secret_is_ever_shown() -> None:
    settings, told = load(SECRETS)
    text = "\n".join([*(shown(origin.value) for origin in told), repr(settings), str(settings), str(settings.secret)])
    assert not any(word in text for word in ("s3cret", "wk-77", "pw-88", "sk-99", "sk-98"))
    by_name = {origin.name: shown(origin.value) for origin in told}
    assert by_name["api_keys"] == "2 keys for bank, shop"
    assert by_name["secret"] == by_name["redis_url"] == by_name["worker_api_key"] == "(set)"


def test_a_wrong_secret_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("api_keys", json.dumps({"sk-99": {"name": "pw-88"}})), ("api_keys", "sk-99")):
        monkeypatch.setenv(f"REJOINDER_{name.upper()}", value)
        with pytest.raises(SettingsError) as refused:
            load({})
        assert not any(word in str(refused.value) for word in ("sk-99", "pw-88"))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "(none)"),
        ((), "(none)"),
        (("a", "b"), "a b"),
        ({}, "{}"),
        (True, "True"),
        (5.0, "5.0"),
        (Path("/x"), "/x"),
    ],
)
def test_values_are_shown_for_people(value: object, text: str) -> None:
    assert shown(value) == text


# ── facts ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", list(Settings.model_fields))
def test_every_setting_says_what_it_is_and_in_which_unit(name: str) -> None:
    words = Settings.model_fields[name].description or ""
    assert words.endswith(".")
    assert not name.endswith("_s") or "seconds" in words or "vector" in words or "store" in words


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("localhost", True),
        ("::1", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
    ],
)
def test_what_only_this_machine_can_reach(host: str, loopback: bool) -> None:
    assert Settings(host=host).loopback is loopback


@given(
    st.dictionaries(
        st.sampled_from([*Settings.model_fields, "nonsense"]),
        st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    )
)
def test_whatever_is_given_settings_are_read_or_refused_in_words(flags: dict[str, Any]) -> None:
    try:
        settings, told = load(flags)
    except SettingsError as refused:
        assert str(refused)
        return
    assert all(getattr(settings, origin.name) == origin.value for origin in told)


def test_workers_may_be_urls_and_names() -> None:
    settings, _ = load({"workers": "http://a:8000/v1, dns://vllm:8000"})
    assert settings.workers == ("http://a:8000", "dns://vllm:8000")


def test_a_file_of_workers_is_a_path_or_none() -> None:
    assert load({"workers_file": "/etc/workers.toml"})[0].workers_file == Path("/etc/workers.toml")
    assert load({"workers_file": "none"})[0].workers_file is None
