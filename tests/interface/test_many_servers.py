"""Two servers on one PostgreSQL, with a Redis beside it and without: to a client they are one."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import count, cycle
from pathlib import Path
from typing import Any

import httpx2
import pytest
from http_door import KEY
from mcp_clients import WAIT, HttpServer, Json, Poster, answer_in, command, surroundings
from test_http_oauth import Dance

from everywhere import as_environment
from mindhold.app.application import App, open_app
from mindhold.app.server import FIRST_UPKEEP_SECONDS
from mindhold.engine import Engine
from mindhold.jobs.handlers import TIDY
from mindhold.jobs.runner import LEASE, Runner, ScheduledJob, enqueue_due
from mindhold.model.job import Job, JobState
from mindhold.settings.loader import load_settings
from support.postgres_server import PostgresServer
from support.redis_server import RedisServer
from support.server_program import free_port

_numbers = count(1)


@dataclass(frozen=True, slots=True)
class Pair:
    """Both, each with a home of its own; clients are told the first one's address."""

    first: HttpServer
    second: HttpServer
    settings: dict[str, Any]
    home: Path
    redis: RedisServer | None

    @property
    def both(self) -> tuple[HttpServer, HttpServer]:
        return self.first, self.second

    def cli(self, *argv: str) -> Any:
        """What the command line prints, as a third process on the same store."""
        told = subprocess.run(
            command(*argv, "--json"),
            env=surroundings(self.home, **as_environment(self.settings)),
            capture_output=True,
            encoding="utf-8",
            timeout=WAIT,
            check=True,
        )
        return json.loads(told.stdout)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param("alone", marks=pytest.mark.needs("postgres")),
        pytest.param("beside", marks=[pytest.mark.needs("postgres"), pytest.mark.needs("redis")]),
    ],
)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    server: PostgresServer = request.getfixturevalue("postgres_server")
    redis: RedisServer | None = None
    name = f"many_{next(_numbers)}"
    url = server.create_database(name, template="with_vectors")
    settings: dict[str, Any] = {"store.mode": "postgres", "postgres.url": url}
    if request.param == "beside":
        redis = request.getfixturevalue("shared_redis")
        redis.restore()
        settings |= {
            "redis.enabled": True,
            "redis.host": "127.0.0.1",
            "redis.port": redis.port,
            "redis.password": redis.password,
        }
    port, folder = free_port(), tmp_path_factory.mktemp("many")
    doors = settings | {"access_key": KEY, "serve.public_url": f"http://127.0.0.1:{port}"}
    first, second = (HttpServer(folder / one, **as_environment(doors)) for one in ("first", "second"))
    first.port = port
    with ExitStack() as stack:
        stack.callback(server.drop_database, name)
        stack.enter_context(first)
        stack.enter_context(second)
        yield Pair(first, second, settings, folder / "third", redis)


def talk(server: HttpServer, key: str = KEY) -> Poster:
    poster = Poster(server.url)
    poster.http.headers["authorization"] = f"Bearer {key}"
    return poster


def turn_to(poster: Poster, server: HttpServer) -> None:
    """The same client and session, at another server from now on."""
    poster.url = f"{server.url}/mcp"


def until(holds: Callable[[], bool]) -> None:
    """Ask until it is so, within reason."""
    limit = time.monotonic() + WAIT
    while not holds():
        assert time.monotonic() < limit
        time.sleep(0.05)


def remember(poster: Poster, content: str, **more: Any) -> str:
    found: str = poster.call("remember", content=content, topic="servers", type="fact", **more)["id"]
    return found


def recalled(poster: Poster, text: str) -> list[str]:
    return [one["id"] for one in poster.call("recall", text=text)["fragments"]]


def health(server: HttpServer) -> Json:
    answer = httpx2.get(f"{server.url}/health", timeout=WAIT)
    assert answer.status_code == 200, answer.text
    told: Json = answer.json()
    return told


def test_both_are_well_and_say_where_the_memories_are(pair: Pair) -> None:
    for server in pair.both:
        until(lambda server=server: health(server)["status"] == "ok")  # type: ignore[misc]
        told = health(server)
        assert told["store"]["rung"] == "postgres"
        assert told["cache"]["rung"] == ("redis" if pair.redis else "none")


def test_a_session_goes_on_at_either_request_by_request(pair: Pair) -> None:
    with talk(pair.first) as poster:
        poster.greet()
        remember(poster, "The kiln is at 900 degrees.", scope="session")
        for number, server in zip(range(6), cycle([pair.second, pair.first])):
            turn_to(poster, server)
            assert len(poster.call("context")["workingMemory"]) == number + 1
            remember(poster, f"Kiln number {number} is fired on day {number + 3}.", scope="session")
        turn_to(poster, pair.second)
        listed = answer_in(poster.post("tools/list"))["result"]["tools"]
        assert "recall" in [tool["name"] for tool in listed]


