"""The hook server: answers hooks of the same home while a server runs, by words and by meaning."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from hmac import compare_digest
from pathlib import Path
from typing import Any

from mindhold.hooks import server as the_server
from mindhold.interfaces.runtime import OpenMindhold, call_operation, local_caller
from mindhold.model.errors import MindholdError
from mindhold.model.prompt_markup import neutralize

log = logging.getLogger("mindhold.hooks")
LONGEST_LINE = 1 << 20
LONGEST_TEXT = 100_000
SECONDS = 5.0  # for a question and its answer; no hook waits that long
MOST_AT_ONCE = 16
PROMPT = "prompt"  # the only kind of question
Answer = dict[str, Any]


@asynccontextmanager
async def serve_hooks(
    opened: Callable[[], OpenMindhold | None], home: Path, *, agents: Sequence[str]
) -> AsyncIterator[None]:
    """Answer the hooks of these agents; `opened` returns Mindhold once it is open, and until then hooks get no answer.

    If the server can't be started, a warning is logged and hooks use their cache.
    """
    hook_server = _HookServer(opened)
    try:
        server = await asyncio.start_server(hook_server.handle, the_server.HOST, 0, limit=LONGEST_LINE)
    except OSError as error:
        log.warning("hooks are not answered: %s", error.strerror)
        yield
        return
    try:
        with suppress(OSError):
            hook_server.token = the_server.register_server(
                str(home), server.sockets[0].getsockname()[1], agents
            )
        yield
    finally:
        the_server.unregister_server(str(home))
        server.close()
        hook_server.cancel()


class _HookServer:
    """Reads one line, answers with one line, and closes the connection."""

    def __init__(self, opened: Callable[[], OpenMindhold | None]) -> None:
        self.token = ""
        self._opened = opened
        self._tasks: set[asyncio.Task[Any]] = set()

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            if len(self._tasks) <= MOST_AT_ONCE:
                async with asyncio.timeout(SECONDS):
                    answer = await self._answer(await reader.readline())
                    if answer is not None:
                        writer.write(json.dumps(answer).encode() + b"\n")
                        await writer.drain()
        except (OSError, TimeoutError, ValueError) as error:  # the hook is gone, or sent too much
            log.info("a hook was not answered: %s", type(error).__name__)
        except MindholdError as error:
            log.warning("a hook was not answered: %s", error.code)
        finally:
            self._tasks.discard(task)
            writer.close()

    def cancel(self) -> None:
        """Cancel the running answers."""
        for task in self._tasks:
            task.cancel()

    async def _answer(self, line: bytes) -> Answer | None:
        """Answer a question; None without the right token. Raises ValueError, MindholdError."""
        from mindhold.capture.hook_cache import MATCH_PROMPT

        question = json.loads(line)
        running = self._opened()
        if not isinstance(question, dict) or not self._is_known(question.get("token")) or running is None:
            return None
        kind, text, folder = (question.get(name) for name in ("ask", "text", "cwd"))
        if kind != PROMPT or not isinstance(text, str) or not isinstance(folder, str):
            return None
        result = await call_operation(
            running,
            MATCH_PROMPT,
            caller=local_caller(running.loaded),
            text=text[:LONGEST_TEXT],
            folder=folder,
        )
        return {
            "memories": [
                {**memory.model_dump(), "text": neutralize(memory.text)} for memory in result.memories
            ]
        }

    def _is_known(self, token: object) -> bool:
        return (
            bool(self.token)
            and isinstance(token, str)
            and compare_digest(token.encode(), self.token.encode())
        )
