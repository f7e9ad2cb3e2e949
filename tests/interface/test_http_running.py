"""The door as it runs: its health, its counts, its logs, its beginning and its end."""

from __future__ import annotations

import asyncio
import json
import logging
import stat
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from http_door import KEY, Load, Served, Talk, door

from mindhold.interfaces.http.health import OTHER, LabelValues, Metrics
from mindhold.interfaces.http.server import bind, shown_address
from mindhold.interfaces.logs import DailyFile, JsonLineFormatter, log_file, logging_to
from mindhold.model.errors import SettingsError

TEXT = "The otter's holt is under the third willow."


@pytest.fixture
async def served(load: Load) -> AsyncIterator[Served]:
    async with door(load(**{"serve.port": 0, "access_key": KEY})) as served:
        yield served


async def _remember(served: Served) -> None:
    async with served.client(KEY) as client:
        talk = Talk(client)
        await talk.begin()
        kept = await talk.call("remember", content=TEXT, topic="otters", type="fact")
        assert not kept.get("isError")
        assert "holt" in str(await talk.call("recall", text="where is the otter's holt"))
        await talk.call("recall")


async def test_health_says_how_each_part_is(served: Served, home: Path) -> None:
    await served.run("remember", content=TEXT)
    async with served.client() as client:
        answer = await client.get("/health")
    assert answer.status_code == 200
    told = answer.json()
    assert told["status"] == "ok"
    for part in ("store", "model", "jobs"):
        assert told[part]["state"] == "ok"
        assert told[part]["rung"]
    unused = {"state": "off", "rung": "none", "size": 0}  # the hashing embedder needs none
    assert told["cache"] == {"state": "none", "rung": "none", "embeddings": unused}
    assert "otter" not in answer.text
    assert str(home) not in answer.text


@pytest.mark.local_file
async def test_strangers_are_told_only_whether_it_is_up(served: Served, home: Path) -> None:
    elsewhere = {"Via": "1.1 proxy"}
    async with served.client() as client:
        assert (await client.get("/health", headers=elsewhere)).json() == {"status": "ok"}
        wrong = elsewhere | {"Authorization": "Bearer wrong"}
        assert (await client.get("/health", headers=wrong)).json() == {"status": "ok"}
        owner = elsewhere | {"Authorization": f"Bearer {KEY}"}
        assert "version" in (await client.get("/health", headers=owner)).json()
        (home / "data" / "mindhold.db").rename(home / "data" / "elsewhere.db")
        down = await client.get("/health", headers=elsewhere)
        assert (down.status_code, down.json()) == (503, {"status": "down"})


@pytest.mark.local_file
async def test_health_says_so_when_the_file_is_gone(served: Served, home: Path) -> None:
    (home / "data" / "mindhold.db").rename(home / "data" / "elsewhere.db")
    async with served.client(KEY) as client:
        answer = await client.get("/health")
        metrics = (await client.get("/metrics")).text
    assert answer.status_code == 503
    assert (answer.json()["status"], answer.json()["store"]["state"]) == ("down", "down")
    assert "mindhold_store_up 0.0" in metrics


@pytest.mark.local_file
async def test_a_store_that_can_not_be_opened_is_told_to_everybody(load: Load, home: Path) -> None:
    (home / "data" / "mindhold.db").mkdir(parents=True)
    async with door(load(**{"serve.port": 0})) as served, served.client() as client:
        health = await client.get("/health")
        echo = await client.get("/echo")
        mcp = await client.post("/mcp", json={})
    assert health.status_code == echo.status_code == mcp.status_code == 503
    assert str(home) not in health.text
    assert set(echo.json()) == {"error", "code", "advice"}


