"""Where the rows are tested that no client can see from outside; and that no row is forgotten."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# Row → tests of ours, as file::name.
INSIDE: dict[int, tuple[str, ...]] = {
    12: ("tests/proxy/routing/test_memory.py::test_ten_thousand_unique_prompts_leave_the_memory_bounded_and_small",
         "tests/proxy/routing/test_memory.py::test_it_never_keeps_more_than_a_worker_has_room_for"),
    13: ("tests/proxy/routing/test_blocks.py::test_memory_does_not_grow_with_what_came_and_went",),
    14: ("tests/proxy/test_kv_events.py::test_a_restarted_engine_has_none_of_its_blocks_any_more",
         "tests/journeys/test_workers_come_and_go.py::"
         "test_a_worker_that_restarts_while_nobody_asks_it_is_still_a_new_one"),
    15: ("tests/proxy/test_kv_events.py::test_the_workers_own_reset_clears_all",
         "tests/proxy/routing/test_memory.py::"
         "test_a_worker_that_remembers_nothing_three_times_is_believed_to_be_empty"),
    16: ("tests/proxy/test_kv_events.py::test_what_was_lost_on_the_way_is_replayed_once",
         "tests/proxy/routing/test_kv_follower.py::test_a_gap_is_filled_and_nothing_is_applied_twice",
         "tests/proxy/routing/test_kv_wire.py::test_a_replay_is_read_with_its_topic_and_without"),
    22: ("tests/journeys/test_doors.py::test_health_answers_at_once_while_a_thousand_wait",),
    30: ("tests/journeys/test_passthrough.py::test_memory_does_not_grow_with_requests_that_are_over",),
    32: ("tests/journeys/test_failing_workers.py::"
         "test_a_worker_that_dies_in_mid_answer_is_told_as_an_error_and_nothing_is_stored",),
    36: ("tests/proxy/test_errands.py::test_the_worker_is_told_a_digest_of_the_session_and_never_the_raw_id",),
    40: ("tests/journeys/test_failing_workers.py::"
         "test_what_is_used_is_counted_at_the_end_of_a_stream_and_not_at_its_head",),
    42: ("tests/journeys/test_doors.py::test_a_preflight_is_answered_before_anybody_is_asked_for_a_key",
         "tests/journeys/test_doors.py::test_errors_can_be_read_by_a_page_too"),
    43: ("tests/proxy/test_upstream.py::"
         "test_a_connection_that_lay_idle_longer_than_an_answer_may_is_used_again_unharmed",
         "tests/conformance/test_rows.py::test_row_43_the_aiohttp_whose_pool_times_out_is_not_allowed",
         "tests/proxy/test_upstream.py::test_time_that_we_do_not_read_is_not_the_worker_s_silence"),
    44: ("tests/journeys/test_routing.py::test_two_spellings_of_one_worker_are_one_worker",
         "tests/proxy/routing/test_workers.py::test_a_pool_finds_its_workers_in_any_spelling"),
    46: ("tests/proxy/routing/test_memory.py::"
         "test_a_worker_that_remembers_nothing_three_times_is_believed_to_be_empty",
         "tests/proxy/routing/test_memory.py::test_who_forgets_sooner_than_its_room_would_tell_is_given_less_room"),
    47: ("tests/journeys/test_streams.py::test_the_openai_library_reads_a_replayed_stream",),
    54: ("tests/journeys/test_failing_workers.py::"
         "test_a_slow_reader_slows_the_worker_and_does_not_fill_our_memory",),
    55: ("tests/journeys/test_keys.py::test_each_parameter_alone_makes_another_question",
         "tests/journeys/test_keys.py::test_a_tool_call_is_not_replayed_to_a_request_that_forbids_tools",
         "tests/journeys/test_leaks.py::test_byte_identical_requests_of_two_tenants_are_two_generations",
         "tests/journeys/test_leaks.py::test_another_system_prompt_is_another_world"),
}  # fmt: skip
# Row → why nothing tests it.
UNTESTED: dict[int, str] = {
    39: "there is no heartbeat: no byte is sent that the worker did not send",
}
# The numbers in the table of complaints; the others were merged into these.
ROWS = {1, 2, 4, 5, 6, 7, 8, *range(10, 23), *range(24, 26), *range(27, 33), *range(34, 41), *range(42, 48),
        *range(49, 53), 54, 55}  # fmt: skip


def names(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def outside() -> set[int]:
    found = {name for path in Path(__file__).parent.glob("test_*.py") for name in names(path)}
    return {int(match[1]) for name in found if (match := re.match(r"test_row_(\d+)", name))}


@pytest.mark.parametrize("place", [place for places in INSIDE.values() for place in places])
def test_what_is_said_to_test_a_row_exists(place: str) -> None:
    path, _, name = place.partition("::")
    assert name in names(ROOT / path)


def test_row_43_the_aiohttp_whose_pool_times_out_is_not_allowed() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        wanted = tomllib.load(file)["project"]["dependencies"]
    (least,) = [match for each in wanted if (match := re.fullmatch(r"aiohttp>=(\d+)\.(\d+)\.(\d+),<4", each))]
    assert tuple(map(int, least.groups())) >= (3, 14, 2)


def test_no_row_is_forgotten() -> None:
    assert outside() | set(INSIDE) | set(UNTESTED) == ROWS


def test_what_is_called_untested_is_not_tested() -> None:
    assert not set(UNTESTED) & (outside() | set(INSIDE))
