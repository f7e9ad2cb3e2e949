"""What is in the logs after a day's work: that it was done, and not a word of what it was about."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import pytest
from http_door import KEY
from mcp_clients import WAIT, HttpServer, Poster, Wire, answer_in, command, surroundings

MARKS = ("Quagmarl", "quagmarl", "Zephyrine", "zephyrine", KEY, "sk-ant-api03-")
SECRET = "sk-ant-api03-" + "Qx7" * 31
EMBEDDED = {"MINDHOLD_STORE_MODE": "mongodb", "MINDHOLD_MONGODB_MODE": "embedded"}


def work(call: object) -> None:
    """Words that are stored, asked for, refused and forgotten."""
    assert callable(call)
    call("store_memory", content="Quagmarl is the name of the boat.", tags=["quagmarl"], scope="Zephyrine")
    call("store_memory", content=f"The key of the boat is {SECRET}, says Zephyrine.")
    call("retrieve_memory", query="what is Quagmarl?", filter={"scope": "ALL"})
    call("retrieve_memory", query="Quagmarl " * 4_000)
    call("search_by_scope", scope="Quagmarl has no such scope")
    call("recall_memory_by_time", time_query="the quagmarl before last Zephyrine")
    call("store_memory", content="Zephyrine " * 200_000)
    call("store_memory", contents="Quagmarl is misspelt")
    call("delete_memory", target={"memory_id": "Zephyrine"})
    call("optimize_memory")
    call("backup_memory", name="zephyrine")
    call("export_memory")
    call("forget_memory", target={"tag": "quagmarl"})


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({}, id="where this run has them"),
        pytest.param(EMBEDDED, id="embedded mongod", marks=pytest.mark.needs("mongodb")),
    ],
)
def test_logs_tell_that_and_not_what(tmp_path: Path, settings: dict[str, str]) -> None:
    home = tmp_path / "home"
    with Wire(home, "--toolsets", "assistant", **settings) as wire:
        wire.greet()
        work(wire.call)
        wire.close()
    with HttpServer(home, toolsets="assistant", MINDHOLD_ACCESS_KEY=KEY, **settings) as server:
        poster = Poster(server.url)
        poster.http.headers["authorization"] = f"Bearer {KEY}"
        poster.greet()
        work(lambda tool, **given: answer_in(poster.post("tools/call", name=tool, arguments=given)))
        poster.http.get(f"{server.url}/api/memories?query=quagmarl&key={KEY}")
        poster.http.close()
        assert server.stop() == 0
    subprocess.run(
        command("maintain"), env=surroundings(home, **settings), check=True, capture_output=True, timeout=WAIT
    )
    logs = {path.name: path for path in (home / "logs").iterdir()}
    assert ("mongo.log" in logs) is bool(settings)
    said = {name: path.read_text(encoding="utf-8") for name, path in logs.items()}
    assert "maintenance ended" in "".join(said.values())
    assert "optimize_memory" in "".join(said.values())
    for name, text in said.items():
        assert not [mark for mark in MARKS if mark in text], name
        assert sys.platform == "win32" or stat.S_IMODE(logs[name].stat().st_mode) == 0o600
