"""English and Chinese are told apart, and from the rest of the world."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cache.language import language


@pytest.mark.parametrize(
    "text",
    [
        "Where can I park?",
        "reset pin",
        "flu vaccine side effects",
        "café near the résumé shop",
        "What does 再见 mean?",
        "C++ or Rust",
    ],
)
def test_english(text: str) -> None:
    assert language(text) == "en"


@pytest.mark.parametrize(
    "text",
    [
        "怎么停车",
        "在 Spotify 上播放 Adele 的歌",
        "iPhone 15 Pro Max 多少钱",
        "请问 the end of the world 这首歌是谁唱的",
        "停车費多少",
    ],
)
def test_chinese(text: str) -> None:
    assert language(text) == "zh"


@pytest.mark.parametrize(
    "text",
    [
        "Wo kann ich parken?", "Passwort vergessen", "Où puis-je me garer ?", "¿Dónde puedo aparcar?",
        "Dove posso parcheggiare",
        "Onde posso estacionar meu carro", "Waar kan ik mijn auto parkeren", "駐車場はどこですか", "駅",
        "주차할 수 있나요",
        "где можно парковаться", "أين يمكنني الوقوف", "που μπορώ να παρκάρω", "मैं कहाँ पार्क कर सकता हूँ",
        "ที่จอดรถอยู่ที่ไหน",
        "hur kan jag parkera", "gdzie mogę zaparkować", "nerede park edebilirim ve bu ne kadar",
    ],
)  # fmt: skip
def test_everything_else_is_other(text: str) -> None:
    assert language(text) == "other"


@pytest.mark.parametrize("text", ["", "48213", "3 + 4 = ?", "🙂", "…"])
def test_without_letters_nothing_can_be_told(text: str) -> None:
    assert language(text) == "und"


@given(st.text(max_size=80))
def test_every_text_gets_one_of_four_answers(text: str) -> None:
    assert language(text) in ("en", "zh", "other", "und")
