"""Commands that serve, and commands where a server is away, refuses, or lacks something."""

from __future__ import annotations

import json
import socket
import subprocess
from pathlib import Path

import pytest
from cli_shell import Shell
from mcp_clients import HttpServer, command, surroundings

from everywhere import as_environment
from support.redis_server import RedisServer

NOWHERE = "postgresql://nobody:x@127.0.0.1:1/x"
LONGEST = 60.0


def served(home: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    """A `mindhold serve` that is expected to end by itself."""
    return subprocess.run(
        command("serve", "--port", "0"),
        env=surroundings(home, **settings),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=LONGEST,
        check=False,
    )


def refused(redis: RedisServer) -> dict[str, object]:
    return {
        "redis.enabled": True,
        "redis.host": "127.0.0.1",
        "redis.port": redis.port,
        "redis.password": "bad",
    }


@pytest.mark.local_file
def test_without_pgvector_every_answer_says_so(shell: Shell, plain_postgres_url: str) -> None:
    there = ("-o", "store.mode=postgres", "-o", f"postgres.url={plain_postgres_url}")
    shell.fine(*there, "remember", "The crane squeaks")
    told = shell.fine(*there, "status", "--json").json
    recalled = shell.fine(*there, "recall", "crane", "--json").json
    assert (told["rung"], recalled["rung"]) == ("full text", "full text")
    for notice in (told["notice"], recalled["notice"]):
        assert "gvector is on the server, but not in this database" in notice
        assert "CREATE EXTENSION vector" in notice
    looked = shell(*there, "doctor", "--json")
    assert looked.status == 1
    assert [one["name"] for one in looked.json["findings"] if not one["healthy"]] == ["vectors in postgres"]
    assert "jobs run" not in looked.out


@pytest.mark.local_file
def test_doctor_names_a_redis_that_refuses(shell: Shell, redis_server: RedisServer) -> None:
    options = [part for name, value in refused(redis_server).items() for part in ("-o", f"{name}={value}")]
    looked = shell(*options, "doctor", "--json")
    wrong = [one for one in looked.json["findings"] if not one["healthy"]]
    assert looked.status == 1
    assert [one["name"] for one in wrong] == ["redis"]
    assert "STORE_DENIED" in wrong[0]["detail"]


@pytest.mark.local_file
def test_doctor_says_once_what_is_away(shell: Shell) -> None:
    looked = shell("-o", "store.mode=postgres", "-o", f"postgres.url={NOWHERE}", "doctor")
    assert looked.status == 1
    assert (looked.out + looked.err).count("can't be reached") == 1
    assert "All is well" not in looked.out


@pytest.mark.local_file
def test_serve_ends_for_what_waiting_will_not_mend(tmp_path: Path, redis_server: RedisServer) -> None:
    ended = served(tmp_path / "home", **as_environment(refused(redis_server)))
    assert ended.returncode == 7
    assert "redis.password" in ended.stderr
    ended = served(tmp_path / "home", MINDHOLD_STORE_MODE="postgres")
    assert ended.returncode == 6
    assert "No PostgreSQL is configured" in ended.stderr
    assert "Mindhold serves" not in ended.stderr


@pytest.mark.local_file
def test_serve_goes_on_where_a_server_is_only_away(tmp_path: Path) -> None:
    away = {"MINDHOLD_STORE_MODE": "postgres", "MINDHOLD_POSTGRES_URL": NOWHERE}
    with HttpServer(tmp_path / "home", **away) as server:
        assert "can't be reached" in server.said[0]
        assert "from postgres, which doesn't answer yet" in server.said[-1]
    with HttpServer(tmp_path / "other") as server:
        assert f"from sqlite, {tmp_path / 'other'}" in server.said[-1]
        assert all(f"{server.url}/{path}" in "".join(server.said) for path in ("mcp", "api", "docs"))


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.mark.local_file
@pytest.mark.parametrize("place", ["before", "after"])
def test_serve_listens_on_the_port_of_an_option(tmp_path: Path, place: str) -> None:
    port = free_port()
    option = ("-o", f"serve.port={port}")
    argv = (*option, "serve") if place == "before" else ("serve", *option)
    with subprocess.Popen(
        command(*argv),
        env=surroundings(tmp_path / "home"),
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    ) as server:
        assert server.stderr is not None
        told = next(line for line in server.stderr if "http://" in line)
        server.terminate()
        server.stderr.read()
    assert f"http://127.0.0.1:{port}/" in told


@pytest.mark.local_file
@pytest.mark.parametrize("place", ["before", "after"])
def test_mcp_serves_the_toolset_of_an_option(tmp_path: Path, place: str) -> None:
    option = ("-o", "toolsets=assistant")
    hello = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }
    messages = [
        {"id": 1, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/list"},
    ]
    ended = subprocess.run(
        command(*((*option, "mcp") if place == "before" else ("mcp", *option))),
        env=surroundings(tmp_path / "home"),
        input="".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in messages),
        capture_output=True,
        encoding="utf-8",
        timeout=LONGEST,
        check=True,
    )
    answers = {answer.get("id"): answer for answer in map(json.loads, ended.stdout.splitlines())}
    assert "store_memory" in {tool["name"] for tool in answers[2]["result"]["tools"]}
