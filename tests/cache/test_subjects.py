"""What a text names, and what an answer borrows from turns it was not asked with."""

from cache.subjects import borrowed, own_han, subjects


def test_subjects_are_words_that_name_something() -> None:
    assert subjects("How long does it take to get a mortgage?") == {"mortgage"}
    assert subjects("that could be it, please") == frozenset()
    assert "退货" in subjects("怎么申请退货")


def test_an_answer_borrows_what_only_other_turns_named() -> None:
    others = ["How do I open a mortgage?"]
    assert borrowed("A mortgage takes two weeks.", ["how long does it take?"], others) == "mortgage"
    assert borrowed("Two weeks.", ["how long does it take?"], others) is None
    assert borrowed("A mortgage takes two weeks.", ["how long does a mortgage take?"], others) is None
    assert borrowed("退货需要三天", ["要多久"], ["怎么退货"]) == "退货"


def test_what_is_left_of_a_chinese_question_is_what_it_names() -> None:
    assert own_han("怎么重置密码？") == "重置密码"
    assert own_han("需要多长时间") == ""
