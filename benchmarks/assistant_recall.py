"""retrieve_memory of a real `mindhold mcp`, beside the least that it must do; and how soon a server is there."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from benchmarks import texts
from benchmarks.environment import CACHE, resident, size_on_disk, surroundings
from benchmarks.peers.door import door_options, open_embedder
from benchmarks.report import spread
from benchmarks.served import MODEL, WAIT, Filled, ask, data_folder, filled, program
from benchmarks.vectors import stored_vectors

_PAUSE = 0.02  # the threads of an inference spin on for a moment
_LOADING = 15.0  # seconds that the model may take
_BEST = 5
_CLIENT = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "bench", "version": "1"},
}


class Talk:
    """A client's end of one server."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self._last = 0

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._last += 1
        return ask(self.process, self._last, method, params)

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """A tool's answer. Ends the benchmark when it is an error."""
        answer = self.ask("tools/call", {"name": tool, "arguments": arguments})
        if answer.get("isError"):
            raise SystemExit(f"{tool}: {answer['content']}")
        found: dict[str, Any] = answer["structuredContent"]
        return found


@contextmanager
def talking(variables: dict[str, str]) -> Iterator[Talk]:
    """A server of the assistant's tools, just started."""
    process = subprocess.Popen(
        [*program(), "mcp", "--toolsets", "assistant"],
        env=surroundings() | variables,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield Talk(process)
        assert process.stdin is not None
        process.stdin.close()
        process.wait(WAIT)
    finally:
        process.kill()
        process.wait(WAIT)


class Floor:
    """The question's vector, one exact product with all, the best texts."""

    def __init__(self, count: int) -> None:
        options = door_options(MODEL)
        self._rows = texts.memories(count, data=data_folder())
        self._embedder = open_embedder(options)
        file = stored_vectors(CACHE, self._rows, model=str(options["name"]), embed=self._embedder.texts)
        self._matrix = np.load(file)

    def recall(self, question: str) -> list[str]:
        products = self._matrix @ self._embedder.query(question)
        best = np.argpartition(-products, _BEST)[:_BEST]
        return [self._rows[row] for row in best[np.argsort(-products[best], kind="stable")]]


def at_size(count: int, *, queries: int, starts: int) -> dict[str, Any]:
    """All that is measured with so many memories."""
    store, floor = filled(count, data=data_folder()), Floor(count)
    questions = texts.questions(queries + 3)
    with talking(store.variables) as talk:
        talk.ask("initialize", _CLIENT)
        _warmed(talk, questions[:3])
        ours, least, found = [], [], []
        for question in questions[3:]:
            time.sleep(_PAUSE)
            begun = time.perf_counter()
            floor.recall(question)
            least.append((time.perf_counter() - begun) * 1e3)
            time.sleep(_PAUSE)
            begun = time.perf_counter()
            answer = talk.call("retrieve_memory", query=question)
            ours.append((time.perf_counter() - begun) * 1e3)
            found.append(len(answer["results"]))
        held = resident(talk.process.pid)
    return {
        "memories": count,
        "retrieve": spread(ours),
        "floor": spread(least),
        "found": float(np.mean(found)),
        "resident": held,
        "disk": size_on_disk(store.folder),
        "start": _starts(store, starts, questions),
    }


def _warmed(talk: Talk, questions: list[str]) -> None:
    """The model loads behind the first answers; a question without a word in common shows that it is there."""
    deadline = time.monotonic() + _LOADING
    while time.monotonic() < deadline:
        if talk.call("retrieve_memory", query="illnesses that kept people from their pastimes")["results"]:
            break
        time.sleep(_PAUSE)
    for question in questions:
        talk.call("retrieve_memory", query=question)


def _starts(store: Filled, rounds: int, questions: list[str]) -> dict[str, dict[str, float]]:
    """From the start of the process to its first answers; the first round warms up."""
    opened, answered = [], []
    for number in range(rounds + 1):
        begun = time.perf_counter()
        with talking(store.variables) as talk:
            talk.ask("initialize", _CLIENT)
            opened.append((time.perf_counter() - begun) * 1e3)
            talk.call("retrieve_memory", query=questions[number % len(questions)])
            answered.append((time.perf_counter() - begun) * 1e3)
    return {"initialize": spread(opened[1:]), "answer": spread(answered[1:])}
