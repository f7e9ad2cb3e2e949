"""mcp-memory-service as its users run it: its server as a child process, spoken to over MCP on standard input and output."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

PROTOCOL = "2025-06-18"


class MemoryServiceOverMcp:
    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        program = Path(sys.executable).with_name("memory" + Path(sys.executable).suffix)
        surroundings = dict(os.environ)
        surroundings["MCP_MEMORY_BASE_DIR"] = str(folder)
        surroundings["MCP_MEMORY_STORAGE_BACKEND"] = "sqlite_vec"
        surroundings["MCP_MEMORY_SQLITE_PATH"] = str(folder / "sqlite_vec.db")
        self._server = subprocess.Popen(
            [str(program), "server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=surroundings,
            text=True,
            encoding="utf-8",
        )
        self._number = 0
        hello = {
            "protocolVersion": PROTOCOL,
            "capabilities": {},
            "clientInfo": {"name": "bench", "version": "1"},
        }
        self._ask("initialize", hello)
        self._send({"method": "notifications/initialized"})

    def _send(self, message: dict[str, Any]) -> None:
        assert self._server.stdin is not None
        self._server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self._server.stdin.flush()

    def _ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        assert self._server.stdout is not None
        self._number += 1
        self._send({"id": self._number, "method": method, "params": params})
        for line in self._server.stdout:
            answer = json.loads(line)
            if answer.get("id") == self._number:
                result: dict[str, Any] = answer["result"]
                return result
        raise SystemExit("its server closed the pipe")

    def _call(self, tool: str, arguments: dict[str, Any]) -> tuple[str, bool]:
        result = self._ask("tools/call", {"name": tool, "arguments": arguments})
        return result["content"][0]["text"], bool(result.get("isError"))

    def load(self, texts: Sequence[str], vectors: str, start: int) -> int:
        raise NotImplementedError

    def store(self, text: str) -> bool:
        answer, failed = self._call("memory_store", {"content": text})
        if failed and "Duplicate" not in answer:
            raise SystemExit(answer)
        return not failed

    def store_many(self, texts: Sequence[str]) -> int:
        return sum(self.store(text) for text in texts)

    def recall(self, text: str, mode: str) -> int:
        answer, failed = self._call("memory_search", {"query": text, "mode": mode, "limit": 10})
        if failed:
            raise SystemExit(answer)
        return answer.count("\n   Hash: ")

    def nearest(self, vectors: str) -> list[list[int]]:
        raise NotImplementedError

    def embed(self, texts: Sequence[str]) -> int:
        raise NotImplementedError

    def process(self) -> int:
        return self._server.pid

    def close(self) -> None:
        assert self._server.stdin is not None
        self._server.stdin.close()
        try:
            self._server.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._server.kill()
            self._server.wait()


def open_contestant(folder: Path, options: dict[str, Any]) -> MemoryServiceOverMcp:
    return MemoryServiceOverMcp(folder)
