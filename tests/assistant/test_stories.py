"""What a person says, and what the assistant then does: a real client, a real `mindhold mcp`, a home of its own.

Each story goes on all three: the file, a mongod that is there already, and a private one. The part of the assistant is played
by the test, which makes the calls that such sentences ask for.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest
from assistant_door import EMBEDDED, EXTERNAL, OWN, keep
from front_door import Open, at
from mcp.client.session import ClientSession
from mcp_clients import NEWEST, Json, Wire, called, over_stdio
from tool_door import texts

from mindhold.model.host import is_loopback

_MONGO = pytest.mark.needs("mongodb")
pytestmark = pytest.mark.parametrize(
    "house", [OWN, pytest.param(EXTERNAL, marks=_MONGO), pytest.param(EMBEDDED, marks=_MONGO)], indirect=True
)

Talking = Callable[..., AbstractAsyncContextManager[ClientSession]]


@pytest.fixture
def talking(home: Path, told: dict[str, str]) -> Talking:
    """A client with a server of its own on this home; the next one is the next conversation."""
    home.parent.mkdir(exist_ok=True)
    return lambda toolsets="assistant": over_stdio(home, NEWEST, "--toolsets", toolsets)


async def remember(session: ClientSession, content: str, **metadata: Any) -> Json:
    answer = await called(session, "store_memory", content=content, metadata=metadata)
    assert answer["status"] == "OK"
    return answer


async def ask(session: ClientSession, query: str, **narrowed: Any) -> list[str]:
    return texts(await called(session, "retrieve_memory", query=query, filter=narrowed))


async def test_what_was_told_is_known_in_the_next_conversation(talking: Talking) -> None:
    """Remember that my cat's name is Whiskers. ... What's my cat's name?"""
    async with talking() as session:
        await remember(session, "My cat's name is Whiskers.")
        await remember(session, "My sister lives in Oslo.")
    async with talking() as session:
        assert (await ask(session, "What's my cat's name?"))[0] == "The user's cat's name is Whiskers."
        assert await ask(session, "capital of Mongolia") == []


@pytest.mark.xdist_group("model")
async def test_other_words_find_it_too(talking: Talking, told: dict[str, str], models_dir: Path) -> None:
    told["MINDHOLD_EMBEDDING_PROVIDER"] = "local"
    async with talking() as session:
        await remember(
            session, "We decided the timeline for Alpha project: design in May, building by autumn."
        )
        await remember(session, "My daughter can't have peanuts.")
        await remember(session, "The office moved to the fourth floor.")
        found = await ask(session, "which food is dangerous for my child?")
        assert found[0] == "My daughter can't have peanuts."
        found = await ask(session, "What's the plan for Project Alpha?")
        assert found[0].startswith("We decided the timeline")


async def test_two_conversations_in_two_scopes_know_nothing_of_each_other(talking: Talking) -> None:
    async with talking() as session:
        await remember(session, "The launch is on the 5th of June.", scope="Project A")
        await remember(session, "The launch is on the 9th of September.", scope="Project B")
        await remember(session, "My birthday is in March.")
    async with talking() as session:
        question = "When is the launch?"
        assert await ask(session, question, scope="Project A") == ["The launch is on the 5th of June."]
        assert await ask(session, question, scope="Project B") == ["The launch is on the 9th of September."]
        assert await ask(session, "When is my birthday?", scope="Project B") == ["My birthday is in March."]
        assert len(await ask(session, question, scope="ALL")) == 2


async def test_a_hashtag_is_a_tag(talking: Talking) -> None:
    """Remember this as #login. ... What did I set for #login?"""
    async with talking() as session:
        await remember(session, "The portal wants the staff number, not the mail address.", tags=["#login"])
        await remember(session, "The portal is slow on Mondays.")
        for spelled in ("#login", "login", "#LOGIN"):
            answer = await called(session, "search_by_tag", tag=spelled)
            assert texts(answer) == ["The portal wants the staff number, not the mail address."]
            assert answer["results"][0]["tags"] == ["login"]


async def test_yesterday_is_yesterday_on_the_next_day(talking: Talking, opened: Open) -> None:
    async with opened() as app:
        before = app.engine.clock()
        days = [before - timedelta(days=number) for number in range(4)]
        for day in days:
            await keep(at(app, day), f"We talked about the harvest of {day:%Y-%m-%d}.", source="conversation")
    async with talking() as session:
        answer = await called(session, "recall_memory_by_time", time_query="yesterday")
    since = datetime.fromisoformat(answer["time_frame"]["from"])
    assert datetime.fromisoformat(answer["time_frame"]["to"]) - since == timedelta(days=1)
    # The test may have begun before midnight.
    assert since.date() - before.date() in (timedelta(days=-1), timedelta(0))
    assert texts(answer) == [f"We talked about the harvest of {since:%Y-%m-%d}."]


async def test_forget_that(talking: Talking) -> None:
    async with talking() as session:
        stored = await remember(session, "The safe opens with 38-12-4.")
        assert await ask(session, "How does the safe open?") == ["The safe opens with 38-12-4."]
        gone = await called(session, "forget_memory", target={"memory_id": stored["memory_id"]})
        assert gone["deleted_count"] == 1
        assert await ask(session, "How does the safe open?") == []
        hard = await called(
            session, "delete_memory", target={"memory_id": stored["memory_id"]}, forget_mode="hard"
        )
        assert hard["deleted_count"] == 1
    async with talking() as session:
        assert await ask(session, "How does the safe open?", scope="ALL") == []
        assert texts(await called(session, "recall_memory_by_time", time_query="today")) == []
        assert (await called(session, "get_memory_stats"))["stats"]["total_memories"] == 0


async def test_preferences_are_there_before_anybody_asks(talking: Talking) -> None:
    async with talking() as session:
        await remember(session, "My favourite colour is blue.", source="user_profile")
        await remember(session, "I prefer short answers.", source="user_profile")
    async with talking("core,assistant") as session:
        said = str(await called(session, "context"))
        assert "blue" in said
        assert "concise" in said


async def test_it_talks_to_nobody_but_this_machine(home: Path, told: dict[str, str]) -> None:
    home.parent.mkdir(exist_ok=True)
    with Wire(home, "--toolsets", "assistant") as wire:
        wire.greet()
        wire.call("store_memory", content="The well is behind the barn.")
        wire.call("retrieve_memory", query="Where is the well?")
        wire.call("backup_memory")
        process = psutil.Process(wire.process.pid)
        family = [process, *process.children(recursive=True)]
        addresses = {
            place.ip
            for one in family
            for connection in one.net_connections("inet")
            for place in (connection.laddr, connection.raddr)
            if place
        }
        assert all(is_loopback(address) for address in addresses), addresses
        assert wire.close() == 0


async def test_a_server_that_is_killed_has_kept_what_it_acknowledged(
    home: Path, told: dict[str, str], talking: Talking
) -> None:
    home.parent.mkdir(exist_ok=True)
    with Wire(home, "--toolsets", "assistant") as wire:
        wire.greet()
        for number in range(12):
            answer = wire.call("store_memory", content=f"Crate {number} holds {number + 40} lemons.")
            assert answer["structuredContent"]["status"] == "OK"
        wire.process.kill()
    async with talking() as session:
        assert (await called(session, "get_memory_stats"))["stats"]["total_memories"] == 12
        assert (await ask(session, "crate 7 holds how many lemons"))[0] == "Crate 7 holds 47 lemons."