def test_what_is_stored_at_one_is_recalled_at_the_other_at_once(pair: Pair) -> None:
    with talk(pair.first) as here, talk(pair.second) as there:
        here.greet()
        there.greet()
        for number in range(10):
            stored = remember(here, f"Lighthouse number {number} has {number + 40} steps.")
            assert stored in recalled(there, f"lighthouse number {number} steps")
            here, there = there, here


def test_what_is_changed_at_one_is_changed_at_the_other_at_once(pair: Pair) -> None:
    with talk(pair.first) as here, talk(pair.second) as there:
        here.greet()
        there.greet()
        stored = remember(here, "The ferry leaves at noon.")
        assert stored in recalled(there, "when does the ferry leave")
        here.call("amend", id=stored, content="The ferry leaves at midnight.")
        found = {
            one["id"]: one["content"]
            for one in there.call("recall", text="when does the ferry leave")["fragments"]
        }
        assert "midnight" in found[stored]
        there.call("forget", id=stored)
        assert stored not in recalled(here, "when does the ferry leave")


def test_a_session_that_ended_at_one_has_ended_at_the_other(pair: Pair) -> None:
    with talk(pair.first) as poster:
        poster.greet()
        turn_to(poster, pair.second)
        remember(poster, "The barge is moored.")
        turn_to(poster, pair.first)
        assert poster.delete().status_code == 200
        for server in pair.both:
            turn_to(poster, server)
            until(lambda: poster.post("tools/list").status_code == 404)


def test_nobody_goes_on_with_anothers_session(pair: Pair) -> None:
    key = pair.cli("keys", "create", "stranger")["key"]
    with talk(pair.first) as poster:
        poster.greet()
        with talk(pair.second, key) as stranger:
            stranger.session = poster.session
            assert stranger.post("tools/list").status_code == 404
        turn_to(poster, pair.second)
        assert poster.post("tools/list").status_code == 200


def opens(server: HttpServer, secret: str) -> bool:
    with talk(server, secret) as poster:
        answer = poster.post(
            "initialize",
            protocolVersion=poster.version,
            capabilities={},
            clientInfo={"name": "x", "version": "1"},
        )
    assert answer.status_code in (200, 401), answer.text
    return answer.status_code == 200


def test_keys_hold_at_both_at_once_and_end_at_both_at_once(pair: Pair) -> None:
    made = pair.cli("keys", "create", "laptop")
    assert [opens(server, made["key"]) for server in pair.both] == [True, True]
    pair.cli("keys", "revoke", made["id"])
    assert [opens(server, made["key"]) for server in pair.both] == [False, False]


async def test_oauth_may_take_every_step_at_another_server(pair: Pair) -> None:
    here, there = (server.url for server in pair.both)
    async with httpx2.AsyncClient(base_url=here, timeout=WAIT) as client:
        dance = Dance(client)
        await dance.register()
        client.base_url = there
        code = await dance.code()
        client.base_url = here
        tokens = (await dance.redeem(code)).json()
        assert [opens(server, tokens["access_token"]) for server in pair.both] == [True, True]
        client.base_url = there
        renewed = (await dance.refresh(tokens["refresh_token"])).json()
        assert [opens(server, renewed["access_token"]) for server in pair.both] == [True, True]
        client.base_url = here
        given = {"token": renewed["access_token"], "client_id": dance.registered["client_id"]}
        assert (await client.post("/revoke", data=given)).status_code == 200
        assert [opens(server, renewed["access_token"]) for server in pair.both] == [False, False]


def test_what_is_scheduled_runs_once(pair: Pair) -> None:
    """Both look for what is due when they have run for a while; of a new store everything is due."""

    def runs() -> dict[str, int]:
        found: dict[str, int] = {}
        for job in pair.cli("jobs", "list")["jobs"]:
            found[job["name"]] = found.get(job["name"], 0) + (job["state"] == "done")
        return found

    until(lambda: runs().get(TIDY, 0) > 0)
    both_have_looked = time.monotonic() + FIRST_UPKEEP_SECONDS
    while time.monotonic() < both_have_looked:
        assert runs()[TIDY] == 1


class Counting:
    """A handler that counts its runs."""

    def __init__(self) -> None:
        self.runs: list[str] = []

    async def run(self, _engine: Engine, job: Job) -> dict[str, Any]:
        self.runs.append(job.id)
        await asyncio.sleep(0)
        return {}


def app_at(app: App, moment: datetime) -> Engine:
    return replace(app.engine, clock=lambda: moment)


