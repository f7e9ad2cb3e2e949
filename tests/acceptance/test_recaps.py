"""Summaries of conversations: made when one ends or grows long, of its own words, traceable to them, and never instead of them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from front_door import everything, found, run

from recollect.app import App
from recollect.model.tokens import count_tokens
from recollect.operations.conversing import END_CONVERSATION
from recollect.operations.messages import SAVE_MESSAGE
from recollect.operations.upkeep import RUN_JOBS
from recollect.operations.views import MemoryView

TALK = [
    ("user", "We need a database for the web shop, which one should it be?"),
    ("assistant", "PostgreSQL and MongoDB would both do. PostgreSQL has better JSON support than most people think."),
    ("user", "We decided to use PostgreSQL 16 for the orders of the shop."),
    ("assistant", "Noted. The staging server listens on port 5433, and the backups run at 02:30 every night."),
    ("user", "ok"),
    ("assistant", "The warehouse in Hamburg sends its stock as CSV files once an hour."),
    ("user", "Prices are kept in cents, because floats lose money on every rounding."),
    ("assistant", "Thanks, that makes sense to me."),
    ("user", "The importer still needs to be tested with broken files."),
    ("user", "Who will write the migration guide for the customers?"),
]


async def say(app: App, role: str, content: str, *, conversation: str = "monday", **fields: Any) -> str:
    given = {"project": "shop", "message_type": role, "content": content, "conversation": conversation}
    return (await run(app, SAVE_MESSAGE, **given | fields)).message_id


async def talk(app: App, conversation: str = "monday", **fields: Any) -> list[str]:
    return [await say(app, role, text, conversation=conversation, **fields) for role, text in TALK]


async def end(app: App, conversation: str = "monday") -> None:
    await run(app, END_CONVERSATION, conversation=conversation)
    await run(app, RUN_JOBS)


async def recaps(app: App, **fields: Any) -> list[MemoryView]:
    listed = await everything(app, **{"tags": ["summary"]} | fields)
    return [one for one in listed if one.provenance.get("source") == "summary"]


class TestAnEnd:
    async def test_names_the_decisions_and_points_to_its_messages(self, app: App) -> None:
        ids = await talk(app)
        assert await recaps(app) == []
        await end(app)
        [recap] = await recaps(app)
        print(recap.content)
        assert "We decided to use PostgreSQL 16 for the orders of the shop." in recap.content
