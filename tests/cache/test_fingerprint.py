"""Canonical bytes, the exact key with its proof, and the digest of the wording."""

import hashlib
import hmac
import math
import random
import time

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cache.fingerprint import canonical, exact, wording

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)


def shuffled(value: object, luck: random.Random) -> object:
    if isinstance(value, dict):
        keys = list(value)
        luck.shuffle(keys)
        return {key: shuffled(value[key], luck) for key in keys}
    return [shuffled(item, luck) for item in value] if isinstance(value, list) else value


class TestCanonical:
    @given(_JSON, st.integers(0, 2**16))
    def test_the_order_of_keys_does_not_matter(self, value: object, seed: int) -> None:
        assert canonical(shuffled(value, random.Random(seed))) == canonical(value)

    @given(_JSON)
    def test_nothing_is_lost(self, value: object) -> None:
        assert orjson.loads(canonical(value)) == value

    def test_the_order_of_a_list_does_matter(self) -> None:
        assert canonical(["first", "second"]) != canonical(["second", "first"])

    def test_one_and_one_point_zero_are_kept_apart(self) -> None:
        """A tool schema is rendered into the prompt as it was written: the model can tell `1` from `1.0`."""
        assert canonical({"minimum": 1}) != canonical({"minimum": 1.0})

    def test_true_is_not_one(self) -> None:
        assert canonical({"flag": True}) != canonical({"flag": 1})

    def test_absent_null_and_zero_are_three_things(self) -> None:
        assert len({canonical({}), canonical({"seed": None}), canonical({"seed": 0})}) == 3

    @pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
    def test_what_json_cannot_say_is_no_null(self, number: float) -> None:
        with pytest.raises(ValueError, match="not JSON"):
            canonical({"temperature": [number]})

    def test_an_honest_null_beside_a_number_is_fine(self) -> None:
        assert canonical({"stop": None, "temperature": 0.5}) == b'{"stop":null,"temperature":0.5}'

    @pytest.mark.parametrize("value", [{"a": object()}, "\ud800", 2**70, {1: "a key that is no text"}])
    def test_foreign_values_are_refused(self, value: object) -> None:
        with pytest.raises(ValueError, match="not JSON"):
            canonical(value)


class TestExact:
    SECRET = b"thirty-two bytes of pure chance!"

    def test_the_proof_is_a_truncated_hmac_of_prefix_and_bytes(self) -> None:
        _, proof = exact(b"acme/chat", b'{"a":1}', self.SECRET)
        expected = hmac.new(self.SECRET, b'9:acme/chat{"a":1}', hashlib.sha256).hexdigest()[:32]
        assert proof == expected

    def test_a_long_secret_is_hashed_first_as_the_standard_says(self) -> None:
        secret = b"x" * 100
        assert exact(b"", b"body", secret)[1] == hmac.new(secret, b"0:body", hashlib.sha256).hexdigest()[:32]

    def test_both_are_thirty_two_hex_digits(self) -> None:
        for digest in exact(b"acme", b"{}", self.SECRET):
            assert len(digest) == 32
            assert int(digest, 16) >= 0

    def test_two_tenants_with_the_same_bytes_have_nothing_in_common(self) -> None:
        ours, theirs = exact(b"acme", b"{}", self.SECRET), exact(b"globex", b"{}", self.SECRET)
        assert ours[0] != theirs[0]
        assert ours[1] != theirs[1]

    def test_no_byte_can_wander_from_the_prefix_into_the_body(self) -> None:
        assert exact(b"ab", b"c", self.SECRET) != exact(b"a", b"bc", self.SECRET)
        assert exact(b"1:a", b"", self.SECRET) != exact(b"", b"1:a", self.SECRET)

    def test_another_secret_gives_the_same_key_and_another_proof(self) -> None:
        one, other = exact(b"acme", b"{}", b"one"), exact(b"acme", b"{}", b"two")
        assert one[0] == other[0]
        assert one[1] != other[1]

    def test_a_kilobyte_takes_a_few_microseconds(self) -> None:
        """Measured 2.2 µs on our 2-core machine; the bound leaves room for a busy one."""
        body, best = b"x" * 1024, math.inf
        for _ in range(20):
            start = time.process_time()
            for _ in range(2000):
                exact(b"acme/chat", body, self.SECRET)
            best = min(best, (time.process_time() - start) / 2000)
        assert best < 8e-6


class TestWording:
    def test_it_is_thirty_two_hex_digits(self) -> None:
        digest = wording("Where do I park?")
        assert digest is not None
        assert len(digest) == 32
        assert int(digest, 16) >= 0

    @pytest.mark.parametrize(
        "text", ["", "   ", "?!", "…", "Hi!", "hello there", "Thank you!", "你好", "谢谢！", "🙏"[:0]]
    )
    def test_there_is_none_without_words(self, text: str) -> None:
        assert wording(text) is None

    def test_words_do_not_run_into_one_another(self) -> None:
        assert wording("a bc") != wording("ab c")

    @given(st.text(max_size=60))
    def test_any_text_has_one_answer(self, text: str) -> None:
        assert wording(text) == wording(text)
