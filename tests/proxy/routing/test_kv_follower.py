from collections.abc import Iterable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.routing.blocks import Blocks, own_hashes
from proxy.routing.kv_follower import Counts, Follower
from proxy.routing.kv_wire import END

NOW_S = 1_000.0


class Engine:
    """One life of a publisher: batch `n` stores a block of its own, so that what is missing can be seen."""

    def __init__(self, life: int = 0, *, keeps: int = 10_000, topic: bool = True) -> None:
        self.life = life
        self.keeps = keeps
        self.topic = topic
        self.sent: list[bytes] = []

    def publish(self, *events: object) -> list[bytes]:
        seq = len(self.sent)
        told = events or ({"type": "BlockStored", "block_hashes": [1000 * self.life + seq], "parent_block_hash": None,
                           "token_ids": [self.life, seq], "block_size": 2, "session_id": f"s{seq}"},)  # fmt: skip
        self.sent.append(msgspec.msgpack.encode([NOW_S - 1 + self.life / 8 + seq / 1e6, told, 0]))
        return self.live(seq)

    def live(self, seq: int) -> list[bytes]:
        return [b"kv", seq.to_bytes(8, "big"), self.sent[seq]]

    def replay(self, start: int) -> Iterable[list[bytes]]:
        topic = [b"kv"] if self.topic else []
        for seq in range(max(start, len(self.sent) - self.keeps), len(self.sent)):
            yield [b"", *topic, seq.to_bytes(8, "big"), self.sent[seq]]
        yield [b"", *(b"" for _ in topic), END.to_bytes(8, "big", signed=True), b""]

    def own(self, seq: int) -> int:
        return own_hashes([self.life, seq], 2)[0]

    @property
    def owns(self) -> set[int]:
        return {self.own(seq) for seq in range(len(self.sent))}


def following() -> Follower:
    return Follower(Blocks(), wall=lambda: NOW_S)


def catch_up(follower: Follower, engine: Engine) -> None:
    for _ in range(3):
        for frames in engine.replay(follower.wants()):
            over = follower.replayed(frames)
        assert over
        if not follower.caught_up():
            return
    raise AssertionError("it does not get there")


def hear(follower: Follower, engine: Engine, frames: list[bytes]) -> None:
    if follower.live(frames):
        catch_up(follower, engine)


def known(follower: Follower) -> set[int]:
    return set(follower.blocks._parents)


def test_who_listens_from_the_first_batch_knows_everything() -> None:
    engine, follower = Engine(), following()
    assert not follower.complete
    for _ in range(3):
        assert not follower.live(engine.publish())
    assert follower.complete and follower.blocks.complete and known(follower) == engine.owns
    assert follower.counts == Counts(batches=3, blocks=3, lag_s=pytest.approx(1.0, abs=1e-3))


@pytest.mark.parametrize("topic", [True, False])
def test_who_comes_late_asks_for_what_was(topic: bool) -> None:
    engine, follower = Engine(topic=topic), following()
    for _ in range(5):
        engine.publish()
    catch_up(follower, engine)
    assert follower.complete and known(follower) == engine.owns
    hear(follower, engine, engine.publish())
    assert known(follower) == engine.owns and (follower.counts.replays, follower.counts.gaps) == (1, 0)


def test_an_engine_that_has_published_nothing_holds_nothing() -> None:
    engine, follower = Engine(), following()
    catch_up(follower, engine)
    assert follower.complete and len(follower.blocks) == 0 and follower.counts.purges == 0


def test_a_gap_is_filled_and_nothing_is_applied_twice() -> None:
    engine, follower = Engine(), following()
    hear(follower, engine, engine.publish())
    for _ in range(3):
        engine.publish()  # lost on the way
    hear(follower, engine, engine.publish())
    assert known(follower) == engine.owns and follower.blocks.references == 5
    assert (follower.counts.gaps, follower.counts.replays, follower.counts.purges) == (1, 1, 0)
    hear(follower, engine, engine.live(4))  # it waited in the socket meanwhile
    assert follower.blocks.references == 5 and follower.counts.duplicates == 1


def test_a_message_that_comes_twice_counts_once() -> None:
    engine, follower = Engine(), following()
    frames = engine.publish()
    hear(follower, engine, frames)
    hear(follower, engine, frames)
    assert follower.blocks.references == 1 and follower.counts.duplicates == 1 and follower.counts.restarts == 0


def test_the_first_message_of_a_new_engine_removes_all_of_the_old_ones_blocks() -> None:
    """llm-d-router#2853: after a restart in place the index kept the dead engine's blocks."""
    old, new, follower = Engine(), Engine(1), following()
    for _ in range(4):
        hear(follower, old, old.publish())
    hear(follower, new, new.publish())
    assert known(follower) == new.owns and follower.complete
    assert (follower.counts.restarts, follower.counts.purges, follower.trouble) == (1, 1, "the engine was restarted")


def test_a_new_engine_with_the_same_number_is_no_duplicate() -> None:
    old, new, follower = Engine(), Engine(1), following()
    hear(follower, old, old.publish())
    hear(follower, new, new.publish())
    assert known(follower) == new.owns and follower.counts.restarts == 1


