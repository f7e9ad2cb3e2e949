"""Many messages at once: as they were said, each once, and whatever is wrong with one is no matter to the others."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from front_door import Open, acting, at, run

from mindhold.app.application import App
from mindhold.conversations.message_import import MOST_AT_ONCE, MOST_TOLD, SAVE_MESSAGES, SaveMessagesResult
from mindhold.conversations.message_log import LIST_MESSAGES, RECENT_MESSAGES, SAVE_MESSAGE, SEARCH_MESSAGES
from mindhold.jobs.queue import RUN_JOBS
from mindhold.memories.embedding import EMBED
from mindhold.model.errors import InvalidInput, Refused, ScopeNotFound
from mindhold.model.memory import ANY_STATUS, Memory
from mindhold.model.query import Filter, Order
from mindhold.model.scope import Caller

PARROT = {"message_type": "user", "content": "The parrot speaks Portuguese."}


def line(content: str, role: str = "user", **fields: Any) -> dict[str, Any]:
    return {"message_type": role, "content": content} | fields


def lines(amount: int, **fields: Any) -> list[dict[str, Any]]:
    return [
        line(f"Message number {number} of the lighthouse log.", **fields) for number in range(1, amount + 1)
    ]


async def save(app: App, messages: Sequence[Any], **fields: Any) -> SaveMessagesResult:
    return await run(app, SAVE_MESSAGES, **{"project": "shop", "messages": list(messages)} | fields)


async def kept(app: App, **fields: Any) -> list[Memory]:
    where = Filter(viewer="system", scopes=("shop",), statuses=ANY_STATUS, **fields)
    return await app.engine.store.find(where, order=Order.OLDEST, limit=5_000)


async def test_all_of_them_are_there_in_order(app: App) -> None:
    saved = await save(app, lines(300))
    assert (saved.imported, saved.repeated, saved.failed, saved.indexed) == (300, 0, 0, 300)
    assert (saved.project, saved.storage_backend) == ("shop", app.loaded.settings.store.mode)
    found = await kept(app)
    assert [memory.id for memory in found] == saved.message_ids
    assert [memory.provenance.position for memory in found] == list(range(300))
    [first] = (await run(app, SEARCH_MESSAGES, project="shop", query="message number 217", limit=1)).results
    assert first.content == "Message number 217 of the lighthouse log."


async def test_what_a_line_says_is_what_a_message_has(app: App) -> None:
    said = "2025-11-27T10:30:00Z"
    await save(
        app,
        [
            line("By its own words.", "assistant", task_id=42, session_id="s1", timestamp=said, id="msg_7"),
            line("By its metadata.", metadata={"session_id": "s2", "timestamp": said, "context": "login"}),
            line("By neither.", metadata=None),
        ],
    )
    listed = (await run(app, LIST_MESSAGES, project="shop")).messages
    by_text = {message.content: message for message in listed}
    moment = datetime(2025, 11, 27, 10, 30, tzinfo=UTC)
    first, second, third = (
        by_text[text] for text in ("By its own words.", "By its metadata.", "By neither.")
    )
    assert (first.message_type, first.task_id, first.session_id, first.timestamp) == (
        "assistant",
        42,
        "s1",
        moment,
    )
    assert (second.message_type, second.task_id, second.session_id, second.timestamp) == (
        "user",
        None,
        "s2",
        moment,
    )
    assert (third.task_id, third.session_id) == (None, None)
    found = (await run(app, SEARCH_MESSAGES, project="shop", query="by its own words", limit=1)).results
    assert found[0].metadata == {"imported_id": "msg_7"}


async def test_positions_go_on_where_each_conversation_ended(app: App) -> None:
    for number in range(3):
        await run(app, SAVE_MESSAGE, project="shop", conversation="a", **line(f"One by one {number}."))
    await save(app, [line(f"In bulk {number}.", session_id="ab"[number % 2]) for number in range(300)])
    await save(app, [line("Once more.", session_id="a"), line("And one.", session_id="b")])
    await run(app, SAVE_MESSAGE, project="shop", conversation="b", **line("At last."))
    for name, amount in (("a", 154), ("b", 152)):
        found = await kept(app, conversation=name)
        assert [memory.provenance.position for memory in found] == list(range(amount))


async def test_old_messages_are_placed_in_order_too(app: App) -> None:
    old = "2020-01-01T00:00:00Z"
    for start in (1, 41, 81):
        await save(app, lines(40, timestamp=old, session_id="old"), first=start)
    found = await kept(app, conversation="old")
    assert sorted(memory.provenance.position or 0 for memory in found) == list(range(120))


async def test_one_that_cannot_be_stored_is_told_by_its_number(app: App) -> None:
    given = [PARROT, line("  "), None, line("x" * 1_000_001), PARROT, line("Deep.", metadata={"a": [[]] * 2})]
    saved = await save(app, given, first=11)
    assert (saved.imported, saved.failed) == (3, 2)
    assert [(error.line, error.code) for error in saved.errors] == [
        (12, "EMPTY_CONTENT"),
        (14, "CONTENT_TOO_LARGE"),
    ]
    assert [bool(one) for one in saved.message_ids] == [True, False, False, False, True, True]
    assert [memory.provenance.position for memory in await kept(app)] == [0, 1, 2]


async def test_so_many_errors_are_told_and_all_are_counted(app: App) -> None:
    saved = await save(app, [line("")] * (MOST_TOLD + 50))
    assert (saved.imported, saved.failed, len(saved.errors)) == (0, MOST_TOLD + 50, MOST_TOLD)


async def test_the_same_words_twice_are_two_messages(app: App) -> None:
    assert (await save(app, [PARROT, PARROT])).imported == 2
    assert (await save(app, [PARROT])).imported == 1
    assert len(await kept(app)) == 3


async def test_under_a_key_each_is_stored_once(app: App) -> None:
    first = await save(app, lines(200), idempotency_key="k1")
    again = await save(app, lines(300), idempotency_key="k1")
    assert (again.imported, again.repeated, again.failed) == (100, 200, 0)
    assert again.message_ids[:200] == first.message_ids
    assert len(await kept(app)) == 300
    assert [memory.provenance.position for memory in await kept(app)] == list(range(300))
    other = await save(app, lines(10), idempotency_key="k2")
    assert (other.imported, other.repeated) == (10, 0)
    beyond = await save(app, lines(10), idempotency_key="k1", first=301)
    assert (beyond.imported, beyond.repeated) == (10, 0)


async def test_another_text_under_the_same_key_is_told(app: App) -> None:
    await save(app, [line("One."), line("Two."), line("Three.")], idempotency_key="k")
    again = await save(
        app, [line("One."), line("Twelve."), line("Three.", "assistant"), line("Four.")], idempotency_key="k"
    )
    assert (again.imported, again.repeated, again.failed) == (1, 1, 2)
    assert [(error.line, error.code) for error in again.errors] == [
        (2, "IDEMPOTENCY_KEY_REUSED"),
        (3, "IDEMPOTENCY_KEY_REUSED"),
    ]
    contents = [message.content for message in (await run(app, RECENT_MESSAGES, project="shop")).messages]
    assert contents == ["One.", "Two.", "Three.", "Four."]


async def test_a_secret_in_it_is_no_reason_to_store_it_twice(app: App) -> None:
    secret = line("The token is ghp_0123456789abcdefghijABCDEFGHIJ012345, keep it safe.")
    await save(app, [secret], idempotency_key="k")
    assert (await save(app, [secret], idempotency_key="k")).repeated == 1


async def test_who_asks_at_the_same_moment_stores_it_once(opened: Open) -> None:
    async with opened() as one, opened() as other:
        await save(one, [], idempotency_key="k")
        both = await asyncio.gather(*(save(app, lines(150), idempotency_key="k") for app in (one, other)))
        assert sum(saved.imported for saved in both) == 150
        assert sum(saved.repeated for saved in both) == 150
        assert sum(saved.failed for saved in both) == 0
        assert len(await kept(one)) == 150


async def test_a_key_is_of_its_agent_and_its_project(app: App) -> None:
    await save(app, lines(3), idempotency_key="k")
    assert (await save(acting(app, "ada"), lines(3), idempotency_key="k")).imported == 3
    assert (await save(app, lines(3), idempotency_key="k", project="other")).imported == 3


@pytest.mark.parametrize("key", ["", "  ", "x" * 201])
async def test_what_is_no_key_is_refused(app: App, key: str) -> None:
    with pytest.raises(InvalidInput):
        await save(app, lines(1), idempotency_key=key)


async def test_a_long_one_is_split_and_stored_once(app: App) -> None:
    long = "\n\n".join(f"Paragraph {number} tells of the harbour and its boats." for number in range(300))
    saved = await save(app, [line(long), PARROT], idempotency_key="k")
    assert saved.imported == 2
    again = await save(app, [line(long), PARROT], idempotency_key="k")
    assert (again.imported, again.repeated) == (0, 2)
    parts = [memory for memory in await kept(app) if memory.content != PARROT["content"]]
    assert len(parts) > 2
    assert {memory.provenance.position for memory in parts} == {0}
    assert len((await run(app, LIST_MESSAGES, project="shop")).messages) == 2
    longer = long.replace("Paragraph 7 ", "Paragraph seven ")
    assert (await save(app, [line(longer)], idempotency_key="k")).failed == 1


async def test_vectors_may_come_later(app: App) -> None:
    saved = await save(app, lines(20), embed=False)
    assert (saved.imported, saved.indexed, saved.embedding_model) == (20, 0, None)
    assert all(memory.embedded_by is None for memory in await kept(app))
    [job] = [job for job in await app.engine.store.jobs() if job.name == EMBED]
    assert job.due > job.created
    await save(app, lines(20), embed=False)
    assert len([one for one in await app.engine.store.jobs() if one.name == EMBED]) == 1
    await run(at(app, job.due + timedelta(minutes=1)), RUN_JOBS)
    assert all(memory.embedded_by == app.engine.vector_source.model for memory in await kept(app))


async def test_a_project_is_made_only_if_that_is_wanted(app: App) -> None:
    with pytest.raises(ScopeNotFound):
        await save(app, lines(1), project="nowhere", create_project=False)
    with pytest.raises(ScopeNotFound):
        await save(app, [], project="nowhere", create_project=False)
    assert (await save(app, [], project="nowhere")).imported == 0


async def test_who_may_not_write_there_may_not_import(app: App) -> None:
    await save(app, [])
    given = SAVE_MESSAGES.takes.model_validate(
        {"project": "shop", "messages": [PARROT], "create_project": False}
    )
    with pytest.raises(Refused):
        await app.run(SAVE_MESSAGES, given, caller=Caller("ada", bound=True, owner=False, writes=False))
    with pytest.raises((Refused, ScopeNotFound)):
        await app.run(
            SAVE_MESSAGES, given, caller=Caller("ada", bound=True, owner=False, scopes=("elsewhere",))
        )
    inside = Caller("ada", bound=True, owner=False, scopes=("shop",))
    assert (await app.run(SAVE_MESSAGES, given, caller=inside)).imported == 1
    assert len(await kept(app)) == 1


def test_there_is_a_most_at_once() -> None:
    with pytest.raises(ValueError, match="at most"):
        SAVE_MESSAGES.takes.model_validate({"messages": lines(MOST_AT_ONCE + 1)})


LONG = " ".join(f"Sentence {number} of the keeper's report is here." for number in range(3_000))


@pytest.mark.parametrize(
    "change",
    [
        {"content": LONG.removesuffix("here.") + "gone."},
        {"message_type": "assistant"},
        {"session_id": "s2"},
        {"task_id": 2},
        {"timestamp": "2026-01-02T00:00:00Z"},
        {"metadata": {"mood": "bad"}},
        {"id": "msg_2"},
    ],
)
async def test_a_line_that_changed_in_anything_is_an_error(app: App, change: dict[str, Any]) -> None:
    said = line(
        LONG,
        session_id="s1",
        task_id=1,
        timestamp="2026-01-01T00:00:00Z",
        metadata={"mood": "good"},
        id="msg_1",
    )
    assert (await save(app, [said], idempotency_key="k")).imported == 1
    assert (await save(app, [said], idempotency_key="k")).repeated == 1
    changed = await save(app, [said | change], idempotency_key="k")
    assert (changed.repeated, [error.code for error in changed.errors]) == (0, ["IDEMPOTENCY_KEY_REUSED"])


async def test_an_import_gives_way_to_questions_and_loses_nothing(app: App) -> None:
    await save(app, lines(40))
    await run(app, SEARCH_MESSAGES, project="shop", query="message number 7", limit=1)
    saved = await save(app, lines(100), first=41)
    assert (saved.imported, saved.failed) == (100, 0)
    assert [memory.provenance.position for memory in await kept(app)] == list(range(140))
