"""How conversations end at the doors: by leaving, by DELETE, by a server that stops, and by one that is killed."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from mcp_clients import HttpServer, Poster, Wire
from mcp_talk import talking

from mindhold.app.application import App
from mindhold.operation_index import operation
from mindhold.settings.loader import LoadedSettings

Load = Callable[..., LoadedSettings]
Open = Callable[..., AbstractAsyncContextManager[App]]  # the fixture `opened`
FACTS = (
    {"content": "The kiln is at 900 degrees.", "topic": "kiln", "type": "fact"},
    {"content": "Glazes are kept in the cellar.", "topic": "kiln", "type": "procedure"},
)
SCRATCH = {"content": "The blue jar is half empty.", "topic": "kiln", "type": "fact", "scope": "session"}


async def run(app: App, name: str, /, **fields: Any) -> Any:
    chosen = operation(name)
    return await app.run(chosen, chosen.takes(**fields))


async def told(app: App) -> list[str]:
    """What tells of conversations."""
    listed = await run(app, "list", kinds=["episode"], limit=100)
    return [memory.content for memory in listed.memories]


async def later(app: App, time: timedelta) -> None:
    """Run what is due so much later."""
    moment = app.engine.clock() + time
    await run(replace(app, engine=replace(app.engine, clock=lambda: moment)), "run_jobs", scheduled=False)


def until(holds: Callable[[], bool]) -> None:
    """An end is answered before the engine has heard of it: ask until it has, within reason."""
    assert any(holds() for _ in range(200))


def speak(wire: Wire) -> None:
    wire.greet()
    for fact in (*FACTS, SCRATCH):
        assert not wire.call("remember", **fact).get("isError")
    wire.call("recall", text="kiln")


async def ended_well(app: App) -> None:
    """Told of once, in counts, without its working memory, which is over."""
    [episode] = await told(app)
    for words in ("2 memories", "1 fact", "1 procedure", "remember 3", "recall 1"):
        assert words in episode
    assert (await run(app, "context")).unreflected == 0
    assert (await run(app, "list", statuses=["archived"])).total == 1
    await later(app, timedelta(hours=3))
    assert len(await told(app)) == 1


WAYS = ["closed"] if sys.platform == "win32" else ["closed", "terminated"]  # there every signal kills


@pytest.mark.parametrize("way", WAYS)
async def test_a_client_that_leaves_its_server_behind(way: str, home: Path, opened: Open) -> None:
    home.mkdir()
    with Wire(home) as wire:
        speak(wire)
        if way == "closed":
            assert wire.close() == 0
        else:
            wire.process.send_signal(signal.SIGTERM)
            wire.process.wait(60)
    async with opened() as app:
        await ended_well(app)


async def test_a_server_that_is_killed_leaves_it_to_the_next(home: Path, opened: Open) -> None:
    home.mkdir()
    with Wire(home) as wire:
        speak(wire)
        wire.process.kill()
        wire.process.wait(60)
    async with opened() as app:
        assert await told(app) == []
        assert (await run(app, "context")).unreflected == 1
        await later(app, timedelta(minutes=50))
        assert await told(app) == []
        await later(app, timedelta(minutes=70))
        [episode] = await told(app)
        assert "2 memories" in episode
        assert (await run(app, "context")).unreflected == 0
        assert (await run(app, "list", statuses=["archived"])).total == 1


async def test_one_that_reflected_is_left_alone(home: Path, opened: Open) -> None:
    home.mkdir()
    with Wire(home) as wire:
        speak(wire)
        wire.call("reflect", summary="We fired the kiln.", sessionId="a name of its own")
        wire.call("remember", content="The shed is locked at night.", topic="shed", type="fact")
        assert wire.close() == 0
    async with opened() as app:
        await later(app, timedelta(hours=3))
        assert await told(app) == ["We fired the kiln."]


@pytest.mark.parametrize("since", ["nothing was said", "something was asked"])
def test_a_deleted_session_ends_also_after_a_restart(since: str, tmp_path: Path) -> None:
    with HttpServer(tmp_path / "home", toolsets="all") as server, Poster(server.url) as poster:
        poster.greet()
        for fact in (*FACTS, SCRATCH):
            poster.call("remember", **fact)
        server.kill()
        server.start()
        if since == "something was asked":
            poster.call("recall", text="kiln")
        with Poster(server.url) as other:
            other.greet()
            assert other.call("context")["unreflectedSessions"] == 1
            assert poster.delete().status_code == 200
            until(lambda: bool(other.call("context")["unreflectedSessions"] == 0))
            assert other.call("recall", text="blue jar")["count"] == 0
            assert other.call("memory_stats")["byType"]["episode"] == 1


def test_of_two_servers_one_tells_of_a_session(tmp_path: Path) -> None:
    with HttpServer(tmp_path / "home", toolsets="all") as one, HttpServer(tmp_path / "home") as two:
        with Poster(one.url) as here:
            here.greet()
            here.call("remember", **FACTS[0])
            with Poster(two.url, session=here.session) as there:
                there.call("remember", **FACTS[1])
                assert there.delete().status_code == 200
        with Poster(one.url) as after:
            after.greet()
            until(lambda: after.call("memory_stats")["byType"].get("episode") == 1)
            assert after.call("context")["unreflectedSessions"] == 0
        assert (one.stop(), two.stop()) == (0, 0)
        one.start()
        with Poster(one.url) as after:
            after.greet()
            assert after.call("memory_stats")["byType"]["episode"] == 1


async def test_verdicts_move_what_the_last_answer_gave(load: Load, opened: Open) -> None:
    async with talking(load(toolsets="all")) as talk:
        kept = await talk.call("remember", **FACTS[0])
        await talk.call("recall", text="kiln degrees")
        await talk.call("tool_feedback", tool_name="recall", relevant=False, sufficient=False)
        await talk.call("tool_feedback", tool_name="recall", relevant=False, sufficient=False)
    async with opened() as app:
        memory = await app.engine.store.get(kept["id"], viewer="default")
        assert memory.usefulness == pytest.approx(-0.1)


async def test_one_agents_failure_keeps_no_other_from_its_end(load: Load, opened: Open) -> None:
    async with talking(load(toolsets="all")) as talk:
        for fact in FACTS:
            await talk.call("remember", **fact)
        [conversation] = talk.server.conversations
        conversation.agents.add("\x00\ud800")  # first in line, and no store takes such a name
        await talk.server.keep_conversations()
    async with opened() as app:
        assert len(await told(app)) == 1
