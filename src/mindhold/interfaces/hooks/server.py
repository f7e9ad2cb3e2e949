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

log = logging.getLogger("mindhold.desk")
LONGEST_LINE = 1 << 20
LONGEST_TEXT = 100_000
SECONDS = 5.0  # for all of a question and its answer: no hook waits that long
MOST_AT_ONCE = 16
PROMPT = "prompt"  # all that is asked
Answer = dict[str, Any]


@asynccontextmanager
async def serve_hooks(
    opened: Callable[[], OpenMindhold | None], home: Path, *, agents: Sequence[str]
) -> AsyncIterator[None]:
    """While it lasts hooks of these agents are answered; `opened` gives Mindhold once it is open, and until then they do without.

    A machine or a home where that can't be does without as well.
    """
    desk = _HookServer(opened)
    try:
        server = await asyncio.start_server(desk.attend, the_server.HOST, 0, limit=LONGEST_LINE)
    except OSError as error:
        log.warning("hooks are not answered: %s", error.strerror)
        yield
        return
    try:
        with suppress(OSError):
            desk.token = the_server.register_server(str(home), server.sockets[0].getsockname()[1], agents)
        yield
    finally:
        the_server.unregister_server(str(home))
        server.close()
        desk.leave()


class _HookServer:
    """One line in, one line out, then the connection ends."""

    def __init__(self, opened: Callable[[], OpenMindhold | None]) -> None:
        self.token = ""
        self._opened = opened
        self._attending: set[asyncio.Task[Any]] = set()

    async def attend(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._attending.add(task)
        try:
            if len(self._attending) <= MOST_AT_ONCE:
                async with asyncio.timeout(SECONDS):
                    answer = await self._answer(await reader.readline())
                    if answer is not None:
                        writer.write(json.dumps(answer).encode() + b"\n")
                        await writer.drain()
        except (OSError, TimeoutError, ValueError) as error:  # the hook has gone, or said too much
            log.info("a hook was not answered: %s", type(error).__name__)
        except MindholdError as error:
            log.warning("a hook was not answered: %s", error.code)
        finally:
            self._attending.discard(task)
            writer.close()

    def leave(self) -> None:
        """Whoever is being answered is not any more."""
        for task in self._attending:
            task.cancel()

    async def _answer(self, line: bytes) -> Answer | None:
        """Nothing for one who doesn't know the token. Raises ValueError, MindholdError."""
        from mindhold.capture.hook_cache import BRING_TO_MIND

        question = json.loads(line)
        running = self._opened()
        if not isinstance(question, dict) or not self._is_known(question.get("token")) or running is None:
            return None
        wanted, text, folder = (question.get(name) for name in ("ask", "text", "cwd"))
        if wanted != PROMPT or not isinstance(text, str) or not isinstance(folder, str):
            return None
        found = await call_operation(
            running,
            BRING_TO_MIND,
            caller=local_caller(running.loaded),
            text=text[:LONGEST_TEXT],
            folder=folder,
        )
        return {
            "memories": [
                {**memory.model_dump(), "text": neutralize(memory.text)} for memory in found.memories
            ]
        }

    def _is_known(self, token: object) -> bool:
        return (
            bool(self.token)
            and isinstance(token, str)
            and compare_digest(token.encode(), self.token.encode())
        )
