"""Exports for people, from a real store: all that is remembered, whole and in order, and marked as personal."""

from __future__ import annotations

import csv
import json
import os
import stat
import tracemalloc
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from front_door import acting, at, everything, remember, run
from tool_door import use

from mindhold.app.application import App
from mindhold.conversations.message_import import SAVE_MESSAGES
from mindhold.memories.amend import AMEND
from mindhold.memories.forget import FORGET
from mindhold.memories.transfer import EXPORT, IMPORT
from mindhold.model.errors import InvalidInput, ScopeNotFound
from mindhold.model.memory import PRIVACY_NOTICE

NOW = datetime(2026, 11, 16, 10, 30, tzinfo=UTC)
LONG = "\n\n".join(f"Paragraph {number} is about the kiln. " + "Clay and fire. " * 40 for number in range(12))


async def furnish(app: App) -> None:
    talks = [("tea", "user", "When is tea?"), ("ink", "user", "Where is ink?"), ("tea", "assistant", LONG)]
    for number, (talk, speaker, text) in enumerate(talks):
        await use(
            at(app, NOW + timedelta(minutes=number)),
            "store_memory",
            content=text,
            source="conversation",
            speaker=speaker,
            conversation_id=talk,
            scope="Home",
        )
    await use(app, "store_memory", content="We spoke of tea.", source="summary", scope="Home")
    await use(app, "store_memory", content="=2+3 is five, she said. #sums", scope="Home")
    await use(app, "store_memory", content="My favourite colour is blue.", source="user_profile")
    await use(app, "store_memory", content=LONG.replace("kiln", "mill"), scope="Home")
    old = await remember(app, "The gate is green.", scope="Home")
    await run(app, AMEND, id=old.id, content="The gate is black.", supersedes=True)
    gone = await remember(app, "A secret wish was told.", scope="Home")
    await run(app, FORGET, ids=[gone.id])


async def exported(app: App, form: str, **more: Any) -> Path:
    answer = await use(at(app, NOW), "export_memory", format=form, **more)
    assert answer["note"] == PRIVACY_NOTICE
    return Path(answer["export_file"])


async def test_a_document_has_conversations_in_order_summaries_facts_and_the_profile(
    app: App, home: Path
) -> None:
    await furnish(app)
    path = await exported(app, "json")
    assert path == home / "export" / "full_export_2026-11-16-103000.json"
    if os.name != "nt":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    document = json.loads(path.read_text(encoding="utf-8"))
    scopes = {one["name"]: one for one in document["scopes"]}
    assert [one["text"] for one in scopes["Global"]["profile"]] == ["The user's favourite colour is blue."]
    talks = {one["conversation_id"]: one["messages"] for one in scopes["Home"]["conversations"]}
    assert list(talks) == ["tea", "ink"]
    assert [(one["speaker"], one["text"]) for one in talks["tea"]] == [
        ("user", "When is tea?"),
        ("assistant", LONG.replace(" \n", "\n").strip()),
    ], "a long message is whole again"
    assert [one["text"] for one in scopes["Home"]["summaries"]] == ["We spoke of tea."]
    facts = {one["text"]: one for one in scopes["Home"]["facts"]}
    assert facts["The gate is green."]["status"] == "superseded"
    assert facts["=2+3 is five, she said. #sums"]["tags"] == ["sums"]
    assert sum("about the mill" in text for text in facts) == 1
    assert "secret wish" not in path.read_text(encoding="utf-8"), "what was forgotten stays so"
    assert document["memories"] == 9


async def test_a_table_and_a_page_of_one_scope(app: App) -> None:
    await furnish(app)
    table = await exported(app, "csv", scope="home")
    assert table.name == "Home_export_2026-11-16-103000.csv"
    with table.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert {one["scope"] for one in rows} == {"Home"}
    assert {one["privacy"] for one in rows} == {"personal data"}
    assert [one["section"] for one in rows] == [*["conversations"] * 3, "summaries", *["facts"] * 4]
    assert "'=2+3 is five, she said. #sums" in [one["text"] for one in rows]
    page = (await exported(app, "markdown", scope="Home")).read_text(encoding="utf-8")
    assert page.startswith(f"# Memories\n\n> **Personal data.** {PRIVACY_NOTICE}\n")
    assert "#### tea\n\n- **user** 2026-11-16 10:30\n\n  When is tea?\n" in page
    assert "favourite colour" not in page


async def test_lines_come_in_again_and_other_forms_are_refused(app: App) -> None:
    await furnish(app)
    lines = await exported(app, "jsonl")
    head = json.loads(lines.read_text(encoding="utf-8").splitlines()[0])
    assert (head["mindhold"], head["notice"]) == ("export", PRIVACY_NOTICE)
    before = len(await everything(app))
    again = await run(app, IMPORT, path=str(lines))
    assert (again.memories, len(await everything(app))) == (0, before)
    for form in ("json", "csv", "markdown"):
        with pytest.raises(InvalidInput):
            await run(app, IMPORT, path=str(await exported(app, form)))
    with pytest.raises(ScopeNotFound):
        await exported(app, "json", scope="Nowhere")


async def test_two_exports_of_one_second_are_two_files(app: App) -> None:
    first, second = await exported(app, "json"), await exported(app, "json")
    assert (first.name, second.name) == (
        "full_export_2026-11-16-103000.json",
        "full_export_2026-11-16-103000-2.json",
    )


async def test_an_agent_exports_what_it_sees(app: App) -> None:
    await remember(acting(app, "ada"), "Ada hid the key under the pot.")
    await remember(app, "The office is in Berlin.")
    for agent, seen in (("ada", True), ("bob", False)):
        text = Path((await run(acting(app, agent), EXPORT, format="json")).path).read_text(encoding="utf-8")
        assert ("under the pot" in text) is seen
        assert "Berlin" in text


async def test_ten_times_as_many_take_no_more_memory(app: App) -> None:
    async def most(number: int) -> int:
        for start in range(0, number, 300):
            some = [{"message_type": "user", "content": f"Message {start + one}."} for one in range(300)]
            await run(app, SAVE_MESSAGES, project=f"log{number}", messages=some, embed=False)
        tracemalloc.start()
        try:
            path = await exported(app, "json", scope=f"log{number}")
            [scope] = json.loads(path.read_text(encoding="utf-8"))["scopes"]
            assert len(scope["conversations"][0]["messages"]) == number
            del scope
            path.unlink()
            tracemalloc.reset_peak()
            begun = tracemalloc.get_traced_memory()[0]
            await exported(app, "csv", scope=f"log{number}")
            return tracemalloc.get_traced_memory()[1] - begun
        finally:
            tracemalloc.stop()

    few, many = await most(300), await most(3_000)
    assert many < 2 * few + 500_000