async def test_a_short_schedule_on_two_servers_runs_once_each_time(pair: Pair, tmp_path: Path) -> None:
    schedule = [ScheduledJob("count", timedelta(minutes=1))]
    counting = Counting()

    async def look(app: App, owner: str, moment: datetime) -> None:
        engine = app_at(app, moment)
        await enqueue_due(engine, schedule)
        await Runner(engine, {"count": counting.run}, owner=owner).run_all()

    async with opened(pair, tmp_path / "one") as one, opened(pair, tmp_path / "two") as two:
        start = one.engine.clock()
        for minute in range(20):
            moment = start + timedelta(minutes=minute)
            await asyncio.gather(
                *(look(app, owner, moment) for app, owner in ((one, "one"), (two, "two")) for _ in range(2))
            )
            assert len(counting.runs) == minute + 1
    assert len(set(counting.runs)) == 20


def opened(pair: Pair, home: Path) -> Any:
    given = {"home": home, "time_zone": "UTC", "embedding.provider": "hashing"}
    return open_app(load_settings(given | pair.settings, environ={}))


def taken_and_left(pair: Pair, home: Path) -> str:
    """The id of a job whose holder was killed."""
    holder = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("job_holder.py")), "held"],
        env=surroundings(home, **as_environment(pair.settings)),
        stdout=subprocess.PIPE,
        encoding="utf-8",
    )
    try:
        assert holder.stdout is not None
        return holder.stdout.readline().strip()
    finally:
        holder.kill()
        holder.communicate()


async def test_the_job_of_a_killed_server_is_taken_over(pair: Pair, tmp_path: Path) -> None:
    async with opened(pair, tmp_path / "home") as app:
        now = app.engine.clock()
        await enqueue_due(app_at(app, now), [ScheduledJob("held", timedelta(days=1))])
        job_id = await asyncio.to_thread(taken_and_left, pair, tmp_path / "holder")
        counting = Counting()
        for moment, runs in ((now + LEASE / 2, []), (app.engine.clock() + LEASE, [job_id])):
            await Runner(app_at(app, moment), {"held": counting.run}, owner="other").run_all()
            assert counting.runs == runs
        job = await app.engine.store.job(job_id)
        assert (job.state, job.attempts) == (JobState.DONE, 2)


class Writing:
    """A client that writes without pause, in a thread."""

    def __init__(self, server: HttpServer, word: str) -> None:
        self._word = word
        self.poster = talk(server).greet()
        self.stored: list[str] = []
        self.stopping = threading.Event()
        self.failed = ""
        self._thread = threading.Thread(target=self._write)
        self._thread.start()

    def _write(self) -> None:
        for number in count():
            if self.stopping.is_set():
                return
            try:
                text = f"{self._word} {number} weighs {number * 3} stone."
                self.stored.append(remember(self.poster, text))
            except (httpx2.HTTPError, AssertionError) as error:
                self.failed = repr(error)
                return

    def end(self) -> None:
        self.stopping.set()
        self._thread.join(WAIT)


def test_one_that_is_killed_takes_nothing_along(pair: Pair) -> None:
    """At three moments, while both are written to: the other goes on, and has all that either acknowledged."""
    for turn in range(3):
        dying, living = Writing(pair.first, f"Anvil{turn}"), Writing(pair.second, f"Boulder{turn}")
        try:
            until(lambda: len(dying.stored) >= 3 + 4 * turn)  # noqa: B023
            pair.first.kill()
            before = len(living.stored)
            until(lambda: len(living.stored) > before + 5)  # noqa: B023
            assert not living.failed
        finally:
            dying.end()
            living.end()
            dying.poster.http.close()
        assert health(pair.second)["store"]["state"] == "ok"
        with living.poster as poster:
            for number, stored in enumerate(dying.stored):
                assert stored in recalled(poster, f"how heavy is anvil{turn} {number}"), number
        # Whoever was with the one that died goes on with the other, and with the first when it is back.
        with talk(pair.second) as orphan:
            orphan.session = dying.poster.session
            assert dying.stored[0] in recalled(orphan, f"how heavy is anvil{turn} 0")
            pair.first.start()
            turn_to(orphan, pair.first)
            assert dying.stored[0] in recalled(orphan, f"how heavy is anvil{turn} 0")


def test_without_redis_both_go_on(pair: Pair) -> None:
    if pair.redis is None:
        assert health(pair.first)["cache"]["state"] == "none"
        return
    with talk(pair.first) as here, talk(pair.second) as there:
        here.greet()
        there.greet()
        pair.redis.kill()
        try:
            stored = remember(here, "The windmill turns slowly.")
            assert stored in recalled(there, "how does the windmill turn")
            assert [health(server)["store"]["state"] for server in pair.both] == ["ok", "ok"]
        finally:
            pair.redis.start()
        until(lambda: all(health(server)["cache"]["state"] == "ok" for server in pair.both))
