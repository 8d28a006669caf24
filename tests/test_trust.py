"""The gate: when a peak is believed, and why it is not."""

from dataclasses import replace

import pytest

from models.trust import PeakEvidence, Reason, Trust, judge_peak
from models.usl.points_and_scatter import Scatter

GOOD = PeakEvidence(
    levels=10,
    n_observed_min=1,
    x_observed_max=90,
    n_max=30,
    x_max=100,
    x_max_interval=(90, 115),
    superlinear=False,
)


def test_a_peak_near_the_load_with_a_narrow_interval_is_trusted() -> None:
    """All conditions are met: trusted, without a reason."""
    assert judge_peak(GOOD).trust is Trust.TRUSTED
    assert judge_peak(GOOD).reasons == ()


@pytest.mark.parametrize(
    ("change", "trust", "reasons"),
    [
        ({"levels": 2}, Trust.NOT_IDENTIFIABLE, (Reason.FEW_LEVELS,)),
        ({"n_max": None}, Trust.NOT_IDENTIFIABLE, (Reason.NO_PEAK,)),
        ({"n_max": None, "x_observed_max": 69}, Trust.NOT_IDENTIFIABLE, (Reason.NO_PEAK,)),
        ({"n_max": 0.5}, Trust.NOT_IDENTIFIABLE, (Reason.PEAK_BELOW_DATA,)),
        ({"x_observed_max": 69}, Trust.NOT_IDENTIFIABLE, (Reason.LOAD_TOO_LOW,)),
        ({"x_max_interval": (80, 160)}, Trust.NOT_IDENTIFIABLE, (Reason.WIDE_INTERVAL,)),
        ({"x_max_interval": (80, 120)}, Trust.INDICATIVE, (Reason.WIDE_INTERVAL,)),
        ({"seen_above_peak": True}, Trust.NOT_IDENTIFIABLE, (Reason.SEEN_ABOVE_PEAK,)),
        ({"growth": 0.2}, Trust.INDICATIVE, (Reason.STILL_GROWING,)),
        ({"growth": float("nan")}, Trust.INDICATIVE, (Reason.STILL_GROWING,)),
        ({"levels": 1, "growth": float("nan")}, Trust.NOT_IDENTIFIABLE, (Reason.FEW_LEVELS,)),
        ({"scatter": Scatter(6, 0.06, 0, 0)}, Trust.INDICATIVE, (Reason.NOISY_POINTS,)),
        ({"scatter": Scatter(20, 0.1, 0.06, 3)}, Trust.INDICATIVE, (Reason.RESIDUAL_PATTERN,)),
        ({"superlinear": True}, Trust.INDICATIVE, (Reason.SUPERLINEAR,)),
        ({"x_max_interval": None}, Trust.INDICATIVE, (Reason.NO_INTERVAL,)),
        (
            {"n_max": None, "x_max": None, "x_max_interval": None},
            Trust.NOT_IDENTIFIABLE,
            (Reason.NO_PEAK, Reason.NO_INTERVAL),
        ),
    ],
)
def test_each_failed_condition_is_a_reason(
    change: dict[str, object], trust: Trust, reasons: tuple[Reason, ...]
) -> None:
    """It lowers the trust as far as it must; all of them are listed."""
    verdict = judge_peak(replace(GOOD, **change))  # type: ignore[arg-type]
    assert (verdict.trust, verdict.reasons) == (trust, reasons)


def test_the_thresholds_are_exact() -> None:
    """70 % of the peak is enough; a ratio of exactly 1.5 is not narrow."""
    assert judge_peak(replace(GOOD, x_observed_max=70)).trust is Trust.TRUSTED
    assert judge_peak(replace(GOOD, x_max_interval=(100, 150))).trust is Trust.INDICATIVE
    assert judge_peak(replace(GOOD, x_max_interval=(100, 200))).trust is Trust.NOT_IDENTIFIABLE


def test_many_points_outweigh_noise() -> None:
    """10 % of noise is too much for six points, not for twenty; a small pattern is none."""
    assert judge_peak(replace(GOOD, scatter=Scatter(6, 6 * 0.01, 0, 0))).trust is Trust.INDICATIVE
    assert judge_peak(replace(GOOD, scatter=Scatter(20, 20 * 0.01, 0, 0))).trust is Trust.TRUSTED
    assert judge_peak(replace(GOOD, scatter=Scatter(20, 0.01, 0.02, 9))).trust is Trust.TRUSTED


def test_every_reason_has_a_sentence_for_people() -> None:
    """The set of reasons is bounded, and each is explained."""
    assert all(" " in reason.sentence for reason in Reason)
    assert len({reason.sentence for reason in Reason}) == len(Reason)


def test_the_names_are_a_contract() -> None:
    """Metrics and JSON carry these words."""
    assert [trust.value for trust in Trust] == ["trusted", "indicative", "not_identifiable"]
    assert {reason.value for reason in Reason} == {
        "few_levels",
        "no_peak",
        "peak_below_data",
        "load_too_low",
        "wide_interval",
        "superlinear",
        "no_interval",
        "seen_above_peak",
        "still_growing",
        "noisy_points",
        "residual_pattern",
    }


def test_the_lower_of_two_trusts_does_not_depend_on_their_order() -> None:
    """Whichever is asked."""
    trusted, indicative, none = Trust
    assert trusted.at_most(indicative) is indicative.at_most(trusted) is indicative
    assert none.at_most(indicative) is indicative.at_most(none) is none
    assert trusted.at_most(trusted) is trusted
