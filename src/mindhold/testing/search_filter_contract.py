"""What every store promises about filters: what they admit is found, what they don't never appears."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

from mindhold.model.keywords import keyword_forms
from mindhold.model.memory import Kind, Provenance, Status, Tier
from mindhold.model.query import Filter, Search
from mindhold.ports.store import Capability, Revise, Store
from mindhold.testing.builders import DIMENSIONS, MODEL, START, Builder, unit
from mindhold.testing.needs import needs
from mindhold.testing.searching import at, by_text, by_vector

_CROWD = 2_000
_CROWDED: dict[str, Any] = {
    "scope": "crowded",
    "keywords": ("more",),
    "review": START + timedelta(days=9),
    "verified": START,
    "examined": START,
}

_CASES: list[
    tuple[dict[str, Any], dict[str, Any]]
] = [  # fields of a record, and a filter that only it passes
    ({"scope": "Global"}, {"scopes": ("Global",)}),
    ({"agent": "other"}, {"agents": ("other",), "viewer": "other"}),
    ({"tags": ("Special", "more")}, {"tags": ("special",)}),
    ({"tags": ("Special", "more")}, {"tags": ("MORE", "special")}),
    ({"tags": ("Special", "more")}, {"tags": ("nowhere", "special"), "tags_any": True}),
    ({"anchor": True}, {"anchored": True}),
    ({"tier": Tier.HOT}, {"tiers": (Tier.HOT, Tier.PERMANENT)}),
    ({"kind": Kind.DECISION}, {"kinds": (Kind.DECISION, Kind.ERROR)}),
    ({"status": Status.ARCHIVED}, {"statuses": (Status.ARCHIVED,)}),
    ({"topic": "Sailing"}, {"topic": "sailing"}),
    ({"occurred": START - timedelta(days=9)}, {"until": START - timedelta(days=8)}),
    (
        {"occurred": START + timedelta(days=99)},
        {"since": START + timedelta(days=99), "until": START + timedelta(days=100)},
    ),
    ({"provenance": Provenance(conversation="talk", position=1)}, {"conversation": "talk"}),
    ({"keywords": ("Sailing boats", "more")}, {"keywords": keyword_forms(["more", "sailing BOAT"])}),
    ({"keywords": ("Boats", "more")}, {"keywords": keyword_forms(["boat", "nowhere"]), "keywords_any": True}),
    ({"review": START}, {"due": START}),
    ({"verified": None}, {"unverified": True}),
    ({"examined": None}, {"unexamined": True}),
    ({"kind": Kind.EPISODE, "provenance": Provenance(dialect="project")}, {"turns": True}),
    ({"id": "the-only-one"}, {"ids": ("the-only-one", "nobody")}),
    ({"scope": "Global", "tags": ("a",)}, {"scopes": ("Global", "crowded", "nowhere"), "tags": ("A",)}),
]


class FilteredContract:
    """Filtered first: one record that matches is found among thousands that are nearer but don't."""

    @needs(Capability.VECTORS)
    async def test_the_one_that_matches_is_found(self, store: Store, build: Builder) -> None:
        await store.put_scope(build.scope("crowded"))
        wobble = 0.01 * np.random.default_rng(6).normal(size=(_CROWD, DIMENSIONS))
        near = np.asarray(unit(1) + wobble, dtype=np.float32)
        await store.apply(
            [build.put(f"thing n{i}", vector=vector, **_CROWDED) for i, vector in enumerate(near)]
        )
        for fields, where in _CASES:
            wanted = build.put("thing that matches", vector=unit(0.2, 1), **(_CROWDED | fields))
            await store.apply([wanted])
            found = await store.search(Search(Filter(**where), ("thing",), unit(1), MODEL, pool=5))
            assert found.ids == [wanted.memory.id], where
            assert (found.total, found.embedded) == (1, 1)
            assert dict(found.frequencies) == {"thing": 1}
            assert found.average_length == 3
            assert found.cosine_mean == pytest.approx(found.cosines[0], abs=5e-3)
            nearest = await store.nearest([unit(1)], model=MODEL, where=Filter(**where), limit=3)
            assert [neighbour.id for neighbour in nearest[0]] == [wanted.memory.id], where
            await store.erase([wanted.memory.id])

    async def test_little_trusted_records_can_be_left_out(self, store: Store, build: Builder) -> None:
        doubtful, sure = build.put("thing doubtful", vector=unit(1), trust=0.2), build.put("thing", trust=0.5)
        await store.apply([doubtful, sure])
        assert len((await by_text(store, "thing")).ids) == 2
        assert (await by_text(store, "thing", minimum_trust=0.5)).ids == [sure.memory.id]
        assert (await by_vector(store, unit(1), minimum_trust=0.3)).ids == []

    @needs(Capability.VECTORS)
    async def test_a_part_of_a_conversation(self, store: Store, build: Builder) -> None:
        turns = [build.put(f"turn t{i}", vector=unit(1), provenance=at("talk", i)) for i in range(9)]
        elsewhere = build.put("turn elsewhere", vector=unit(1), provenance=at("other talk", 4))
        await store.apply([*turns, elsewhere, build.put("turn without a place", vector=unit(1))])
        for first, last in ((3, 5), (0, 0), (8, 20), (5, 3), (-4, -1)):
            wanted = [turn.memory.id for turn in turns[max(first, 0) : max(last + 1, 0)]]
            where = Filter(conversation="talk", positions=(first, last))
            assert {memory.id for memory in await store.find(where)} == set(wanted)
            assert await store.count(where) == len(wanted)
            found = await store.search(Search(where, ("turn",), unit(1), MODEL))
            assert set(found.ids) == set(wanted)
            assert found.total == found.frequencies["turn"] == len(wanted)
            near = await store.nearest([unit(1)], model=MODEL, where=where, limit=20)
            assert {neighbour.id for neighbour in near[0]} == set(wanted)

    @needs(Capability.VECTORS)
    async def test_nobody_finds_another_agents_records(self, store: Store, build: Builder) -> None:
        talk = {"scope": "Global"}
        mine = build.put("shared word", vector=unit(1), agent="me", provenance=at("talk", 1), **talk)
        theirs = build.put("shared word too", vector=unit(1), agent="them", provenance=at("talk", 2), **talk)
        common = build.put("shared word three", vector=unit(1), provenance=at("talk", 3), **talk)
        await store.apply([mine, theirs, common])
        everything = [mine, theirs, common]
        for viewer, seen in (("me", [mine, common]), ("them", [theirs, common]), ("admin", everything)):
            for asked in ((), ("me", "them", "default")):
                where = Filter(viewer=viewer, agents=asked)
                found = await store.search(Search(where, ("shared",), unit(1), MODEL))
                assert set(found.ids) == {put.memory.id for put in seen}
                assert found.total == found.embedded == found.frequencies["shared"] == len(seen)
                near = await store.nearest([unit(1)], model=MODEL, where=where, limit=9)
                assert {neighbour.id for neighbour in near[0]} == set(found.ids)
        assert (await by_text(store, "shared", viewer="me", agents=("them",))).ids == []
        named = await by_text(store, "shared", viewer="me", ids=(theirs.memory.id,))
        assert named.ids == []


