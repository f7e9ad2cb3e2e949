"""The protocol's official inspector against `mindhold mcp` and `mindhold serve`. Run by `make test-conformance`."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp_clients import HttpServer, command, surroundings
from node_tools import node, script


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("inspector") / "home"


@pytest.fixture(scope="module")
def server(home: Path) -> Iterator[HttpServer]:
    with HttpServer(home, toolsets="all") as server:
        yield server


class Inspector:
    """The inspector's command line, pointed at one door."""

    def __init__(self, home: Path, *target: str) -> None:
        self._home = home
        self._target = target

    def __call__(self, method: str, *options: str) -> Any:
        """What the server answers."""
        done = subprocess.run(
            [
                node(),
                script("@modelcontextprotocol/inspector", "mcp-inspector"),
                "--cli",
                "--method",
                method,
                *options,
                *self._target,
            ],
            env=surroundings(self._home, HOME=str(self._home.parent), MINDHOLD_TOOLSETS="all"),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr + done.stdout
        return json.loads(done.stdout)


@pytest.fixture(params=["stdio", "http", "sse"])
def inspect(request: pytest.FixtureRequest, home: Path, server: HttpServer, tmp_path: Path) -> Inspector:
    if request.param == "http":
        return Inspector(home, "--server-url", f"{server.url}/mcp", "--transport", "http")
    if request.param == "sse":
        return Inspector(home, "--server-url", f"{server.url}/sse", "--transport", "sse")
    program, *arguments = command("mcp")
    names = [name for name in surroundings(home) if name.startswith("MINDHOLD_")]
    config = {
        "type": "stdio",
        "command": program,
        "args": arguments,
        "env": {name: surroundings(home)[name] for name in names} | {"MINDHOLD_TOOLSETS": "all"},
    }
    file = tmp_path / "servers.json"
    file.write_text(json.dumps({"mcpServers": {"mindhold": config}}), encoding="utf-8")
    return Inspector(home, "--config", str(file), "--server", "mindhold")


def test_every_definition_passes_the_strict_lint(inspect: Inspector) -> None:
    assert len(inspect("tools/list", "--strict")["tools"]) == 42


def test_tools_resources_and_prompts_answer(inspect: Inspector) -> None:
    content = "content=The well is twelve metres deep."
    kept = inspect("tools/call", "--tool-name", "remember", "--tool-arg", content, "topic=well", "type=fact")
    memory = kept["structuredContent"]["id"]
    found = inspect("tools/call", "--tool-name", "recall", "--tool-arg", "text=How deep is the well?")
    assert memory in [one["id"] for one in found["structuredContent"]["fragments"]]

    assert "memory://scope/Global" in [one["uri"] for one in inspect("resources/list")["resources"]]
    assert len(inspect("resources/templates/list")["resourceTemplates"]) == 3
    [shown] = inspect("resources/read", "--uri", f"memory://{memory}")["contents"]
    assert json.loads(shown["text"])["memory"]["content"] == "The well is twelve metres deep."

    assert len(inspect("prompts/list")["prompts"]) == 3
    asked = inspect("prompts/get", "--prompt-name", "what_do_you_know", "--prompt-args", "subject=the well")
    assert "twelve metres" in asked["messages"][0]["content"]["text"]
