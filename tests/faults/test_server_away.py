"""A database that is not there: calls fail soon and say so, the door says so too, and all is well when it is back."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx2
from fault_sites import BOUND, SOCKETS_LEFT, Site, app_on, code_of, found, remember, remembers_again, until
from mcp_clients import HttpServer, Poster

from everywhere import as_environment
from mindhold.lifecycle.status import STATUS
from mindhold.memories.filters import LIST
from mindhold.memories.remember import REMEMBER_MANY

pytestmark = SOCKETS_LEFT


async def test_calls_fail_soon_and_recover_by_themselves(site: Site, tmp_path: Path) -> None:
    async with app_on(tmp_path / "home", site.new_database()) as app:
        before = await remember(app, "The pump runs at night.")
        await asyncio.to_thread(site.server.kill)
        calls = [
            code_of(remember(app, "The gate is green.")),
            code_of(found(app, "pump at night")),
            code_of(app.run(LIST, LIST.takes())),
            code_of(app.run(STATUS, STATUS.takes())),
        ]
        assert await asyncio.gather(*calls) == ["STORE_AWAY"] * 4
        many = REMEMBER_MANY.takes(items=[{"content": "The roof is red."}, {"content": "The well is deep."}])
        told = await _told(app.run(REMEMBER_MANY, many))
        assert told == {"STORE_AWAY"}

        await asyncio.to_thread(site.server.start)
        after = await remembers_again(app, "The mill is old.")
        assert await found(app, "pump at night") == [before]
        assert await found(app, "old mill") == [after]
        assert await found(app, "red roof, deep well, green gate") == []


async def _told(call: Any) -> set[str]:
    """The codes of an answer about many, or that of its failure."""
    codes: list[str] = []

    async def noting() -> None:
        codes.extend(result.error_code or "" for result in (await call).results)

    failed = await code_of(noting())
    return {failed} if failed else set(codes)


async def test_an_ordered_restart_is_hardly_noticed(site: Site, tmp_path: Path) -> None:
    async with app_on(tmp_path / "home", site.new_database()) as app:
        before = await remember(app, "The pump runs at night.")
        for _ in range(2):
            await asyncio.to_thread(site.server.stop)
            await asyncio.to_thread(site.server.start)
            await until(lambda: _finds(app, "pump at night", before))


async def _finds(app: Any, query: str, memory_id: str) -> bool:
    return await found(app, query) == [memory_id]


async def test_opening_fails_soon_and_says_why(site: Site, tmp_path: Path) -> None:
    settings = site.new_database()
    await asyncio.to_thread(site.server.kill)

    async def opened() -> None:
        async with app_on(tmp_path / "home", settings):
            pass

    assert await code_of(opened()) == "STORE_AWAY"
    await asyncio.to_thread(site.server.start)
    assert await code_of(opened()) == ""


async def health(server: HttpServer) -> tuple[int, dict[str, Any]]:
    async with httpx2.AsyncClient(timeout=BOUND) as client:
        answer = await client.get(f"{server.url}/health")
    told: dict[str, Any] = answer.json()
    return answer.status_code, told


async def _is(server: HttpServer, status: int, code: str | None = None) -> bool:
    found_status, told = await health(server)
    return (found_status, told["store"].get("code")) == (status, code)


async def test_the_door_says_so_and_goes_on_when_it_is_back(site: Site, tmp_path: Path) -> None:
    settings = as_environment(site.new_database())
    with HttpServer(tmp_path / "home", **settings) as server, Poster(server.url) as poster:
        poster.greet()
        await asyncio.to_thread(
            poster.call, "remember", content="The pump runs at night.", type="fact", topic="pump"
        )
        assert await _is(server, 200)
        await asyncio.to_thread(site.server.kill)

        await until(lambda: _is(server, 503, "STORE_AWAY"))
        _, told = await health(server)
        assert (told["status"], told["store"]["state"]) == ("down", "down")
        answer = await asyncio.to_thread(
            poster.post, "tools/call", name="recall", arguments={"text": "pump at night"}
        )
        assert "STORE_AWAY" in answer.text

        await asyncio.to_thread(site.server.start)
        await until(lambda: _is(server, 200))
        recalled = await asyncio.to_thread(poster.call, "recall", text="pump at night")
        assert recalled["count"] == 1


async def test_a_door_that_opened_before_its_database_goes_on_when_it_is_there(
    site: Site, tmp_path: Path
) -> None:
    settings = as_environment(site.new_database())
    await asyncio.to_thread(site.server.kill)
    with HttpServer(tmp_path / "home", **settings) as server:
        await until(lambda: _is(server, 503, "STORE_AWAY"))
        await asyncio.to_thread(site.server.start)
        await until(lambda: _is(server, 200))
        with Poster(server.url) as poster:
            poster.greet()
            stored = await asyncio.to_thread(
                poster.call, "remember", content="The pump runs at night.", type="fact", topic="pump"
            )
            assert stored["id"]


async def test_metrics_tell_that_the_store_is_down(site: Site, tmp_path: Path) -> None:
    settings = as_environment(site.new_database())
    with HttpServer(tmp_path / "home", **settings) as server:
        assert await _is(server, 200)
        await asyncio.to_thread(site.server.kill)

        async def told_down() -> bool:
            async with httpx2.AsyncClient(timeout=BOUND) as client:
                answer = await client.get(f"{server.url}/metrics")
            return answer.status_code == 200 and "mindhold_store_up 0.0" in answer.text

        await until(told_down)