async def test_what_is_counted(served: Served) -> None:
    await _remember(served)
    served.metrics.observe_model("sampling", tokens_in=12, tokens_out=5)
    async with served.client(KEY) as client:
        for path in ("/nowhere/1", "/nowhere/2", "/health"):
            await client.get(path)
        text = (await client.get("/metrics")).text
    lines = set(text.splitlines())
    assert 'mindhold_tool_calls_total{outcome="ok",tool="remember"} 1.0' in lines
    assert 'mindhold_tool_calls_total{outcome="ok",tool="recall"} 1.0' in lines
    assert 'mindhold_tool_call_seconds_count{tool="remember"} 1.0' in lines
    assert 'mindhold_http_requests_total{method="GET",route="other",status="404"} 2.0' in lines
    assert 'mindhold_http_requests_total{method="GET",route="/health",status="200"} 1.0' in lines
    assert 'mindhold_http_request_seconds_count{method="GET",route="/health"} 1.0' in lines
    assert 'mindhold_memories{status="active"} 1.0' in lines
    assert "mindhold_sessions 1.0" in lines
    assert "mindhold_store_up 1.0" in lines
    assert 'mindhold_model_calls_total{model="sampling",outcome="ok"} 1.0' in lines
    assert 'mindhold_model_tokens_total{direction="in",model="sampling"} 12.0' in lines
    assert any(line.startswith("mindhold_jobs{") for line in lines)
    assert "otter" not in text


def test_made_up_names_do_not_fill_the_counts() -> None:
    words = LabelValues(2)
    assert [words(one) for one in ("a", "b", "c", "a", "x" * 99)] == ["a", "b", OTHER, "a", OTHER]
    metrics = Metrics()
    for number in range(500):
        metrics.observe_tool(f"tool-{number}", "ok", 0.1)
        metrics.observe_request(route="/mcp", method=f"METHOD{number}", status=200, seconds=0.1)
    names = {line.partition("{")[2].partition("}")[0] for line in metrics.text().decode().splitlines()}
    assert sum("tool-" in name and "le=" not in name for name in names) < 250
    assert not any("METHOD" in name for name in names)


async def _visit_everything(served: Served) -> None:
    await _remember(served)
    async with served.client() as client:
        accepts = {"Accept": "text/event-stream"}
        async with client.stream("GET", "/sse", params={"accessKey": KEY}, headers=accepts) as stream:
            assert stream.status_code == 200
        await client.get("/echo", params={"accessKey": KEY, "q": TEXT})
        for path in ("/api/projects/otter%20lodge/memory/stats", "/api/willow/x", "/heron"):
            await client.get(path, headers={"Authorization": f"Bearer {KEY}"})
        await client.get("/broken", headers={"Authorization": f"Bearer {KEY}"})
        await client.post("/consent", data={"ticket": "rt_x", "token": "x", "key": KEY})
        await client.post("/mcp", content=TEXT, headers={"Authorization": f"Bearer {KEY}"})


def _logged(home: Path) -> tuple[str, list[dict[str, Any]]]:
    text = "".join(path.read_text(encoding="utf-8") for path in (home / "logs").iterdir())
    return text, [json.loads(line) for line in text.splitlines()]


async def test_logs_tell_what_was_asked_and_never_what_was_said(load: Load, home: Path) -> None:
    async with door(load(**{"serve.port": 0, "access_key": KEY})) as served:
        await _visit_everything(served)
    text, lines = _logged(home)
    for secret in ("otter", "willow", "heron", KEY, "accessKey", "rt_x", "Bearer"):
        assert secret not in text, secret
    asked = [line for line in lines if line["logger"] == "mindhold.http"]
    for line in asked:
        assert set(line) == {
            "time",
            "level",
            "logger",
            "message",
            "method",
            "path",
            "status",
            "ms",
            "credential",
        }
        assert datetime.fromisoformat(line["time"]).utcoffset() == UTC.utcoffset(None)
    pattern = "/api/projects/{project_id}/memory/stats"
    assert {"/mcp", "/sse", "/echo", "/broken", pattern} <= {line["path"] for line in asked}
    assert {"owner", ""} == {line["credential"] for line in asked}
    assert any(line["level"] == "error" and line["error"] == "ZeroDivisionError" for line in lines)
    [file] = (home / "logs").iterdir()
    assert file == log_file(home / "logs", datetime.now(UTC))
    if sys.platform != "win32":
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


async def test_not_even_at_debug_is_a_key_logged(load: Load, home: Path) -> None:
    async with door(load(**{"serve.port": 0, "access_key": KEY, "log.level": "debug"})) as served:
        await _visit_everything(served)
    text, _ = _logged(home)
    assert KEY not in text
    assert "otter" in text


