"""What a new memory does to those that were there: rules over values, without a store."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindhold.memories.duplicates import RelatedMemories, find_related, inherit_from
from mindhold.memories.prepare import TURN
from mindhold.model.memory import Kind, Memory, Relation, Tier
from mindhold.settings.schema import IntakeSettings
from mindhold.testing.builders import START, Builder

SETTINGS = IntakeSettings()
BUILDER = Builder()
NOTED = "The billing service uses PostgreSQL 15."


def made(content: str, **fields: Any) -> Memory:
    return BUILDER.memory(content, **fields)


def ids(kin: RelatedMemories) -> tuple[list[str], list[str], list[str]]:
    return (
        [old.id for old in kin.superseded],
        [old.id for old in kin.resolved],
        [target for target, _ in kin.related],
    )


@pytest.mark.parametrize(
    ("similarity", "related"), [(0.69, False), (0.7, False), (0.71, True), (0.86, True), (1.0, True)]
)
def test_above_a_similarity_memories_of_a_topic_are_related(similarity: float, related: bool) -> None:
    old = made("The billing service has four replicas.", topic="billing")
    new = made(NOTED, topic="billing")
    assert ids(find_related(new, [(old, similarity)], SETTINGS)) == ([], [], [old.id] if related else [])


def test_of_another_topic_none_is_kin() -> None:
    old = made("the billing service uses postgres 15", topic="deployment")
    assert find_related(made(NOTED, topic="billing"), [(old, 1.0)], SETTINGS) == RelatedMemories()


def test_what_has_no_topic_may_belong_to_any() -> None:
    old = made("The billing service has four replicas.", topic="Billing")
    assert find_related(made(NOTED), [(old, 0.8)], SETTINGS).related
    assert find_related(made(NOTED, topic="billing"), [(old, 0.8)], SETTINGS).related


@pytest.mark.parametrize(
    ("similarity", "kind", "superseded"),
    [
        (0.86, Kind.FACT, True),
        (0.85, Kind.FACT, False),
        (0.8, Kind.FACT, False),
        (0.95, Kind.DECISION, False),
    ],
)
def test_a_rewording_of_the_same_kind_supersedes(similarity: float, kind: Kind, superseded: bool) -> None:
    old = made("the billing service uses postgres 15", kind=kind)
    found = find_related(made(NOTED, kind=Kind.FACT), [(old, similarity)], SETTINGS)
    assert ids(found) == (([old.id], [], []) if superseded else ([], [], [old.id]))


@pytest.mark.parametrize("kind", [Kind.PREFERENCE, Kind.FACT])
def test_an_update_of_another_kind_supersedes_nothing(kind: Kind) -> None:
    old, new = made("I use Vim for code", kind=kind), made("I no longer use Vim for code", kind=Kind.FACT)
    found = find_related(new, [(old, 0.95)], SETTINGS)
    assert ids(found) == (([old.id], [], []) if kind is Kind.FACT else ([], [], [old.id]))


@pytest.mark.parametrize("kind", [Kind.FACT, Kind.ERROR])
def test_forty_services_on_forty_ports_are_forty(kind: Kind) -> None:
    others = [
        (made(f"Service {number:02} listens on port {8000 + number}.", kind=kind), 0.99)
        for number in range(40)
    ]
    new = made("Service 40 listens on port 8040.", kind=kind)
    found = find_related(new, others, SETTINGS)
    assert (found.superseded, found.resolved, len(found.related)) == ((), (), 3)


@pytest.mark.parametrize("kept", [{"anchor": True}, {"tier": Tier.PERMANENT}, {"metadata": {TURN: "user"}}])
def test_what_is_kept_is_linked_instead(kept: dict[str, Any]) -> None:
    old = made("the billing service uses postgres 15", **kept)
    assert ids(find_related(made(NOTED), [(old, 1.0)], SETTINGS)) == ([], [], [old.id])


FAILURE = "Redis Sentinel connection fails with NOAUTH."
FIX = "Redis Sentinel NOAUTH error resolved: set REDIS_PASSWORD in the environment."


@pytest.mark.parametrize(
    "kind",
    [Kind.ERROR, Kind.PROCEDURE, Kind.DECISION, Kind.FACT, Kind.GOTCHA, Kind.PATTERN, Kind.NOTE],
)
def test_an_error_is_resolved_by_what_says_its_fix(kind: Kind) -> None:
    old, new = made(FAILURE, kind=Kind.ERROR, anchor=True), made(FIX, kind=kind)
    found = find_related(new, [(old, 0.75)], SETTINGS)
    assert ids(found) == ([], [old.id], [])
    [link] = found.links(new.id, now=START)
    assert (link.origin, link.target, link.relation) == (old.id, new.id, Relation.RESOLVED_BY)
    assert link.automatic


@pytest.mark.parametrize(
    ("old_kind", "new_kind", "similarity"),
    [(Kind.FACT, Kind.ERROR, 0.9), (Kind.ERROR, Kind.PREFERENCE, 0.9), (Kind.ERROR, Kind.ERROR, 0.6)],
)
def test_nothing_else_is_resolved(old_kind: Kind, new_kind: Kind, similarity: float) -> None:
    found = find_related(made(FIX, kind=new_kind), [(made(FAILURE, kind=old_kind), similarity)], SETTINGS)
    assert found.resolved == ()


def test_two_errors_that_share_words_do_not_resolve_each_other() -> None:
    old = made("Kafka Sentinel connection fails with NOAUTH.", kind=Kind.ERROR)
    assert find_related(made(FIX, kind=Kind.ERROR), [(old, 0.95)], SETTINGS).resolved == ()


@given(st.lists(st.floats(0, 1), max_size=12), st.integers(0, 5))
def test_links_are_few_and_the_nearest(similarities: list[float], most: int) -> None:
    others = [(made(f"Fact {number} of the garden."), value) for number, value in enumerate(similarities)]
    found = find_related(made("Another fact of the garden."), others, replace(SETTINGS, most_links=most))
    above = sorted((value for value in similarities if value > SETTINGS.link_threshold), reverse=True)
    assert [weight for _, weight in found.related] == [round(value, 4) for value in above[:most]]


def test_an_heir_takes_what_the_old_had_earned() -> None:
    old = made("the billing service uses postgres 15", topic="billing", importance=0.9, uses=4)
    new = inherit_from(made(NOTED, importance=0.5, uses=1), [old])
    assert (new.supersedes, new.topic, new.importance, new.uses) == (old.id, "billing", 0.9, 5)
