"""What every store promises about the messages of projects' logs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mindhold.model.memory import LOG, PART, Kind, Provenance, Status, is_turn
from mindhold.model.query import Filter, Order
from mindhold.ports.store import Capability, Revise, Store
from mindhold.testing.builders import MODEL, Builder, unit
from mindhold.testing.records_contract import ids

_TURN: dict[str, Any] = {
    "kind": Kind.EPISODE,
    "provenance": Provenance(dialect=LOG, conversation="talk", position=1),
}


class TurnsContract:
    """Messages are counted and listed apart from all else, a long one once."""

    async def test_a_message_counts_once_and_nothing_else_counts(self, store: Store, build: Builder) -> None:
        said = {"message_type": "user"}
        turns = [
            build.put("short", metadata=said, **_TURN),
            build.put("first of a long one", metadata={**said, "parts": 3}, **_TURN),
            build.put("names the word inside", metadata={**said, "extras": {PART: 2}}, **_TURN),
            build.put("odd", metadata={**said, "extras": {"text": f'"{PART}" \x00 "$'}}, **_TURN),
            build.put("embedded", metadata=said, vector=unit(1), **_TURN),
        ]
        others = [
            build.put("second", metadata={**said, PART: 1}, **_TURN),
            build.put("third", metadata={**said, PART: 2, "gap": " "}, **_TURN),
            build.put("of another dialect", kind=Kind.EPISODE, metadata=said),
            build.put("a fact", provenance=_TURN["provenance"]),
            build.put("hidden", metadata=said, status=Status.QUARANTINED, **_TURN),
        ]
        await store.apply([*turns, *others])
        assert [is_turn(put.memory) for put in (*turns, *others)] == [True] * 5 + [False] * 4 + [True]
        wanted = [put.memory.id for put in turns]
        for where in (Filter(turns=True), Filter(turns=True, scopes=("Global",), minimum_trust=0.5)):
            assert ids(await store.find(where, order=Order.OLDEST)) == wanted
            assert ids(await store.find(where, limit=2)) == wanted[:-3:-1]
            assert await store.count(where) == 5
            tally = await store.tally(where, "embedded_by")
            kept = await store.get(wanted[-1], viewer="system")
            assert tally.get(MODEL, 0) == int(kept.embedded_by is not None)
            assert (kept.embedded_by is not None) == (Capability.VECTORS in store.capabilities)
            assert sum(tally.values()) == 5
        assert sorted([one.id async for page in store.scan(Filter(turns=True)) for one in page]) == sorted(
            wanted
        )
        within = Filter(turns=True, conversation="talk", scopes=("Global",))
        assert await store.count(within) == 5
        assert await store.count(Filter(turns=True, scopes=("nowhere",))) == 0

    async def test_what_becomes_a_message_or_ceases_to_be_one(self, store: Store, build: Builder) -> None:
        put = build.put("said once", metadata={"message_type": "user"}, **_TURN)
        await store.apply([put])

        async def revised(**fields: Any) -> int:
            known = await store.get(put.memory.id, viewer="system")
            await store.apply([Revise(replace(known, **fields))])
            return await store.count(Filter(turns=True))

        assert await revised(kind=Kind.NOTE) == 0
        assert await revised(kind=Kind.EPISODE) == 1
        assert await revised(metadata={PART: 1}) == 0