def _record(when: datetime, message: str = "x", **changes: Any) -> logging.LogRecord:
    record = logging.LogRecord("mindhold.x", logging.INFO, "x.py", 1, message, (), None)
    record.created = when.timestamp()
    vars(record).update(changes)
    return record


def test_every_day_has_its_file_and_old_ones_go(tmp_path: Path) -> None:
    (tmp_path / "mindhold-2024-02-25.log").write_text("old")
    (tmp_path / "mindhold-2024-02-27.log").write_text("younger")
    (tmp_path / "notes.log").write_text("not ours")
    handler = DailyFile(tmp_path, keep_days=3)
    handler.setFormatter(JsonLineFormatter(verbose=False))
    for day, hour in ((28, 23), (29, 0), (29, 5)):
        handler.emit(_record(datetime(2024, 2, day, hour, 59, tzinfo=UTC)))
    handler.close()
    names = {path.name: len(path.read_text().splitlines()) for path in tmp_path.iterdir()}
    assert names == {
        "mindhold-2024-02-27.log": 1,
        "mindhold-2024-02-28.log": 1,
        "mindhold-2024-02-29.log": 2,
        "notes.log": 1,
    }


def test_what_others_log_is_not_quoted() -> None:
    lines = JsonLineFormatter(verbose=False)
    when = datetime(2024, 2, 28, tzinfo=UTC)
    foreign = lines.format(_record(when, f"Received: {TEXT}", name="mcp.server.sse"))
    assert "otter" not in foreign
    assert json.loads(foreign)["logger"] == "mcp.server.sse"
    quoted = lines.format(_record(when, "Received %s", name="mcp.server.sse", args=(TEXT,)))
    assert "otter" not in quoted
    assert "Received %s" in quoted
    one_line = lines.format(_record(when, "two\nlines", extra_field=Path("x")))
    assert "\n" not in one_line


def test_a_folder_that_can_not_be_written_costs_only_lines(load: Load, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with logging_to(load(**{"log.directory": str(tmp_path / "file")}).settings):
        logging.getLogger("mindhold.x").warning("nobody hears this")


def test_a_port_in_use_is_told(load: Load) -> None:
    serve = load(**{"serve.port": 0}).settings.serve
    first = bind(serve)
    try:
        port = first[0].getsockname()[1]
        assert shown_address(first) == f"http://127.0.0.1:{port}"
        with pytest.raises(SettingsError) as told:
            bind(replace(serve, port=port))
        assert str(port) in told.value.message
        assert "--port" in told.value.advice
    finally:
        for one in first:
            one.close()


@pytest.mark.parametrize("host", ["203.0.113.77", "no such host", "x" * 300])
def test_an_address_that_is_not_ours_is_told(load: Load, host: str) -> None:
    with pytest.raises(SettingsError):
        bind(replace(load().settings.serve, host=host, port=0))


def test_a_name_is_bound_with_all_its_addresses(load: Load) -> None:
    sockets = bind(replace(load().settings.serve, host="localhost", port=0))
    ports = {one.getsockname()[1] for one in sockets}
    for one in sockets:
        one.close()
    assert len(ports) == 1


async def test_a_stop_ends_streams_and_finishes_requests(load: Load) -> None:
    async with door(load(**{"serve.port": 0, "serve.stop_seconds": 30})) as served, served.client() as client:
        accepts = {"Accept": "text/event-stream"}
        async with client.stream("GET", "/sse", headers=accepts) as stream:
            under_way = asyncio.create_task(client.post("/wait"))
            await served.reached.wait()
            served.server.should_exit = True
            async for _ in stream.aiter_raw():
                pass
            assert not under_way.done()
            served.released.set()
            assert (await under_way).json() == {"waited": True}


async def test_a_stop_does_not_wait_for_ever(load: Load) -> None:
    async with door(load(**{"serve.port": 0, "serve.stop_seconds": 0})) as served, served.client() as client:
        under_way = asyncio.create_task(client.post("/wait"))
        await served.reached.wait()
        served.server.should_exit = True
        [cut] = await asyncio.gather(under_way, return_exceptions=True)
        assert isinstance(cut, BaseException) or cut.status_code >= 500
