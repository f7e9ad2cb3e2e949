"""The index in memory, without a store."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from mindhold.model.memory import Kind, Status
from mindhold.model.query import Filter, Vector
from mindhold.stores.resident_index import (
    AdmittedSlots,
    ReadWriteLock,
    RecordBatch,
    ResidentIndex,
    best_by_text,
)
from mindhold.stores.vectors import NearestCodes, Sketches, decode, encode, exact_cosines

WIDTH = 96


def sentences(count: int, *, seed: int, width: int = WIDTH, lean: float = 0.0) -> npt.NDArray[np.float32]:
    """Vectors in heaps; with `lean` all of them point a little to one side, as those of some models do."""
    random = np.random.default_rng(seed)
    centres = random.normal(size=(50, width))
    vectors = centres[random.integers(0, 50, count)] + 0.7 * random.normal(size=(count, width)) + lean
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), dtype=np.float32)


def batch(rows: Sequence[int], vectors: Sequence[Vector | None] | None = None, **columns: Any) -> RecordBatch:
    size = len(rows)
    codes = [None] * size if vectors is None else [None if v is None else encode(v)[1] for v in vectors]
    plain: dict[str, Any] = {
        "rows": rows,
        "scopes": ["Global"] * size,
        "agents": ["default"] * size,
        "kinds": ["fact"] * size,
        "statuses": ["active"] * size,
        "occurred": [float(row) for row in rows],
        "trust": [1.0] * size,
        "lengths": [10] * size,
        "conversations": [None] * size,
        "positions": [None] * size,
        "codes": codes,
    }
    return RecordBatch(**{**plain, **columns})


def filled(vectors: npt.NDArray[np.float32], **options: Any) -> ResidentIndex:
    resident = ResidentIndex(**options)
    resident.put(batch(range(1, len(vectors) + 1), list(vectors)))
    resident.settle(1)
    return resident


def everything(resident: ResidentIndex, where: Filter | None = None) -> AdmittedSlots:
    return resident.reach(where or Filter(), scopes=None, rows=None)


def rows_in(resident: ResidentIndex, reach: AdmittedSlots) -> list[int]:
    return [int(row) for row in resident.rows(np.flatnonzero(reach.mask))]


def nearest_slots(resident: ResidentIndex, vector: Vector, reach: AdmittedSlots, limit: int) -> NearestCodes:
    (nearest,) = resident.nearest_each([vector], reach, limit)
    return nearest


class TestCodes:
    def test_a_vector_comes_back_with_unit_length(self) -> None:
        vector = np.array([3.0, 4.0], dtype=np.float32)
        exact, code = encode(vector)
        assert decode(exact) == pytest.approx([0.6, 0.8], abs=1e-3)
        assert (len(exact), len(code)) == (4, 6)

    def test_the_zero_vector_is_like_nothing(self) -> None:
        exact, _ = encode(np.zeros(8, dtype=np.float32))
        assert exact_cosines(np.ones(8, dtype=np.float32), [exact]).tolist() == [0.0]

    def test_exact_cosines_are_those_of_the_vectors(self) -> None:
        vectors = sentences(50, seed=1)
        found = exact_cosines(3 * vectors[0], [encode(vector)[0] for vector in vectors])
        assert found == pytest.approx(vectors @ vectors[0], abs=1e-3)
        assert len(exact_cosines(vectors[0], [])) == 0


class TestNearest:
    def test_the_nearest_by_code_hold_the_nearest(self) -> None:
        vectors = sentences(4_000, seed=1)
        resident = filled(vectors)
        for query in sentences(20, seed=2):
            cosines = vectors @ query
            found = nearest_slots(resident, query, everything(resident), 40)
            assert set(np.argsort(-cosines)[:10] + 1) <= set(resident.rows(found.slots).tolist())
            assert found.exact
            assert found.embedded == 4_000
            assert found.cosines == pytest.approx(np.sort(cosines)[::-1][:40], abs=5e-3)
            assert (found.mean, found.deviation) == pytest.approx((cosines.mean(), cosines.std()), abs=1e-3)

    @pytest.mark.parametrize("share", [0.01, 0.3, 0.6, 1.0])
    def test_the_filter_comes_first(self, share: float) -> None:
        vectors = sentences(3_000, seed=3)
        resident = filled(vectors)
        allowed = np.flatnonzero(np.random.default_rng(4).random(3_000) < share)
        reach = resident.reach(Filter(), scopes=None, rows=(allowed + 1).tolist())
        query = sentences(1, seed=5)[0]
        cosines = vectors[allowed] @ query
        found = nearest_slots(resident, query, reach, 10_000)
        assert found.embedded == len(allowed) == len(found.slots)
        assert found.mean == pytest.approx(cosines.mean(), abs=1e-3)
        assert resident.rows(found.slots[:1]).tolist() == [allowed[np.argmax(cosines)] + 1]

    @pytest.mark.parametrize("lean", [0.0, 2.0])
    def test_sketches_find_nearly_all_of_the_nearest(self, lean: float) -> None:
        drawn = sentences(12_040, seed=6, lean=lean)
        vectors, queries = drawn[:12_000], drawn[12_000:]
        resident = filled(vectors, exact_up_to=1_000)
        reach = everything(resident)
        kept = 0
        for query in queries:
            cosines = vectors @ query
            found = nearest_slots(resident, query, reach, 60)
            assert not found.exact
            assert found.embedded == 12_000
            assert (found.mean, found.deviation) == pytest.approx((cosines.mean(), cosines.std()), abs=0.03)
            kept += len(set(np.argsort(-cosines)[:10] + 1) & set(resident.rows(found.slots).tolist()))
        assert kept / (10 * len(queries)) >= 0.98

    def test_sketches_are_filtered_first_too(self) -> None:
        vectors = sentences(9_000, seed=8)
        resident = filled(vectors, exact_up_to=1_000)
        query = vectors[0]
        allowed = np.argsort(vectors @ query)[:2_000]
        reach = resident.reach(Filter(), scopes=None, rows=(allowed + 1).tolist())
        found = nearest_slots(resident, query, reach, 10)
        assert not found.exact
        assert len(found.slots) == 10
        assert set(resident.rows(found.slots).tolist()) <= set((allowed + 1).tolist())

    def test_many_vectors_at_once_find_their_likes(self) -> None:
        vectors = sentences(33_000, seed=9)
        resident = filled(vectors)
        found = resident.nearest_each(list(vectors[100:110]), everything(resident), 3)
        assert [resident.rows(one.slots)[0] for one in found] == list(range(101, 111))

    def test_a_query_of_another_width_is_near_nothing(self) -> None:
        resident = filled(sentences(10, seed=1))
        assert len(nearest_slots(resident, np.ones(7, dtype=np.float32), everything(resident), 3).slots) == 0

    def test_without_any_vector(self) -> None:
        resident = ResidentIndex()
        resident.put(batch([1, 2]))
        resident.settle(1)
        found = nearest_slots(resident, np.ones(WIDTH, dtype=np.float32), everything(resident), 3)
        assert (len(found.slots), found.embedded) == (0, 0)

    def test_sketches_of_any_width(self) -> None:
        vectors = sentences(500, seed=1, width=70)
        sketches = Sketches(vectors.mean(axis=0), 500)
        sketches.put(np.arange(500), vectors)
        assert 42 in sketches.closest(vectors[42], np.ones(500, dtype=np.bool_), 1)
        assert sketches.closest(vectors[42], np.zeros(500, dtype=np.bool_), 5).tolist() == []


class TestChanges:
    @pytest.mark.parametrize("exact_up_to", [10, 1_000_000])
    def test_after_many_changes_it_is_as_if_loaded_anew(self, exact_up_to: int) -> None:
        random = np.random.default_rng(10)
        pool = sentences(6_000, seed=11)
        resident = ResidentIndex(exact_up_to=exact_up_to)
        known: dict[int, Vector | None] = {}
        fresh = 0
        for turn in range(30):
            fresh += 200
            rows = [*random.choice(list(known) or [1], size=min(40, len(known)), replace=False).tolist()]
            rows = [int(row) for row in rows] + list(range(fresh - 199, fresh + 1))
            vectors = [pool[random.integers(6_000)] if random.random() < 0.9 else None for _ in rows]
            resident.put(batch(rows, vectors))
            known.update(zip(rows, vectors, strict=True))
            gone = [int(row) for row in random.choice(list(known), size=90, replace=False)]
            resident.remove([*gone, 10**7])
            for row in gone:
                known.pop(row)
            resident.settle(turn + 1)
            reach = everything(resident)
            assert rows_in(resident, reach) == sorted(known)
            assert len(resident) == reach.total == len(known)
            embedded = {row: vector for row, vector in known.items() if vector is not None}
            row, vector = next(iter(embedded.items()))
            found = nearest_slots(resident, vector, reach, 5)
            assert found.embedded == len(embedded)
            assert found.cosines[0] == pytest.approx(1.0, abs=5e-3)
            best = np.array([resident_vector @ vector for resident_vector in embedded.values()]).max()
            assert found.cosines[0] == pytest.approx(best, abs=5e-3)
            assert row in embedded

    def test_a_changed_record_is_filtered_by_what_it_is_now(self) -> None:
        resident = ResidentIndex()
        resident.put(batch([1, 2, 3]))
        resident.put(batch([2], statuses=["forgotten"]))
        resident.settle(1)
        assert rows_in(resident, everything(resident)) == [1, 3]
        assert rows_in(resident, everything(resident, Filter(statuses=(Status.FORGOTTEN,)))) == [2]

    def test_another_model_starts_without_codes(self) -> None:
        vectors = sentences(20, seed=1)
        resident = filled(vectors)
        resident.forget_codes("another")
        assert nearest_slots(resident, vectors[0], everything(resident), 3).embedded == 0
        other = sentences(2, seed=2, width=33)
        resident.put_codes([3, 4, 99], [encode(other[0])[1], encode(other[1])[1], encode(other[1])[1]])
        assert resident.rows(nearest_slots(resident, other[1], everything(resident), 1).slots).tolist() == [4]

    def test_a_code_of_another_width_counts_as_none(self) -> None:
        vectors = sentences(3, seed=1)
        resident = filled(vectors)
        resident.put(batch([2], [np.ones(5, dtype=np.float32)]))
        resident.settle(2)
        assert nearest_slots(resident, vectors[0], everything(resident), 9).embedded == 2


class TestReach:
    @pytest.fixture
    def resident(self) -> ResidentIndex:
        resident = ResidentIndex()
        columns: dict[str, Any] = {
            "scopes": ["Global", "work", "home", "work"],
            "agents": ["default", "me", "them", "me"],
            "kinds": ["fact", "error", "fact", "fact"],
            "statuses": ["active", "active", "active", "archived"],
            "trust": [1.0, 0.3, 1.0, 0.9],
        }
        resident.put(batch([1, 2, 3, 4], **columns))
        resident.settle(1)
        return resident

    @pytest.mark.parametrize(
        ("where", "scopes", "rows", "expected"),
        [
            (Filter(), None, None, [1]),
            (Filter(viewer="me"), None, None, [1, 2]),
            (Filter(viewer="admin"), None, None, [1, 2, 3]),
            (Filter(viewer="me", agents=("them",)), None, None, []),
            (Filter(viewer="me", agents=("me", "them")), None, None, [2]),
            (Filter(viewer="system", agents=("them",)), None, None, [3]),
            (Filter(viewer="me", statuses=()), None, None, [1, 2, 4]),
            (Filter(viewer="me", statuses=(Status.ARCHIVED,)), None, None, [4]),
            (Filter(viewer="admin", kinds=(Kind.FACT,)), None, None, [1, 3]),
            (Filter(viewer="admin"), ["work", "home"], None, [2, 3]),
            (Filter(viewer="admin"), [], None, []),
            (Filter(viewer="admin"), None, [3, 1, 77], [1, 3]),
            (Filter(viewer="admin"), None, [], []),
            (Filter(viewer="admin", minimum_trust=0.5), None, None, [1, 3]),
            (Filter(viewer="admin", minimum_trust=0.3), None, None, [1, 2, 3]),
            (Filter(viewer="admin", since=datetime.fromtimestamp(2, UTC)), None, None, [2, 3]),
            (Filter(viewer="admin", until=datetime.fromtimestamp(2, UTC)), None, None, [1]),
        ],
    )
    def test_each_condition(
        self,
        resident: ResidentIndex,
        where: Filter,
        scopes: list[str] | None,
        rows: list[int] | None,
        expected: list[int],
    ) -> None:
        for _ in range(2):  # the second time by what it remembers
            reach = resident.reach(where, scopes=scopes, rows=rows)
            assert rows_in(resident, reach) == expected
            assert reach.total == len(expected)

    def test_what_it_remembers_of_a_filter_learns_of_new_records(self, resident: ResidentIndex) -> None:
        assert everything(resident).total == 1
        resident.put(batch([9], kinds=["note"], scopes=["new"]))
        resident.settle(2)
        assert rows_in(resident, everything(resident)) == [1, 9]

    def test_the_average_length_is_that_of_what_is_within_reach(self) -> None:
        resident = ResidentIndex()
        resident.put(batch([1, 2, 3], lengths=[2, 4, 60], statuses=["active", "active", "archived"]))
        resident.settle(1)
        assert resident.average_length(everything(resident)) == 3.0
        assert resident.average_length(resident.reach(Filter(), scopes=[], rows=None)) == 0.0


class TestNeighbours:
    @pytest.mark.parametrize("count", [12, 3_000])
    def test_two_places_before_and_after(self, count: int) -> None:
        resident = ResidentIndex()
        talks = ["a" if row % 2 else "b" for row in range(1, count + 1)]
        places = [row // 2 for row in range(1, count + 1)]
        resident.put(batch(range(1, count + 1), conversations=talks, positions=places))
        resident.settle(1)
        beside = resident.beside(resident.slots(np.array([7])), everything(resident))
        assert sorted(resident.rows(beside).tolist()) == [3, 5, 9, 11]

    def test_none_without_a_place(self) -> None:
        resident = ResidentIndex()
        resident.put(batch([1, 2, 3, 4], conversations=["a", None, "a", "a"], positions=[None, 1, -1, 2**40]))
        resident.settle(1)
        assert len(resident.beside(np.arange(4), everything(resident))) == 0

    def test_the_last_of_one_conversation_is_not_beside_the_first_of_the_next(self) -> None:
        resident = ResidentIndex()
        resident.put(batch([1, 2], conversations=["a", "b"], positions=[2**31 - 1, 0]))
        resident.settle(1)
        assert len(resident.beside(np.arange(2), everything(resident))) == 0

    def test_moved_and_removed_records_leave_their_place(self) -> None:
        resident = ResidentIndex()
        resident.put(batch([1, 2, 3], conversations=["a"] * 3, positions=[1, 2, 3]))
        resident.put(batch([1], conversations=["a"], positions=[17]))
        resident.remove([3])
        resident.settle(1)
        beside = resident.beside(resident.slots(np.array([2])), everything(resident))
        assert len(beside) == 0


class TestText:
    def test_rare_words_weigh_more_and_short_texts_too(self) -> None:
        lengths = np.array([10, 10, 10, 40], dtype=np.int32)
        common, rare = np.array([0, 1, 2, 3]), np.array([2])
        best = best_by_text(
            [common, rare], frequencies=[4, 1], lengths=lengths, average_length=17.5, total=4, limit=3
        )
        assert best[0] == 2
        assert 3 not in best

    def test_nothing_sought_finds_nothing(self) -> None:
        lengths = np.array([1], dtype=np.int32)
        best = best_by_text([], frequencies=[], lengths=lengths, average_length=1.0, total=1, limit=3)
        assert len(best) == 0


class TestGate:
    def test_who_changes_is_alone(self) -> None:
        gate, state, torn = ReadWriteLock(), [0, 0], []

        def change() -> None:
            for _ in range(300):
                with gate.changing():
                    state[0] += 1
                    state[1] += 1

        def look() -> None:
            for _ in range(600):
                with gate.looking():
                    if state[0] != state[1]:
                        torn.append(tuple(state))

        threads = [threading.Thread(target=work) for work in (change, look, look, change, look)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=30)
        assert torn == []
        assert state == [600, 600]

    def test_several_look_at_once(self) -> None:
        gate, meeting = ReadWriteLock(), threading.Barrier(3, timeout=30)

        def look() -> None:
            with gate.looking():
                meeting.wait()

        threads = [threading.Thread(target=look) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=30)
        assert not meeting.broken
