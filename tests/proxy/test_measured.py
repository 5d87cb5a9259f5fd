"""The number that an operator looks at: absent while nothing is known, corrected when it is, and honest about doubt."""

import random

import pytest
from house import Clock
from hypothesis import given
from hypothesis import strategies as st

from cache import Agreement
from proxy.measured import HALF_LIFE_S, LEAST_CHECKS, LEAST_CONTROLS, OTHER, Measured, Measurement

YES, NO, UNSURE = Agreement.AGREE, Agreement.DISAGREE, Agreement.UNSURE


def fed(
    measured: Measured, *, wrong: int = 0, right: int = 0, unsure: int = 0, null: tuple[int, int] = (0, 0),
    bad: tuple[int, int] = (0, 0), tenant: str = "shop", model: str = "m",
) -> Measurement:  # fmt: skip
    """null, bad: (compared, called wrong)."""
    for agreement, times in ((NO, wrong), (YES, right), (UNSURE, unsure)):
        for _ in range(times):
            measured.checked(tenant, model, agreement, 1.0)
    for number in range(null[0]):
        measured.null_control(tenant, model, NO if number < null[1] else YES)
    for number in range(bad[0]):
        measured.known_bad(tenant, model, NO if number < bad[1] else YES)
    return next(each for each in measured.all() if (each.tenant, each.model) == (tenant, model))


def test_without_evidence_there_is_no_rate_and_never_0_percent() -> None:
    assert Measured(Clock()).all() == []
    few = fed(Measured(Clock()), right=LEAST_CHECKS - 1)
    assert few.raw is None and few.corrected is None
    assert "29 checks, 30 are needed" in few.why


def test_a_comparator_whose_error_is_not_known_gives_no_corrected_rate() -> None:
    measured = Measured(Clock())
    told = fed(measured, right=100)
    assert told.raw is not None and told.raw.high > 0.03, "100 right ones do not make 0 %"
    assert told.corrected is None and "null controls" in told.why
    told = fed(measured, null=(LEAST_CONTROLS, 0))
    assert told.corrected is None and "known-bad controls" in told.why
    told = fed(measured, bad=(LEAST_CONTROLS, 19))
    assert told.corrected is not None and told.why == ""
    assert told.corrected.low == 0.0 and told.corrected.high > 0.01


def test_a_comparator_that_cries_wolf_is_not_believed() -> None:
    """It calls a tenth of what it sees wrong, and a tenth of what is known to be right: then nothing is wrong."""
    told = fed(Measured(Clock()), wrong=40, right=360, null=(200, 20), bad=(100, 95))
    assert told.raw is not None and told.raw.estimate == pytest.approx(0.1)
    assert told.corrected is not None and told.corrected.estimate == pytest.approx(0.0, abs=1e-9)
    assert (told.specificity, told.sensitivity) == (pytest.approx(0.9), pytest.approx(0.95))


def test_a_comparator_that_sees_nothing_gives_no_rate() -> None:
    told = fed(Measured(Clock()), wrong=40, right=360, null=(200, 100), bad=(100, 40))
    assert told.corrected is None and "tells nothing" in told.why


def test_unsure_ones_do_not_hide_wrong_ones() -> None:
    """They cost sensitivity, in the checks and in the controls alike, and the estimate stays where the truth is."""
    draw = random.Random(5)

    def seen(is_wrong: bool) -> Agreement:
        if draw.random() < 0.3:
            return UNSURE
        return NO if (is_wrong and draw.random() < 0.9) or (not is_wrong and draw.random() < 0.03) else YES

    measured = Measured(Clock())
    for _ in range(20_000):
        measured.checked("shop", "m", seen(draw.random() < 0.1), 1.0)
        measured.null_control("shop", "m", seen(False))
        measured.known_bad("shop", "m", seen(True))
    (told,) = measured.all()
    assert told.corrected is not None
    assert told.corrected.estimate == pytest.approx(0.1, abs=0.01)
    assert told.corrected.low < 0.1 < told.corrected.high
    assert told.unsure == pytest.approx(6000, abs=300)


def test_labels_weigh_what_they_stand_for() -> None:
    measured = Measured(Clock())
    for _ in range(40):
        measured.checked("shop", "m", YES, 1.0)
    for _ in range(40):
        measured.checked("shop", "m", NO, 3.0)
    (told,) = measured.all()
    assert told.raw is not None and told.raw.estimate == pytest.approx(0.75)
    assert told.effective == pytest.approx(160**2 / (40 + 40 * 9))


def test_old_evidence_fades_and_a_silent_tenant_is_looked_at_again() -> None:
    clock = Clock()
    measured = Measured(clock)
    fed(measured, right=400)
    clock.pass_by(2 * HALF_LIFE_S)
    assert measured.labels("shop", "m") == pytest.approx(100)
    for _ in range(100):
        measured.checked("shop", "m", NO, 1.0)
    (told,) = measured.all()
    assert told.raw is not None and told.raw.estimate == pytest.approx(0.5)


def test_few_controls_of_ones_own_are_filled_up_with_those_of_the_same_model() -> None:
    measured = Measured(Clock())
    fed(measured, right=50, null=(30, 1), bad=(30, 29), tenant="bank")
    told = fed(measured, right=50, tenant="shop")
    assert told.null == (30, 1) and told.corrected is not None
    assert fed(measured, right=50, tenant="shop", model="another").corrected is None


def test_tenants_cannot_make_the_metrics_grow() -> None:
    measured = Measured(Clock(), most_pairs=3)
    for number in range(50):
        measured.checked(f"tenant-{number}", "m", YES, 1.0)
    assert [(each.tenant, each.model) for each in measured.all()] == [
        (OTHER, OTHER), ("tenant-0", "m"), ("tenant-1", "m"), ("tenant-2", "m"),
    ]  # fmt: skip
    assert measured.labels("tenant-49", "m") == measured.labels("tenant-48", "m") == 47
    assert measured.null_controls("tenant-49", "m") == 0


def test_what_is_forgotten_leaves_no_count() -> None:
    measured = Measured(Clock())
    fed(measured, right=3, tenant="bank")
    fed(measured, right=3, tenant="shop")
    measured.forget("bank", None)
    assert [each.tenant for each in measured.all()] == ["shop"]


@given(st.lists(st.tuples(
    st.sampled_from(["checked", "null", "bad"]), st.sampled_from(list(Agreement)), st.floats(1, 50),
    st.floats(0, HALF_LIFE_S),
), max_size=80))  # fmt: skip
def test_whatever_happens_a_rate_is_a_rate(story: list[tuple[str, Agreement, float, float]]) -> None:
    clock = Clock()
    measured = Measured(clock)
    for what, agreement, weight, passes_s in story:
        clock.pass_by(passes_s)
        if what == "checked":
            measured.checked("t", "m", agreement, weight)
        else:
            (measured.null_control if what == "null" else measured.known_bad)("t", "m", agreement)
    for told in measured.all():
        assert 0 <= told.unsure <= told.checks + 1e-9
        assert told.effective <= sum(what == "checked" for what, *_ in story) + 1e-6
        assert (told.corrected is None) == bool(told.why)
        for rate in (told.raw, told.corrected):
            assert rate is None or 0 <= rate.low <= rate.estimate <= rate.high <= 1
        assert set(told.as_json()) >= {"raw", "corrected", "why", "comparator", "checks"}
