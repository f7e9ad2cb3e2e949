"""What a level of retention means, what nobody may take, and when room runs out: by tables."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindhold.model.lifecycle import (
    SESSION_ONLY,
    YOUNGEST,
    Fate,
    StorageUsage,
    asks_to_be_kept,
    faded_importance,
    fate_of,
    is_message,
    is_protected,
    may_be_pruned,
    next_review,
    retention_key,
)
from mindhold.model.memory import Kind, Memory, Provenance, Status, Tier
from mindhold.settings.sections import MONTH, LifeSettings, RetentionSettings
from mindhold.testing.builders import START, Builder

DAY = timedelta(days=1)
LEVELS = ("keep-all", "moderate", "aggressive")
LONG = START + 3_000 * DAY
RECAP = {"provenance": Provenance(source="summary"), "merged_from": ("one", "two"), "kind": Kind.CONTEXT}
SAID = {
    "kind": Kind.EPISODE,
    "metadata": {"message_type": "user"},
    "provenance": Provenance(conversation="talk"),
}


def memory(content: str = "The mill grinds rye.", **fields: Any) -> Memory:
    plain = {"created": START, "updated": START, "occurred": START, "verified": START, "importance": 0.3}
    return replace(Builder().memory(content), **plain | fields)


@pytest.mark.parametrize(
    "text",
    [
        "This is important: the boiler is serviced in May.",
        "Important: never deploy on a Friday.",
        "The code is 4711. That's very important!",
        "IMPORTANT! The gate closes at six.",
        "Please remember this, the spare key is under the pot.",
        "Don't forget that I am allergic to nuts.",
        "It's important to me that the garden stays wild.",
        "What follows is crucial. The tap turns left.",
        "이건 중요해. 비밀번호는 바꾸지 마.",
        "이거 꼭 기억해 줘.",
    ],
)
def test_some_texts_say_that_they_matter(text: str) -> None:
    assert asks_to_be_kept(text)


@pytest.mark.parametrize(
    "text",
    [
        "The mill grinds rye.",
        "Is this important?",
        "An important customer called.",
        "It is important to note that models say this all the time.",
        "It's important to consider several approaches.",
        "I doubt whether this is important.",
        "This is not important.",
        "This isn't important, skip it.",
        "That is unimportant.",
        "I forgot that it rains.",
        "The important thing is missing here.",
    ],
)
def test_others_don_t(text: str) -> None:
    assert not asks_to_be_kept(text)


PROTECTED = {
    "profile": {"tags": ("Profile",)},
    "from the profile": {"provenance": Provenance(source="user_profile")},
    "tagged": {"tags": ("important",)},
    "important": {"importance": 0.9},
    "anchor": {"anchor": True},
    "permanent": {"tier": Tier.PERMANENT},
    "preference": {"kind": Kind.PREFERENCE},
    "error": {"kind": Kind.ERROR},
    "said to be important": {"content": "This is important: the boiler is old."},
    "said so in a talk": {**SAID, "content": "Don't forget that the boiler is old."},
    "a summary of others": RECAP,
    "working memory": {"metadata": {SESSION_ONLY: "talk"}},
}
PLAIN = {
    "a fact": {},
    "a message": SAID,
    "an assistant's opinion": {
        **SAID,
        "metadata": {"message_type": "assistant"},
        "content": "This is important: the boiler is old.",
    },
    "a summary of nothing": {"provenance": Provenance(source="summary")},
    "nearly important": {"importance": 0.89},
}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("which", PROTECTED)
def test_what_is_protected_never_goes(which: str, level: Any) -> None:
    one, life = memory(**PROTECTED[which]), LifeSettings().rules(RetentionSettings(level=level))
    assert is_protected(one)
    assert not may_be_pruned(one, LONG)
    assert fate_of(one, LONG, life)[0] is Fate.STAYS
    if which != "a summary of others":  # it may sink in the order of answers
        assert faded_importance(one, LONG, life) == one.importance


@pytest.mark.parametrize("which", PLAIN)
def test_what_isn_t_may(which: str) -> None:
    one = memory(**PLAIN[which])
    assert not is_protected(one)
    assert may_be_pruned(one, LONG)


@pytest.mark.parametrize(
    "fields",
    [
        {"updated": LONG - 20 * DAY},  # amended, or brought back from the archive
        {"last_used": LONG - 20 * DAY},
        {"created": LONG - 20 * DAY},
        {"status": Status.ARCHIVED},
        {"status": Status.QUARANTINED},
    ],
)
def test_what_is_young_or_not_there_may_not_go(fields: dict[str, Any]) -> None:
    assert not may_be_pruned(memory(**fields), LONG, after=DAY)


@pytest.mark.parametrize(
    ("level", "months", "days"),
    [
        ("moderate", 6, 6 * MONTH / DAY),
        ("aggressive", 6, 3 * MONTH / DAY),
        ("moderate", 0, 21),
        ("aggressive", 1, 21),
        ("moderate", 1, MONTH / DAY),
    ],
)
def test_how_long_messages_stay(level: Any, months: int, days: float) -> None:
    assert RetentionSettings(level=level, keep_months=months).message_window / DAY == pytest.approx(days)


def test_the_levels_steer_one_life() -> None:
    life = LifeSettings(archive_below=0.35)
    one = memory(importance=0.3)
    kept, usual, short = (life.rules(RetentionSettings(level=level)) for level in LEVELS)
    assert kept.keeps_all
    fates = {
        days: [fate_of(one, START + days * DAY, each)[0] for each in (kept, usual, short)]
        for days in (59, 60, 120)
    }
    assert fates == {
        59: [Fate.STAYS, Fate.STAYS, Fate.STAYS],
        60: [Fate.STAYS, Fate.STAYS, Fate.ARCHIVED],
        120: [Fate.STAYS, Fate.ARCHIVED, Fate.ARCHIVED],
    }
    away = replace(one, status=Status.ARCHIVED)
    assert [fate_of(away, LONG, each)[0] for each in (kept, usual)] == [Fate.STAYS, Fate.ERASED]
    assert faded_importance(one, LONG, kept) == one.importance > faded_importance(one, LONG, usual)


@pytest.mark.parametrize(
    ("fields", "days", "fate"),
    [
        ({"importance": 0.45}, 364, Fate.STAYS),
        ({"importance": 0.45}, 365, Fate.ARCHIVED),
        ({"importance": 0.55}, 365, Fate.STAYS),
        ({"importance": 0.45, "uses": 1}, 365, Fate.STAYS),
        ({"importance": 0.45, "verified": None}, 365, Fate.STAYS),
    ],
)
def test_what_nobody_ever_used_goes_with_the_years(fields: dict[str, Any], days: int, fate: Fate) -> None:
    slow = LifeSettings(stale_days_fact=5_000).rules(RetentionSettings(unused_days=365))
    assert fate_of(memory(**fields), START + days * DAY, slow)[0] is fate
    never = replace(slow, unused_days=0)
    assert fate_of(memory(**fields), START + days * DAY, never)[0] is Fate.STAYS


def test_nothing_young_is_archived_whatever_is_set() -> None:
    hasty = LifeSettings(stale_days_fact=1, archive_below=1.0).rules(RetentionSettings(level="aggressive"))
    one = memory(importance=0.1)
    assert fate_of(one, START + YOUNGEST - timedelta(seconds=1), hasty)[0] is Fate.STAYS
    assert fate_of(one, START + YOUNGEST, hasty)[0] is Fate.ARCHIVED
    assert next_review(one, START + 3 * DAY, hasty) <= START + YOUNGEST


def test_the_least_valuable_come_first() -> None:
    least = memory(importance=0.1)
    older = memory(importance=0.3, updated=START, created=START)
    newer = memory(importance=0.3, updated=START + DAY)
    used = memory(importance=0.1, uses=3)
    assert sorted([used, newer, least, older], key=retention_key) == [least, older, newer, used]


@pytest.mark.parametrize(
    ("items", "most_items", "bytes_used", "most_bytes", "free"),
    [
        (89, 100, 0, 0, 0),
        (90, 100, 0, 0, 10),
        (100, 100, 0, 0, 20),
        (50, 0, 10_000, 0, 0),  # no limits
        (50, 0, 899, 1_000, 0),
        (50, 0, 900, 1_000, 6),
        (95, 100, 100, 1_000, 15),  # the nearer limit counts
        (0, 100, 900, 1_000, 0),
    ],
)
def test_room_is_made_before_a_limit_is_hit(
    items: int, most_items: int, bytes_used: int, most_bytes: int, free: int
) -> None:
    assert StorageUsage(items, items, bytes_used, most_items, most_bytes).to_free() == free


def test_what_is_archived_takes_no_room() -> None:
    assert StorageUsage(items=50, all_items=100, bytes_used=1_000, most_bytes=1_000).active_bytes == 500
    assert not StorageUsage(items=50, all_items=100, bytes_used=1_700, most_bytes=1_000).tight


@given(st.integers(1, 10**6), st.integers(1, 10**6), st.integers(0, 10**9), st.integers(1, 10**9))
def test_making_room_ends(items: int, most_items: int, bytes_used: int, most_bytes: int) -> None:
    """After that many went, it isn't tight any more, and never is it more than there are."""
    room = StorageUsage(items, items, bytes_used, most_items, most_bytes)
    free = room.to_free()
    assert 0 <= free <= items
    if free:
        after = replace(room, items=items - free)
        assert not after.tight


def test_a_message_is_told_from_other_memories() -> None:
    assert is_message(memory(**SAID))
    assert not is_message(memory(kind=Kind.EPISODE))
    assert not is_message(memory(**{**SAID, "kind": Kind.NOTE}))
