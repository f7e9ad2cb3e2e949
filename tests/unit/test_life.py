"""The life of a memory, by its laws: for every record and every setting."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from math import isclose, log
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mindhold.memories.prepare import TURN
from mindhold.model.lifecycle import (
    FLOOR,
    LOWEST_USEFULNESS,
    NEVER,
    NEVER_FORGOTTEN,
    PART_OF_WHOLE,
    PROFILE_SECTION_KEY,
    SESSION_ONLY,
    Fate,
    LifecycleRules,
    earns_anchor,
    faded_importance,
    fate_of,
    half_life,
    is_stale,
    is_unswept,
    lowered_usefulness,
    next_review,
    stale_after,
    tier_at,
    unused_since,
    utility,
)
from mindhold.model.memory import Kind, Memory, Provenance, Status, Tier
from mindhold.model.policies import RECAP
from mindhold.projects.summary import SUMMARY_OF
from mindhold.settings.sections import LifeSettings, RetentionSettings
from mindhold.testing.builders import START, Builder

DAY = timedelta(days=1)
WARMTH = {Tier.COLD: 0, Tier.WARM: 1, Tier.HOT: 2, Tier.PERMANENT: 3}
PLAIN = LifeSettings().rules(RetentionSettings())

days = st.floats(0, 2000).map(lambda number: timedelta(days=number))
moments = days.map(lambda after: START + after)
lives = st.builds(
    LifecycleRules,
    stale_days=st.fixed_dictionaries({kind: st.integers(1, 400) for kind in (Kind.FACT, Kind.DECISION)}),
    other_stale_days=st.integers(1, 400),
    hot_days=st.integers(1, 100),
    archive_below=st.floats(0, 1),
    keep_archived_days=st.integers(0, 400),
    anchor_uses=st.integers(1, 50),
    anchor_importance=st.floats(0, 1),
    unused_days=st.just(365),
)


def memory(**fields: Any) -> Memory:
    plain = {"created": START, "updated": START, "occurred": START, "verified": START}
    return replace(Builder().memory(), **plain | fields)


@st.composite
def memories(draw: st.DrawFn, /, **fixed: Any) -> Memory:
    """Any record of which a sweep may have to say something."""
    marks = st.sampled_from([{}, {}, {SESSION_ONLY: "one"}, {"message_type": "user"}, {"summary_of": "x"}])
    fields: dict[str, Any] = {
        "kind": draw(st.sampled_from(Kind)),
        "status": draw(st.sampled_from(Status)),
        "tier": draw(st.sampled_from(Tier)),
        "anchor": draw(st.sampled_from([False, False, True])),
        "importance": draw(st.floats(0, 1)),
        "uses": draw(st.integers(0, 1000)),
        "shown": draw(st.integers(0, 100)),
        "usefulness": draw(st.floats(-1, 1)),
        "last_used": draw(st.none() | moments),
        "decayed": draw(st.none() | moments),
        "verified": draw(st.none() | moments),
        "metadata": draw(marks),
        "provenance": Provenance(position=draw(st.sampled_from([None, None, 3]))),
    }
    return memory(updated=draw(moments), **fields | fixed)


def swept(one: Memory, now: datetime, life: LifecycleRules) -> Memory:
    """As a whole sweep leaves it."""
    one = replace(one, tier=tier_at(one, now, life))
    one = replace(one, importance=faded_importance(one, now, life), decayed=now)
    fate, _ = fate_of(one, now, life)
    if fate is Fate.ARCHIVED:
        one = replace(one, status=Status.ARCHIVED, previous_status=one.status, updated=now)
    one = replace(one, anchor=one.anchor or earns_anchor(one, life), usefulness=lowered_usefulness(one))
    one = replace(one, utility=utility(one.importance, one.uses))
    return replace(one, review=next_review(one, now, life))


def same_but_for_rounding(one: Memory, other: Memory) -> bool:
    close = isclose(one.importance, other.importance, rel_tol=1e-9) and isclose(
        one.utility, other.utility, rel_tol=1e-9
    )
    plain: dict[str, Any] = {"importance": 0.0, "utility": 0.0, "review": None}
    return close and replace(one, **plain) == replace(other, **plain)


class TestFading:
    """Importance by time."""

    @given(memories(), moments, days, lives)
    def test_it_only_falls_and_never_below_the_floor(
        self, one: Memory, now: datetime, later: timedelta, life: LifecycleRules
    ) -> None:
        left, less = faded_importance(one, now, life), faded_importance(one, now + later, life)
        assert less <= left <= one.importance
        assert less >= min(FLOOR, one.importance)

    @given(memories(), moments, days, lives)
    def test_looking_on_the_way_changes_nothing(
        self, one: Memory, now: datetime, later: timedelta, life: LifecycleRules
    ) -> None:
        stopped = replace(
            one, importance=faded_importance(one, now, life), decayed=max(now, one.decayed or now)
        )
        whole = faded_importance(one, now + later, life)
        assert faded_importance(stopped, now, life) == stopped.importance
        if stopped.decayed == now:
            assert isclose(faded_importance(stopped, now + later, life), whole, rel_tol=1e-9)

    @given(memories(), moments, lives)
    def test_what_is_exempt_keeps_its_importance(
        self, one: Memory, now: datetime, life: LifecycleRules
    ) -> None:
        for kept in (
            replace(one, anchor=True),
            replace(one, tier=Tier.PERMANENT),
            replace(one, kind=Kind.PREFERENCE),
            replace(one, kind=Kind.ERROR),
            replace(one, status=Status.QUARANTINED),
            replace(one, metadata={SESSION_ONLY: "one"}),
        ):
            assert faded_importance(kept, now, life) == one.importance

    @given(st.integers(1, 1000), st.integers(1, 1000))
    def test_the_more_it_was_used_the_longer_it_lasts(self, uses: int, more: int) -> None:
        often, oftener = memory(uses=uses), memory(uses=uses + more)
        assert half_life(often, PLAIN) < half_life(oftener, PLAIN)
        assert faded_importance(often, START + 99 * DAY, PLAIN) < faded_importance(
            oftener, START + 99 * DAY, PLAIN
        )

    def test_half_is_left_after_a_half_life_of_rest(self) -> None:
        resting = memory(importance=0.8)
        begun = timedelta(days=PLAIN.hot_days)
        assert faded_importance(resting, START + begun, PLAIN) == 0.8
        assert faded_importance(resting, START + begun + 60 * DAY, PLAIN) == pytest.approx(0.4)

    def test_one_that_is_used_every_week_keeps_it_all(self) -> None:
        one = memory(importance=0.8)
        for week in range(52):
            one = replace(one, uses=week + 1, last_used=START + week * 7 * DAY, tier=Tier.HOT)
            one = swept(one, START + (week + 1) * 7 * DAY - timedelta(hours=1), PLAIN)
        assert (one.importance, one.status, one.anchor) == (0.8, Status.ACTIVE, True)


class TestTiers:
    """How warm a memory is kept."""

    @given(memories(), moments, days, lives)
    def test_time_alone_only_cools(
        self, one: Memory, now: datetime, later: timedelta, life: LifecycleRules
    ) -> None:
        here, there = tier_at(one, now, life), tier_at(one, now + later, life)
        assert WARMTH[there] <= WARMTH[here]
        assert tier_at(replace(one, tier=here), now, life) is here
        assert tier_at(replace(one, tier=here), now + later, life) is there

    @given(memories(), moments, lives)
    def test_a_used_one_stays_hot(self, one: Memory, now: datetime, life: LifecycleRules) -> None:
        touched = replace(one, tier=Tier.HOT, last_used=now)
        assert tier_at(touched, now, life) is Tier.HOT
        assert tier_at(touched, now + timedelta(days=0.9), life) is Tier.HOT

    @given(memories(status=Status.ACTIVE), moments, lives)
    def test_what_is_exempt_is_never_cold(self, one: Memory, now: datetime, life: LifecycleRules) -> None:
        assert tier_at(replace(one, tier=Tier.PERMANENT), now, life) is Tier.PERMANENT
        for kind in NEVER_FORGOTTEN:
            warm = replace(one, kind=kind, anchor=False, metadata={})
            assert tier_at(warm, now, life) is not Tier.COLD
        for tier in Tier:
            assert tier_at(replace(one, anchor=True, tier=tier), now, life) is tier

    def test_the_steps(self) -> None:
        hot = memory(tier=Tier.HOT)
        for kind, stale in (
            (Kind.PROCEDURE, 30),
            (Kind.FACT, 60),
            (Kind.DECISION, 90),
            (Kind.NOTE, 90),
            (Kind.CONTEXT, 60),
        ):
            one = replace(hot, kind=kind)
            at = [tier_at(one, START + day * DAY, PLAIN) for day in (6.9, 7, stale - 0.1, stale)]
            assert at == [Tier.HOT, Tier.WARM, Tier.WARM, Tier.COLD]

    def test_an_amended_one_is_not_cold(self) -> None:
        cold = memory(tier=Tier.COLD)
        amended = replace(cold, updated=START + 100 * DAY)
        assert tier_at(cold, START + 100 * DAY, PLAIN) is Tier.COLD
        assert tier_at(amended, START + 101 * DAY, PLAIN) is Tier.WARM


class TestFate:
    """When a memory goes."""

    @given(memories(), moments, lives)
    def test_only_the_archived_are_erased_and_only_after_their_time(
        self, one: Memory, now: datetime, life: LifecycleRules
    ) -> None:
        fate, why = fate_of(one, now, life)
        assert bool(why) == (fate is not Fate.STAYS)
        if fate is Fate.ERASED:
            assert one.status is Status.ARCHIVED
            assert life.keep_archived_days > 0
            assert now - one.updated >= life.keep_archived_days * DAY
        if fate is Fate.ARCHIVED:
            assert one.status is Status.ACTIVE
            assert one.verified is not None
            assert now - one.verified >= 2 * stale_after(one.kind, life)
            assert now - unused_since(one) >= 2 * stale_after(one.kind, life)
            assert one.importance < life.archive_below
            assert tier_at(one, now, life) is Tier.COLD

    @given(memories(status=Status.ACTIVE), moments, lives)
    def test_what_is_exempt_or_part_of_a_whole_stays(
        self, one: Memory, now: datetime, life: LifecycleRules
    ) -> None:
        for kept in (
            replace(one, anchor=True),
            replace(one, tier=Tier.PERMANENT),
            replace(one, kind=Kind.PREFERENCE),
            replace(one, kind=Kind.ERROR),
            replace(one, metadata={"message_type": "user"}),
            replace(one, metadata={"summary_of": "x"}),
            replace(one, metadata={SESSION_ONLY: "one"}),
            replace(one, provenance=Provenance(position=0)),
        ):
            assert fate_of(kept, now, life) == (Fate.STAYS, "")

    @given(memories(), moments, days, lives)
    def test_what_goes_now_would_also_go_later(
        self, one: Memory, now: datetime, later: timedelta, life: LifecycleRules
    ) -> None:
        fate, _ = fate_of(one, now, life)
        if fate is not Fate.STAYS:
            assert fate_of(one, now + later, life)[0] is fate

    def test_an_unused_fact_goes_cold_then_into_the_archive_then_away(self) -> None:
        one, seen = memory(importance=0.5, review=START), []
        for day in range(400):
            now = START + day * DAY
            if one.review is None or one.review > now:
                continue
            fate, why = fate_of(replace(one, importance=faded_importance(one, now, PLAIN)), now, PLAIN)
            one = swept(one, now, PLAIN)
            seen.append((day, one.tier, one.status, fate))
            if fate is Fate.ERASED:
                break
        days_of = {fate: day for day, _, _, fate in seen}
        assert (days_of[Fate.ARCHIVED], days_of[Fate.ERASED]) == (120, 300)
        assert next(day for day, tier, _, _ in seen if tier is Tier.COLD) == 60
        assert why == "archived for 180 days and not asked for"
        assert len(seen) < 15  # it was looked at a few times, not every day

    def test_what_nobody_judged_is_kept_and_its_time_begins_when_somebody_does(self) -> None:
        old = memory(importance=0.1, verified=None)
        now = START + 400 * DAY
        assert fate_of(old, now, PLAIN)[0] is Fate.STAYS
        assert swept(old, now, PLAIN).review == now + 120 * DAY
        judged = replace(old, verified=now)
        assert fate_of(judged, now + 119 * DAY, PLAIN)[0] is Fate.STAYS
        assert fate_of(judged, now + 120 * DAY, PLAIN) == (
            Fate.ARCHIVED,
            "unused for 520 days, importance faded to 0.10",
        )

    def test_what_was_on_its_way_out_goes(self) -> None:
        going = memory(status=Status.FORGOTTEN, previous_status=Status.FORGOTTEN)
        assert fate_of(going, START, PLAIN)[0] is Fate.ERASED
        forgotten = memory(status=Status.FORGOTTEN, previous_status=Status.ARCHIVED)
        assert fate_of(forgotten, START + 999 * DAY, PLAIN)[0] is Fate.STAYS

    def test_one_that_was_looked_at_in_the_archive_stays_there_longer(self) -> None:
        put_away = memory(status=Status.ARCHIVED, last_used=START + 100 * DAY)
        assert fate_of(put_away, START + 180 * DAY, PLAIN)[0] is Fate.STAYS
        assert fate_of(put_away, START + 280 * DAY, PLAIN)[0] is Fate.ERASED
        assert fate_of(put_away, START + 999 * DAY, replace(PLAIN, keep_archived_days=0))[0] is Fate.STAYS


class TestWorth:
    """Utility, anchors, usefulness, staleness."""

    @given(st.floats(0, 1), st.integers(0, 10**6), st.integers(0, 10**6))
    def test_utility_grows_with_use(self, importance: float, uses: int, more: int) -> None:
        assert utility(importance, uses) == importance * (1 + log(max(uses, 1)))
        assert utility(importance, uses) <= utility(importance, uses + more)
        assert utility(importance, 0) == importance

    @given(memories(), lives)
    def test_an_anchor_is_earned_by_use_and_importance(self, one: Memory, life: LifecycleRules) -> None:
        if earns_anchor(one, life):
            assert one.uses >= life.anchor_uses
            assert one.importance >= life.anchor_importance
            assert one.status is Status.ACTIVE
            assert not one.anchor
            assert SESSION_ONLY not in one.metadata

    def test_the_bounds_of_an_anchor(self) -> None:
        earned = memory(uses=10, importance=0.8)
        assert earns_anchor(earned, PLAIN)
        assert not earns_anchor(replace(earned, uses=9), PLAIN)
        assert not earns_anchor(replace(earned, importance=0.79), PLAIN)
        assert not earns_anchor(replace(earned, status=Status.QUARANTINED), PLAIN)
        assert not earns_anchor(replace(earned, metadata={SESSION_ONLY: "one"}), PLAIN)

    @given(memories())
    def test_what_was_shown_in_vain_sinks_gently_and_once(self, one: Memory) -> None:
        low = lowered_usefulness(one)
        assert low <= one.usefulness
        assert low >= min(LOWEST_USEFULNESS, one.usefulness)
        assert lowered_usefulness(replace(one, usefulness=low)) == low
        if one.uses or one.shown < 10 or one.usefulness > 0:
            assert low == one.usefulness
        assert lowered_usefulness(replace(one, shown=one.shown + 1)) <= low

    @given(memories(), moments, lives)
    def test_what_was_used_or_verified_lately_is_not_stale(
        self, one: Memory, now: datetime, life: LifecycleRules
    ) -> None:
        assert not is_stale(replace(one, last_used=now), now, life)
        assert not is_stale(replace(one, verified=now), now, life)
        if is_stale(one, now, life):
            assert tier_at(one, now, life) is Tier.COLD

    def test_one_is_unswept_until_it_was_seen_as_it_is_worded(self) -> None:
        one = memory()
        assert is_unswept(one)
        assert not is_unswept(swept(one, START, PLAIN))
        assert is_unswept(replace(swept(one, START, PLAIN), updated=START + DAY))
        assert is_unswept(
            memory(decayed=START + DAY, review=START + DAY)
        )  # it is from before there were sweeps


class TestSweeping:
    """All of it together."""

    @settings(max_examples=settings.default.max_examples * 3 // 2)
    @given(memories(), moments, lives)
    def test_twice_is_once(self, one: Memory, now: datetime, life: LifecycleRules) -> None:
        once = swept(one, now, life)
        assert same_but_for_rounding(swept(once, now, life), once)

    @settings(max_examples=settings.default.max_examples * 3 // 2)
    @given(memories(), moments, lives)
    def test_the_next_review_is_in_the_future(self, one: Memory, now: datetime, life: LifecycleRules) -> None:
        review = swept(one, now, life).review
        assert review is not None
        assert now < review <= NEVER

    @settings(max_examples=settings.default.max_examples * 3 // 2)
    @given(memories(status=Status.ACTIVE, last_used=None), lives)
    def test_nothing_is_missed_between_reviews(self, one: Memory, life: LifecycleRules) -> None:
        """Just before the next review nothing but a little fading would have changed."""
        one = swept(one, START + 2000 * DAY, life)
        if (
            one.review is None
            or one.review == NEVER
            or fate_of(one, START + 2000 * DAY, life)[0] is Fate.ERASED
        ):
            return
        before = one.review - timedelta(hours=1, seconds=1)
        if before > START + 2000 * DAY:
            assert tier_at(one, before, life) is one.tier
            assert faded_importance(one, before, life) >= one.importance * 0.74

    @settings(max_examples=settings.default.max_examples * 3 // 2)
    @given(memories(status=Status.ACTIVE), lives)
    def test_a_life_has_few_reviews(self, one: Memory, life: LifecycleRules) -> None:
        """However long nobody uses it: so the work doesn't grow with what is stored."""
        now, reviews = START + 2000 * DAY, 0
        while True:
            fate, _ = fate_of(one, now, life)
            one, reviews = swept(one, now, life), reviews + 1
            one = replace(one, verified=one.verified or now)
            if fate is Fate.ERASED or one.review is None or one.review == NEVER:
                break
            now = one.review
        assert reviews <= 20

    def test_exempt_ones_are_never_looked_at_again(self) -> None:
        for kept in (memory(anchor=True), memory(tier=Tier.PERMANENT), memory(kind=Kind.PREFERENCE)):
            assert swept(kept, START, PLAIN).review == NEVER
        hot = memory(kind=Kind.ERROR, tier=Tier.HOT)
        assert next_review(hot, START, PLAIN) == START + 7 * DAY

    def test_wild_settings_stay_within_the_calendar(self) -> None:
        far = 10**9
        wild = LifeSettings(
            stale_days_fact=far, hot_days=far, keep_archived_days=far, stale_days_other=far
        ).rules(RetentionSettings())
        for status in (Status.ACTIVE, Status.ARCHIVED):
            one = memory(status=status, tier=Tier.HOT, uses=10**6)
            assert swept(one, START, wild).review is not None


def test_the_marks_are_those_that_the_engine_sets() -> None:
    assert (TURN, SUMMARY_OF, RECAP, PROFILE_SECTION_KEY) == PART_OF_WHOLE
