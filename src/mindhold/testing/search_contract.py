"""What every store promises about search: by text, by vector, by both, and never outside the filter."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from mindhold.model.lexemes import lexemes, query_lexemes
from mindhold.model.memory import Provenance, Status
from mindhold.model.query import Filter, Search
from mindhold.ports.store import Capability, Put, Revise, Store
from mindhold.testing.builders import (
    MODEL,
    START,
    Builder,
    by_text,
    by_vector,
    clustered,
    needs,
    unit,
)
from mindhold.testing.filters_contract import FilteredContract, NeighboursContract

OTHER_MODEL = "another-model"


class CandidatesContract:
    """Candidates by text and by vector, and what the ranking gets."""

    async def test_an_empty_store_has_no_candidates(self, store: Store) -> None:
        hits = await store.search(Search(Filter(), ("word",), unit(1), MODEL))
        assert hits.ids == []
        assert hits.counts.shape == (0, 1)
        assert (hits.total, hits.embedded, hits.average_length) == (0, 0, 0.0)
        assert await store.nearest([unit(1)], model=MODEL, where=Filter(), limit=3) == [[]]

    @needs(Capability.VECTORS)
    async def test_found_by_text_by_vector_and_by_both(self, store: Store, build: Builder) -> None:
        by_words = build.put("the harbour at dawn", vector=unit(0, 1))
        by_meaning = build.put("boats in the morning", vector=unit(1, 0.1))
        neither = build.put("a recipe", vector=unit(0, 0, 1))
        await store.apply([by_words, by_meaning, neither])
        text = await by_text(store, "harbour")
        assert text.ids == [by_words.memory.id]
        assert np.isnan(text.cosines).all()
        vector = await store.search(Search(Filter(), (), unit(1), MODEL, pool=1))
        assert vector.ids == [by_meaning.memory.id]
        assert vector.counts.shape == (1, 0)
        both = await store.search(Search(Filter(), ("harbour",), unit(1), MODEL, pool=1))
        assert set(both.ids) == {by_words.memory.id, by_meaning.memory.id}
        assert dict(zip(both.ids, both.counts[:, 0].tolist(), strict=True))[by_words.memory.id] == 1

    async def test_a_question_without_words_or_vector_finds_nothing(
        self, store: Store, build: Builder
    ) -> None:
        await store.apply([build.put("something", vector=unit(1))])
        hits = await store.search(Search(Filter()))
        assert hits.ids == []
        assert hits.total == 1

    async def test_strange_lexemes_are_found_nowhere(self, store: Store, build: Builder) -> None:
        await store.apply([build.put("plain words")])
        strange = (
            '"',
            "a b",
            "plain*",
            "",
            "NEAR(",
            "x-y",
            "plain OR words",
            "\x00",
            "-plain",
            "lexemes:plain",
        )
        hits = await store.search(Search(Filter(), (*strange, "plain")))
        assert len(hits.ids) == 1
        assert hits.counts.sum() == 1

    async def test_chinese_japanese_and_korean_words_of_one_and_two_characters(
        self, store: Store, build: Builder
    ) -> None:
        texts = ["昨天我在图书馆看书", "猫が好きです", "서울에서 김치를 먹었다", "東京タワー"]
        puts = [replace(build.put(text), lexemes=lexemes(text)) for text in texts]
        await store.apply(puts)
        for question, expected in (("书", 0), ("图书", 0), ("猫", 1), ("김치", 2), ("東京", 3)):
            assert puts[expected].memory.id in (await by_text(store, *query_lexemes(question))).ids, question

    async def test_counts_lengths_and_frequencies_are_those_of_the_lexemes(
        self, store: Store, build: Builder
    ) -> None:
        random = np.random.default_rng(1)
        vocabulary = [f"w{number}" for number in range(30)]
        puts = [
            build.put(f"r{i} " + " ".join(random.choice(vocabulary, size=random.integers(1, 40))))
            for i in range(150)
        ]
        hidden = [build.put(f"h{i} w3 w3", status=Status.ARCHIVED) for i in range(5)]
        await store.apply([*puts, *hidden])
        lexemes = ("w3", "w7", "nowhere", "r9")
        hits = await store.search(Search(Filter(), lexemes, pool=1000))
        tallies = {put.memory.id: Counter(put.lexemes) for put in puts}
        assert set(hits.ids) == {
            memory_id for memory_id, tally in tallies.items() if any(tally[word] for word in lexemes)
        }
        expected = [[tallies[memory_id][word] for word in lexemes] for memory_id in hits.ids]
        assert hits.counts.tolist() == expected
        assert hits.lengths.tolist() == [tallies[memory_id].total() for memory_id in hits.ids]
        assert hits.total == len(puts)
        assert hits.average_length == pytest.approx(np.mean([tally.total() for tally in tallies.values()]))
        assert dict(hits.frequencies) == {
            word: sum(word in tally for tally in tallies.values()) for word in lexemes
        }

    async def test_the_same_word_twice_in_a_row_counts_twice(self, store: Store, build: Builder) -> None:
        await store.apply([build.put("very very very good"), build.put("very")])
        hits = await store.search(Search(Filter(), ("very",)))
        assert sorted(hits.counts[:, 0].tolist()) == [1, 3]

    async def test_the_text_pool_holds_the_best(self, store: Store, build: Builder) -> None:
        both = build.put("rare common")
        await store.apply([build.put(f"common n{i}") for i in range(60)] + [both])
        hits = await store.search(Search(Filter(), ("common", "rare"), pool=5))
        assert len(hits.ids) == 5
        assert both.memory.id in hits.ids

    @needs(Capability.VECTORS)
    async def test_what_the_ranking_gets_about_a_record(self, store: Store, build: Builder) -> None:
        put = build.put(
            "told",
            importance=0.35,
            trust=0.6,
            provenance=Provenance(conversation="talk", position=7),
            vector=unit(3, 4),
        )
        loose = build.put("told again", provenance=Provenance(conversation="talk"))
        await store.apply([put, loose])
        await store.touch([put.memory.id], START)
        hits = await store.search(Search(Filter(), ("told",), unit(1), MODEL))
        index = hits.ids.index(put.memory.id)
        assert hits.importance[index] == pytest.approx(0.35)
        assert hits.trust[index] == pytest.approx(0.6)
        assert hits.uses[index] == 1
        assert hits.occurred[index] == pytest.approx(put.memory.occurred.timestamp(), abs=1e-3)
        assert hits.conversations == ["talk", "talk"]
        assert hits.openings == ["told", "told"]
        assert sorted(hits.positions.tolist()) == [-1, 7]
        assert hits.cosines[index] == pytest.approx(0.6, abs=2e-3)
        assert np.isnan(hits.cosines[1 - index])
        assert hits.embedded == 1


class VectorContract:
    """Vectors are compared exactly, within one model, and follow every change."""

    @needs(Capability.VECTORS)
    async def test_the_nearest_are_those_of_brute_force(self, store: Store, build: Builder) -> None:
        vectors = clustered(3_000, seed=2)
        puts = [build.put(vector=vector) for vector in vectors]
        await store.apply(puts)
        matrix = np.array(vectors)
        ids = np.array([put.memory.id for put in puts])
        for query in clustered(12, seed=3):
            cosines = matrix @ query
            best = set(ids[np.argsort(-cosines)[:10]])
            hits = await store.search(Search(Filter(), (), query, MODEL, pool=10))
            assert set(hits.ids) == best
            cosine_by_id = dict(zip(hits.ids, hits.cosines.tolist(), strict=True))
            for memory_id in best:
                assert cosine_by_id[memory_id] == pytest.approx(cosines[ids == memory_id][0], abs=2e-3)
            assert hits.cosine_mean == pytest.approx(cosines.mean(), abs=5e-3)
            assert hits.cosine_deviation == pytest.approx(cosines.std(), abs=5e-3)
            assert hits.embedded == 3_000
            near = await store.nearest([query], model=MODEL, where=Filter(), limit=10)
            assert {neighbour.id for neighbour in near[0]} == best
            assert [n.cosine for n in near[0]] == sorted((n.cosine for n in near[0]), reverse=True)

    @needs(Capability.VECTORS)
    async def test_many_vectors_at_once(self, store: Store, build: Builder) -> None:
        puts = [build.put(vector=vector) for vector in clustered(300, seed=4)]
        await store.apply(puts)
        queries = [put.vector for put in puts[:20] if put.vector is not None]
        answers = await store.nearest(queries, model=MODEL, where=Filter(), limit=2)
        assert [answer[0].id for answer in answers] == [put.memory.id for put in puts[:20]]
        assert all(answer[0].cosine == pytest.approx(1.0, abs=2e-3) for answer in answers)
        assert await store.nearest([], model=MODEL, where=Filter(), limit=2) == []

    @needs(Capability.VECTORS)
    async def test_text_candidates_have_their_cosines_too(self, store: Store, build: Builder) -> None:
        far = build.put("marked", vector=unit(-1, 0.5))
        await store.apply([far, *(build.put(vector=unit(1, i / 100)) for i in range(50))])
        hits = await store.search(Search(Filter(), ("marked",), unit(1), MODEL, pool=5))
        index = hits.ids.index(far.memory.id)
        assert hits.cosines[index] == pytest.approx(-1 / np.sqrt(1.25), abs=2e-3)

    @needs(Capability.VECTORS)
    async def test_vectors_of_another_model_are_not_compared(self, store: Store, build: Builder) -> None:
        ours = build.put("ours", vector=unit(0.5, 1))
        theirs = build.put("theirs", vector=unit(1, dimensions=48), embedded_by=OTHER_MODEL)
        await store.apply([ours, theirs])
        hits = await store.search(Search(Filter(), ("theirs",), unit(1), MODEL))
        assert np.isnan(hits.cosines[hits.ids.index(theirs.memory.id)])
        assert hits.embedded == 1
        near = await store.nearest([unit(1)], model=MODEL, where=Filter(), limit=5)
        assert [neighbour.id for neighbour in near[0]] == [ours.memory.id]
        query = unit(1, dimensions=48)
        other = await store.nearest([query], model=OTHER_MODEL, where=Filter(), limit=5)
        assert [neighbour.id for neighbour in other[0]] == [theirs.memory.id]
        assert (await by_vector(store, unit(1))).ids == [ours.memory.id]

    @needs(Capability.VECTORS)
    async def test_unembedded_memories_of_some_scopes(self, store: Store, build: Builder) -> None:
        for name in ("work", "team"):
            await store.put_scope(build.scope(name))
        old = build.put("old", scope="work", vector=unit(1), embedded_by=OTHER_MODEL)
        bare = build.put("bare", scope="team")
        done = build.put("done", scope="team", vector=unit(1))
        forgotten = build.put("gone", scope="work", status=Status.FORGOTTEN)
        await store.apply([build.put("in Global"), old, bare, done, forgotten])
        for names, expected in (
            (["work"], {"old"}),
            (["team", "work"], {"old", "bare"}),
            (["nowhere"], set()),
        ):
            hits = await store.unembedded(MODEL, limit=10, scopes=names)
            assert {memory.content for memory in hits} == expected
        assert len(await store.unembedded(MODEL, limit=1, scopes=["team", "work"])) == 1

    @needs(Capability.VECTORS)
    async def test_vectors_are_set_later_and_replace_those_of_other_models(
        self, store: Store, build: Builder
    ) -> None:
        bare = build.put("bare")
        old = build.put("old", vector=unit(1), embedded_by=OTHER_MODEL)
        done = build.put("done", vector=unit(0, 1))
        forgotten = build.put("forgotten", status=Status.FORGOTTEN)
        await store.apply([bare, old, done, forgotten])
        waiting = await store.unembedded(MODEL, limit=10)
        assert {memory.id for memory in waiting} == {old.memory.id, bare.memory.id}
        assert len(waiting) == 2
        assert len(await store.unembedded(MODEL, limit=1)) == 1
        vectors = {memory.id: (memory.content_hash, unit(1, 1)) for memory in waiting}
        vectors["nobody"] = ("hash", unit(1))
        vectors[done.memory.id] = ("the hash of what it said before", unit(1))
        assert await store.put_vectors(vectors, model=MODEL) == 2
        assert await store.unembedded(MODEL, limit=10) == []
        assert (await store.get(bare.memory.id, viewer="default")).embedded_by == MODEL
        stored = await store.vector_of([bare.memory.id, old.memory.id, "nobody"], model=MODEL)
        assert set(stored) == {bare.memory.id, old.memory.id}
        assert stored[bare.memory.id] == pytest.approx(unit(1, 1), abs=2e-3)
        assert await store.vector_of([old.memory.id], model=OTHER_MODEL) == {}
        hits = await by_vector(store, unit(1, 1))
        assert set(hits.ids[:2]) | {done.memory.id} == set(hits.ids)
        unchanged = await store.vector_of([done.memory.id], model=MODEL)
        assert unchanged[done.memory.id] == pytest.approx(unit(0, 1), abs=2e-3)


class FollowingContract:
    """A search sees every write that was acknowledged before it, by any handle."""

    @needs(Capability.VECTORS)
    async def test_changed_content_is_found_by_its_new_words_and_vector_at_once(
        self, store: Store, build: Builder
    ) -> None:
        put = build.put("before", vector=unit(1))
        await store.apply([put])
        assert (await by_text(store, "before")).ids == [put.memory.id]
        memory = replace(put.memory, content="after", content_hash="another")
        await store.apply([Put(memory, ["after"], vector=unit(0, 1))])
        assert (await by_text(store, "before")).ids == []
        assert (await by_text(store, "after")).ids == [put.memory.id]
        hits = await by_vector(store, unit(0, 1))
        assert hits.cosines.tolist() == pytest.approx([1.0], abs=2e-3)
        await store.apply([Put(replace(memory, embedded_by=None), ["after"])])
        assert (await by_vector(store, unit(0, 1))).embedded == 0

    @needs(Capability.VECTORS)
    async def test_a_forgotten_record_leaves_at_once_and_comes_back_when_undone(
        self, store: Store, build: Builder
    ) -> None:
        put = build.put("secret plan", vector=unit(1))
        await store.apply([put])
        assert (await by_text(store, "plan")).total == 1
        await store.apply([Revise(replace(put.memory, status=Status.FORGOTTEN))])
        assert (await by_text(store, "plan")).ids == []
        assert (await by_vector(store, unit(1))).ids == []
        assert await store.nearest([unit(1)], model=MODEL, where=Filter(), limit=1) == [[]]
        await store.apply([Revise(put.memory)])
        assert (await by_text(store, "plan")).ids == [put.memory.id]
        assert (await by_vector(store, unit(1))).ids == [put.memory.id]

    @needs(Capability.VECTORS)
    async def test_another_handle_sees_writes_at_its_next_call(
        self, store: Store, other: Store, build: Builder
    ) -> None:
        first, second = build.put("first", vector=unit(1)), build.put("second")
        await store.apply([first])
        assert (await by_vector(other, unit(1))).ids == [first.memory.id]
        await store.apply([second])
        assert (await by_text(other, "second")).ids == [second.memory.id]
        await store.put_vectors({second.memory.id: (second.memory.content_hash, unit(0, 1))}, model=MODEL)
        near = await other.nearest([unit(0, 1)], model=MODEL, where=Filter(), limit=1)
        assert [neighbour.id for neighbour in near[0]] == [second.memory.id]
        await store.apply([Revise(replace(first.memory, status=Status.ARCHIVED))])
        assert (await by_vector(other, unit(1))).ids == [second.memory.id]
        await store.erase([second.memory.id])
        assert (await by_vector(other, unit(0, 1))).ids == []
        assert (await by_text(other, "second")).ids == []
        assert (await by_text(other, "first", statuses=())).ids == [first.memory.id]

    @needs(Capability.VECTORS)
    async def test_a_search_never_sees_half_of_a_change(
        self, store: Store, other: Store, build: Builder
    ) -> None:
        current = build.put("the plan v0", vector=unit(1))
        await store.apply([current])
        done = False

        async def look(handle: Store) -> int:
            times = 0
            while not done:
                hits = await handle.search(Search(Filter(), ("plan",), unit(1), MODEL))
                assert len(hits.ids) == hits.total == hits.embedded == hits.frequencies["plan"] == 1
                assert len((await handle.nearest([unit(1)], model=MODEL, where=Filter(), limit=2))[0]) == 1
                times += 1
            return times

        looking = [asyncio.create_task(look(handle)) for handle in (store, other, store, other)]
        for number in range(1, 25):
            following = build.put(f"the plan v{number}", vector=unit(1))
            await store.apply([Revise(replace(current.memory, status=Status.SUPERSEDED)), following])
            current = following
        done = True
        assert min(await asyncio.gather(*looking)) > 0

    @needs(Capability.VECTORS)
    async def test_many_changes_and_erasures(self, store: Store, other: Store, build: Builder) -> None:
        vectors = clustered(600, seed=5)
        puts = [build.put(f"number{i} all", vector=vector) for i, vector in enumerate(vectors)]
        await store.apply(puts)
        assert (await by_text(other, "all")).total == len(puts)
        erased_ids = {put.memory.id for put in puts[::2]}
        await store.erase(sorted(erased_ids))
        late = build.put("late all", vector=vectors[0])
        await store.apply([late])
        for handle in (store, other):
            hits = await handle.search(Search(Filter(), ("all", "number7"), vectors[7], MODEL, pool=50))
            assert hits.total == hits.embedded == len(puts) - len(erased_ids) + 1
            assert hits.frequencies["all"] == hits.total
            assert not erased_ids & set(hits.ids)
            assert puts[7].memory.id in hits.ids
            near = await handle.nearest([vectors[0]], model=MODEL, where=Filter(), limit=1)
            assert near[0][0].id == late.memory.id


class SearchContract(
    CandidatesContract, VectorContract, FollowingContract, FilteredContract, NeighboursContract
):
    """The whole contract of search."""
