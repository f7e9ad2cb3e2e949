"""Any writing operation under a caller's key: done once, answered alike."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from front_door import Open, at, everything, remember, run, show, stored

from mindhold.app.application import App
from mindhold.memories.amend import AMEND
from mindhold.memories.filters import LIST
from mindhold.memories.forget import FORGET
from mindhold.memories.idempotency import IDEMPOTENCY_NAMESPACE, TERM, HeldKey, hold_key, renew_key
from mindhold.memories.links import LINK
from mindhold.memories.remember import REMEMBER, REMEMBER_MANY
from mindhold.model.errors import Conflict, InvalidInput, KeyReused, MemoryNotFound, ScopeNotFound
from mindhold.model.scope import Caller
from mindhold.operations import Operation
from mindhold.projects.scope_operations import CREATE_SCOPE, LIST_SCOPES

TEXT = "The lighthouse lamp turns every nine seconds."
NEW = "The lighthouse lamp turns every ten seconds."


class Keyed:
    """Calls with a key, and how many of them were repeats."""

    def __init__(self, app: App, key: str = "k1", caller: Caller | None = None) -> None:
        self._app, self._key, self._caller = app, key, caller
        self.repeats = 0

    async def __call__(self, operation: Operation[Any, Any], **given: Any) -> Any:
        return await self._app.run(
            operation, operation.takes(**given), key=self._key, caller=self._caller, on_repeat=self._repeated
        )

    def _repeated(self) -> None:
        self.repeats += 1


async def test_a_repeated_call_gets_the_first_answer_and_does_nothing(app: App) -> None:
    memory = await stored(app, TEXT)
    keyed = Keyed(app)
    first = await keyed(AMEND, id=memory, content=NEW)
    await run(app, AMEND, id=memory, content="The lamp is dark.")
    again = await keyed(AMEND, id=memory, content=NEW)
    assert again == first
    assert keyed.repeats == 1
    assert (await show(app, memory)).memory.content == "The lamp is dark."


async def test_one_key_stands_for_one_call(app: App) -> None:
    one, two = await stored(app, TEXT), await stored(app, "The harbour is closed.")
    keyed = Keyed(app)
    await keyed(LINK, origin=one, target=two)
    for operation, given in ((LINK, {"origin": two, "target": one}), (AMEND, {"id": one, "content": NEW})):
        with pytest.raises(KeyReused):
            await keyed(operation, **given)
    assert keyed.repeats == 0


async def test_the_order_of_what_is_given_is_no_matter(app: App) -> None:
    memory = await stored(app, TEXT)
    keyed = Keyed(app)
    await keyed(AMEND, id=memory, metadata={"a": 1, "b": {"c": 2, "d": 3}})
    await keyed(AMEND, id=memory, metadata={"b": {"d": 3, "c": 2}, "a": 1})
    assert keyed.repeats == 1


async def test_errors_are_not_kept(app: App) -> None:
    keyed = Keyed(app)
    with pytest.raises(ScopeNotFound):
        await keyed(CREATE_SCOPE, name="inner", parent="outer")
    await run(app, CREATE_SCOPE, name="outer")
    await keyed(CREATE_SCOPE, name="inner", parent="outer")
    assert keyed.repeats == 0


async def test_reading_is_done_anew(app: App) -> None:
    keyed = Keyed(app)
    assert (await keyed(LIST)).total == 0
    await stored(app, TEXT)
    assert (await keyed(LIST)).total == 1
    assert keyed.repeats == 0


@pytest.mark.parametrize("operation", [REMEMBER, REMEMBER_MANY])
async def test_operations_with_a_key_of_their_own_get_it(app: App, operation: Operation[Any, Any]) -> None:
    given: dict[str, Any] = {"content": TEXT} if operation is REMEMBER else {"items": [{"content": TEXT}]}
    keyed = Keyed(app)
    await keyed(operation, **given)
    await keyed(operation, **given)
    assert keyed.repeats == 1
    with pytest.raises(InvalidInput):
        await keyed(operation, **given, idempotency_key="another")
    assert len(await everything(app)) == 1


async def test_no_word_of_an_erased_memory_is_kept_and_nothing_is_done_again(app: App) -> None:
    memory = await stored(app, TEXT)
    keyed = Keyed(app)
    await keyed(AMEND, id=memory, content=NEW)
    assert NEW in await _kept(app)
    await run(app, FORGET, ids=[memory], hard=True)
    kept = await _kept(app)
    assert "lighthouse" not in kept
    assert memory not in kept
    with pytest.raises(Conflict, match="erased since"):
        await keyed(AMEND, id=memory, content=NEW)
    with pytest.raises(MemoryNotFound):
        await Keyed(app, "k2")(AMEND, id=memory, content=NEW)
    assert await everything(app) == []


async def test_what_a_call_erased_is_not_named_by_its_own_answer(app: App) -> None:
    gone, left = await stored(app, TEXT), await stored(app, "The harbour is closed.")
    keyed = Keyed(app)
    first = await keyed(FORGET, ids=[gone], hard=True)
    assert first.forgotten == first.receipt.ids == [gone]
    assert gone not in await _kept(app)
    again = await keyed(FORGET, ids=[gone], hard=True)
    assert (again.forgotten, again.count, again.hard, keyed.repeats) == ([], 1, True, 1)
    soft = Keyed(app, "k2")
    assert (await soft(FORGET, ids=[left])).forgotten == (await soft(FORGET, ids=[left])).forgotten == [left]


async def test_two_servers_at_the_same_moment_do_it_once(opened: Open) -> None:
    async with opened() as one, opened() as two:
        memory = await stored(one, TEXT)
        for number in range(3):
            callers = [Keyed(app, f"k{number}") for app in (one, two, one, two)]
            answers = await asyncio.gather(
                *(keyed(AMEND, id=memory, content=f"{NEW} {number}") for keyed in callers)
            )
            assert all(answer == answers[0] for answer in answers)
            assert sum(keyed.repeats for keyed in callers) == 3
        assert len((await show(one, memory)).versions) == 3


async def test_what_takes_long_holds_its_key(app: App) -> None:
    now = app.engine.clock()
    held = await hold_key(app.engine, "k1", "said", agent="a")
    assert isinstance(held, HeldKey)
    half, over = (replace(app.engine, clock=_at(now + TERM * times)) for times in (0.5, 1.2))
    assert await renew_key(half, held)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await hold_key(over, "k1", "said", agent="a")
    later = replace(app.engine, clock=_at(now + TERM * 2))
    taken = await hold_key(later, "k1", "said", agent="a")
    assert isinstance(taken, HeldKey)
    assert not await renew_key(later, held)


async def test_a_key_is_new_after_a_day(app: App) -> None:
    await Keyed(app)(CREATE_SCOPE, name="work")
    tomorrow = at(app, app.engine.clock() + timedelta(hours=25))
    await Keyed(tomorrow)(CREATE_SCOPE, name="home")
    assert {"work", "home"} <= {scope.name for scope in (await run(app, LIST_SCOPES)).scopes}


async def test_the_owners_answers_and_those_behind_a_fence_are_nothing_to_others(app: App) -> None:
    await run(app, CREATE_SCOPE, name="work")
    memory = await stored(app, TEXT, scope="work")
    guest = Caller(bound=True, owner=False)
    fenced = Caller(bound=True, owner=False, scopes=("work",))
    for caller in (None, guest, fenced):
        keyed = Keyed(app, "same", caller)
        await keyed(AMEND, id=memory, content=NEW)
        assert keyed.repeats == 0
        await keyed(AMEND, id=memory, content=NEW)
        assert keyed.repeats == 1


async def test_a_dry_run_takes_no_key(app: App) -> None:
    keyed = Keyed(app)
    await keyed(REMEMBER, content=TEXT, dry_run=True)
    assert (await remember(app, TEXT, idempotency_key="k1")).created


async def _kept(app: App) -> str:
    [entry] = await app.engine.store.entries(IDEMPOTENCY_NAMESPACE, now=app.engine.clock())
    return json.dumps(entry.value)


def _at(moment: Any) -> Callable[[], Any]:
    return lambda: moment
