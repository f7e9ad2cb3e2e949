"""How the tests talk to the assistant's tools, in this process."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from tool_door import texts, use

from mindhold.app.application import App

OWN, EXTERNAL, EMBEDDED = "own", "mongod", "private-mongod"  # where the memories of a test live
DAY = timedelta(days=1)
NOW = datetime(2031, 5, 15, 10, 30, tzinfo=UTC)  # a Thursday


async def keep(app: App, content: str, **filed: Any) -> str:
    """Stored for sure; its id."""
    answer = await use(app, "store_memory", content=content, **filed)
    assert answer["status"] == "OK", answer
    return str(answer["memory_id"])


async def retrieved(app: App, query: str, *, top_k: int = 5, **narrowed: Any) -> list[str]:
    """The texts that a question finds, best first."""
    return texts(await use(app, "retrieve_memory", query=query, filter=narrowed, top_k=top_k))