class NeighboursContract:
    """The two records before and the two after a leading candidate in its conversation come with it."""

    @needs(Capability.VECTORS)
    async def test_they_are_added_with_all_that_a_ranking_needs(self, store: Store, build: Builder) -> None:
        turns = [
            build.put(f"turn t{i} lamp lamp", vector=unit(1, i), provenance=at("talk", i)) for i in range(9)
        ]
        elsewhere = [build.put(f"else e{i}", provenance=at("other talk", i)) for i in range(9)]
        await store.apply([*turns, *elsewhere])
        found = await store.search(Search(Filter(), ("t4", "lamp"), unit(1, 4), MODEL, pool=4))
        without = await store.search(
            Search(Filter(), ("t4", "lamp"), unit(1, 4), MODEL, pool=4, neighbours=False)
        )
        assert set(without.ids) <= set(found.ids)
        assert {turns[i].memory.id for i in (3, 4, 5)} <= set(found.ids)
        assert not {put.memory.id for put in elsewhere} & set(found.ids)
        assert len(set(found.ids)) == len(found.ids)
        for place, memory_id in enumerate(found.ids):
            number = int(found.positions[place])
            assert turns[number].memory.id == memory_id
            assert found.counts[place].tolist() == [int(number == 4), 2]
            expected = float(unit(1, number) @ unit(1, 4))
            assert found.cosines[place] == pytest.approx(expected, abs=2e-3)

    async def test_they_come_without_vectors_too(self, store: Store, build: Builder) -> None:
        turns = [build.put(f"only o{i}", provenance=at("talk", i)) for i in range(9)]
        await store.apply(turns)
        found = await store.search(Search(Filter(), ("o4",)))
        assert sorted(found.positions.tolist()) == [2, 3, 4, 5, 6]
        assert found.counts.sum() == 1

    async def test_they_pass_the_filter_as_all_others_do(self, store: Store, build: Builder) -> None:
        middle = build.put("middle", provenance=at("talk", 5))
        before = build.put("before", provenance=at("talk", 4), status=Status.FORGOTTEN)
        after = build.put("after", provenance=at("talk", 6), agent="them")
        await store.apply([middle, before, after])
        found = await store.search(Search(Filter(viewer="me"), ("middle",)))
        assert found.ids == [middle.memory.id]

    async def test_they_follow_changes(self, store: Store, other: Store, build: Builder) -> None:
        first = build.put("first", provenance=at("talk", 0))
        await store.apply([first])
        assert len((await other.search(Search(Filter(), ("first",)))).ids) == 1
        second = build.put("second", provenance=at("talk", 1))
        await store.apply([second])
        assert len((await other.search(Search(Filter(), ("first",)))).ids) == 2
        await store.apply([Revise(replace(second.memory, provenance=at("talk", 8)))])
        assert len((await other.search(Search(Filter(), ("first",)))).ids) == 1
        await store.apply([Revise(second.memory)])
        assert len((await other.search(Search(Filter(), ("first",)))).ids) == 2
