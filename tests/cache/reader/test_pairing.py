"""How two questions stand in one row of tokens."""

from cache.reader.pairing import END, PAD, START, batched, paired

A = [START, 10, 11, END]
B = [START, 10, 12, 13, END]


def test_the_second_text_follows_without_a_start_of_its_own() -> None:
    ids, _ = paired(A, B)
    assert ids == [START, 10, 11, END, 10, 12, 13, END]


def test_a_token_says_whose_it_is_and_whether_the_other_text_has_it_too() -> None:
    _, kinds = paired(A, B)
    assert kinds == [0, 0, 1, 0, 2, 3, 3, 2]


def test_equal_texts_own_nothing() -> None:
    assert set(paired(A, A)[1]) == {0, 2}


def test_a_batch_is_padded_to_its_longest_and_the_mask_knows_it() -> None:
    ids, kinds, mask = batched([(A, B), (A, A)])
    assert ids.shape == kinds.shape == mask.shape == (2, 8)
    assert mask.sum(axis=1).tolist() == [8, 7]
    assert ids[1, 7] == PAD
    assert kinds[1, 7] == 0