@pytest.mark.parametrize("unheard", [1, 4, 6, 9])
def test_a_new_engine_is_noticed_by_its_messages_alone(unheard: int) -> None:
    """Unless the first one heard has just the number that was next: a reconnection must be told, see below."""
    old, new, follower = Engine(), Engine(1), following()
    for _ in range(5):
        hear(follower, old, old.publish())
    for _ in range(unheard):
        new.publish()
    hear(follower, new, new.publish())
    assert known(follower) == new.owns and follower.complete and follower.counts.restarts == 1


@pytest.mark.parametrize("published", [0, 1, 5, 6, 9])
def test_a_reconnection_finds_out_whether_it_is_the_same_engine(published: int) -> None:
    old, new, follower = Engine(), Engine(1), following()
    for _ in range(5):
        hear(follower, old, old.publish())
    catch_up(follower, old)
    assert follower.counts.restarts == 0 and known(follower) == old.owns
    for _ in range(published):
        new.publish()
    catch_up(follower, new)
    assert follower.counts.restarts == 1 and known(follower) == new.owns and follower.complete


def test_what_the_worker_does_not_keep_is_unknown_and_said_so() -> None:
    engine, follower = Engine(keeps=3), following()
    for _ in range(8):
        engine.publish()
    catch_up(follower, engine)
    assert known(follower) == {engine.own(seq) for seq in (5, 6, 7)}
    assert not follower.complete and "buffer_steps" in str(follower.trouble)
    hear(follower, engine, engine.publish({"type": "AllBlocksCleared"}))
    assert follower.complete and not known(follower)  # after a reset nothing is unknown


def test_a_gap_wider_than_what_the_worker_keeps_forgets_what_may_be_gone() -> None:
    engine, follower = Engine(keeps=3), following()
    hear(follower, engine, engine.publish())
    for _ in range(8):
        engine.publish()
    hear(follower, engine, engine.publish())
    assert known(follower) == {engine.own(seq) for seq in (7, 8, 9)}
    assert not follower.complete and follower.counts.purges == 1


def test_without_a_replay_it_goes_on_from_now() -> None:
    engine, follower = Engine(), following()
    hear(follower, engine, engine.publish())
    engine.publish()
    assert follower.live(engine.publish())
    follower.gave_up("there is no replay")
    assert known(follower) == {engine.own(2)} and not follower.complete
    assert not follower.live(engine.publish())
    assert known(follower) == {engine.own(2), engine.own(3)} and follower.trouble == "there is no replay"
    follower.start_over()
    catch_up(follower, engine)
    assert follower.complete and known(follower) == engine.owns


def test_a_replay_that_breaks_off_does_not_leave_half_a_history_behind() -> None:
    engine, follower = Engine(), following()
    for _ in range(4):
        engine.publish()
    for frames in list(engine.replay(follower.wants()))[:2]:
        assert not follower.replayed(frames)
    follower.gave_up("it broke off")
    assert not known(follower) and not follower.complete
    hear(follower, engine, engine.publish())
    assert follower.complete and known(follower) == engine.owns


def test_an_unreadable_batch_may_have_told_of_removals() -> None:
    engine, follower = Engine(), following()
    hear(follower, engine, engine.publish())
    engine.sent.append(b"\xc1 not msgpack")
    hear(follower, engine, engine.live(1))
    assert not known(follower) and not follower.complete and follower.counts.malformed == 1
    hear(follower, engine, engine.publish())
    assert known(follower) == {engine.own(2)} and "unreadable" in str(follower.trouble)
    assert not follower.live([b"what is this"]) and not follower.replayed([b"and this"])
    assert follower.counts.malformed == 3


def test_sessions_are_told_when_their_tips_move() -> None:
    told: list[str] = []
    engine, follower = Engine(), Follower(Blocks(), on_tip=told.append)
    for _ in range(2):
        hear(follower, engine, engine.publish())
    assert told == ["s0", "s1"] and follower.blocks.tip("s1") == engine.own(1)


def test_counts_of_several_ranks_add_up_and_the_longest_lag_stays() -> None:
    total = Counts(batches=2, lag_s=0.5)
    total.add(Counts(batches=3, gaps=1, lag_s=0.2))
    assert (total.batches, total.gaps, total.lag_s) == (5, 1, 0.5)


STEPS = st.lists(st.sampled_from(["heard", "lost", "again", "restart", "reconnect", "cut"]), max_size=40)


@given(STEPS, st.sampled_from([2, 5, 10_000]), st.booleans())
def test_whatever_happens_nothing_is_known_that_is_not_there(steps: list[str], keeps: int, topic: bool) -> None:
    engine, follower = Engine(keeps=keeps, topic=topic), following()
    catch_up(follower, engine)
    away = False
    for step in steps:
        if away and step != "lost":
            catch_up(follower, engine)
            away = False
        if step == "lost":
            engine.publish()
        elif step == "restart":
            engine, away = Engine(engine.life + 1, keeps=keeps, topic=topic), True
            continue
        elif step == "reconnect":
            catch_up(follower, engine)
        elif step == "cut":
            if follower.live(engine.publish()):
                follower.wants()
                follower.gave_up("too slow")
        elif step == "again" and engine.sent:
            hear(follower, engine, engine.live(len(engine.sent) - 1))
        else:
            hear(follower, engine, engine.publish())
        if step not in ("lost", "again"):
            assert known(follower) <= engine.owns
            assert not follower.complete or known(follower) == engine.owns
        assert follower.blocks.references == len(known(follower))
