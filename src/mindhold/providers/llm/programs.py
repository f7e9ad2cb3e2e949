"""Language models behind a program of this machine (Claude Code, Gemini CLI), run with bounded output and no orphans."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from mindhold.model.errors import ModelAway, ModelBroken, ModelDenied, ModelError, ModelMissing
from mindhold.providers.llm.retry import ModelAnswer, ModelRequest
from mindhold.providers.remote_service import LONGEST_HOLD, ServiceFault, document_of, plain_words, unasked

# It is told a program's number, and hears nothing more as long as we live. The end of its input is our end.
_GUARD = """
import os, signal, subprocess, sys
named = sys.stdin.buffer.read().split()
for number in map(int, named):
    try:
        if os.name == "nt":
            subprocess.run(["taskkill", "/F", "/T", "/PID", str(number)], creationflags=0x08000000)
        else:
            os.killpg(number, signal.SIGKILL)
    except OSError:
        pass
"""


@asynccontextmanager
async def guarded(apart: Mapping[str, Any]) -> AsyncIterator[Callable[[int], None]]:
    """Groups whose numbers are told meanwhile end with this process, however that ends; `apart` is how to start apart from it.

    A machine that has no room for a guard does without.
    """
    guard = None
    with suppress(OSError):
        guard = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", "-c", _GUARD),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            **apart,
        )
    try:
        yield lambda number: _tell_guard(guard, number)
    finally:
        if guard is not None:
            with suppress(ProcessLookupError):
                guard.kill()
            await guard.wait()


def _tell_guard(guard: asyncio.subprocess.Process | None, number: int) -> None:
    if guard is not None and guard.stdin is not None:
        guard.stdin.write(b"%d\n" % number)


MOST_OUTPUT = 4 * 1024 * 1024
_LAST_SECONDS = 2.0  # for what it said last to arrive
_IN, _OUT, _ERR = 0, 1, 2

if sys.platform == "win32":
    _APART: dict[str, Any] = {
        "creationflags": subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW
    }
else:
    _APART: dict[str, Any] = {"start_new_session": True}


@dataclass(frozen=True, slots=True)
class ProgramOutput:
    """What a program said."""

    status: int
    out: str
    err: str


class OutputTooLong(Exception):
    """It said more than anybody reads."""


async def run(
    command: Sequence[str], *, said: str, folder: Path, environ: Mapping[str, str]
) -> ProgramOutput:
    """Without a shell; `said` goes to its standard input. Raises OSError, Endless.

    It has answered when it ends; what it left running is ended, and doesn't keep anybody waiting.
    """
    async with guarded(_APART) as guard:
        transport, heard = await asyncio.get_running_loop().subprocess_exec(
            _Output, *command, cwd=folder, env=dict(environ), **_APART
        )
        guard(transport.get_pid())
        return await _read_output(transport, heard, said)


async def _read_output(transport: asyncio.SubprocessTransport, heard: _Output, said: str) -> ProgramOutput:
    try:
        _say(transport, said)
        await asyncio.wait((heard.exited, heard.endless), return_when=asyncio.FIRST_COMPLETED)
        await _end(transport, heard)
        await asyncio.wait((heard.silent,), timeout=_LAST_SECONDS)
        if heard.endless.done():
            raise OutputTooLong
        return ProgramOutput(transport.get_returncode() or 0, heard.text(_OUT), heard.text(_ERR))
    finally:
        await _end(transport, heard)
        transport.close()


class _Output(asyncio.SubprocessProtocol):
    """What a program has said so far, and whether it goes on."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.exited: asyncio.Future[None] = loop.create_future()
        self.silent: asyncio.Future[None] = loop.create_future()  # nobody holds its outputs any more
        self.endless: asyncio.Future[None] = loop.create_future()
        self._said = {_OUT: bytearray(), _ERR: bytearray()}
        self._open = {_OUT, _ERR}

    def text(self, output: int) -> str:
        return self._said[output].decode("utf-8", errors="replace")

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if len(self._said[fd]) + len(data) <= MOST_OUTPUT:
            self._said[fd] += data
        else:
            _tell(self.endless)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        self._open.discard(fd)
        if not self._open:
            _tell(self.silent)

    def process_exited(self) -> None:
        _tell(self.exited)


def _tell(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _say(transport: asyncio.SubprocessTransport, said: str) -> None:
    """All of it, as it listens; nothing where it doesn't care to."""
    pipe = transport.get_pipe_transport(_IN)
    if isinstance(pipe, asyncio.WriteTransport):
        pipe.write(said.encode())
        pipe.close()


if sys.platform == "win32":

    async def _end(transport: asyncio.SubprocessTransport, heard: _Output) -> None:
        """It and all that it started; what is left of one that ended by itself can't be found by its number."""
        if heard.exited.done():
            return
        killer = await asyncio.create_subprocess_exec(
            *("taskkill", "/F", "/T", "/PID", str(transport.get_pid())),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            creationflags=subprocess.CREATE_NO_WINDOW,
        )
        await asyncio.wait((asyncio.create_task(killer.wait()),), timeout=_LAST_SECONDS)
        with suppress(ProcessLookupError):
            transport.kill()
        await asyncio.wait((heard.exited,))

else:

    async def _end(transport: asyncio.SubprocessTransport, heard: _Output) -> None:
        """It and all that it started, also where it has ended before them: the group bears its number on."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(transport.get_pid(), signal.SIGKILL)
        await asyncio.wait((heard.exited,))


_DENIED = (401, 402, 403)
_GEMINI_DENIED = 41  # the status that it ends with when nobody is logged in
# A call of a program that runs inside another conversation must not take itself for a part of it.
_INSIDE = (
    "CLAUDECODE",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_CODE_SSE_PORT",
    "CLAUDE_CODE_SESSION_ID",
    "CLAUDE_CODE_CHILD_SESSION",
)
_FOR_THOUGHT = 1_000  # tokens, since it can't be told not to think first
_NO_TOOLS = '[[rule]]\ntoolName = "*"\ndecision = "deny"\npriority = 999\n'
# Read from the folder that it runs in: no tools, no hooks, and no more than its last conversation kept.
_GEMINI_SETTINGS: Mapping[str, Any] = {
    "tools": {"core": []},
    "hooksConfig": {"enabled": False},
    "general": {"sessionRetention": {"enabled": True, "maxAge": "1d", "maxCount": 1}},
}


@dataclass(frozen=True, slots=True)
class ProgramCall:
    """Arguments and variables of one call. `optional` are flags, with their values, that older versions don't know."""

    arguments: tuple[str, ...]
    variables: Mapping[str, str]
    optional: tuple[tuple[str, ...], ...] = ()


class ProgramGaveNoAnswer(Exception):
    """The program ran, and gave no answer; `holds` is as a Fault has it."""

    def __init__(self, error: ModelError, *, holds: float | None = 0.0) -> None:
        super().__init__(error.message)
        self.error = error
        self.holds = holds


@dataclass(frozen=True, slots=True)
class LlmProgram:
    """`tell` writes what a call needs into the folder it runs in; `read` raises Unanswered, ValueError."""

    title: str
    command: str
    usual: str
    tell: Callable[[ModelRequest, str, Path], ProgramCall]
    read: Callable[[ProgramOutput], str]
    key: str  # the variable of the key that is its own
    advice: str


def environment(program: LlmProgram, environ: Mapping[str, str], *, key: str) -> dict[str, str]:
    """What the program may know of ours: its own key, and no other's."""
    others = {each.key for each in PROGRAMS.values()} - {program.key}
    kept = {name: value for name, value in environ.items() if name not in others and name not in _INSIDE}
    return kept | {program.key: key} if key else kept


def _tell_claude(asked: ModelRequest, model: str, folder: Path) -> ProgramCall:
    return ProgramCall(
        (
            *("-p", "--output-format", "json", "--model", model),
            *("--tools", "", "--strict-mcp-config", "--settings", '{"disableAllHooks": true}'),
            *("--system-prompt-file", _written(folder, asked.system).name),
        ),
        {
            "CLAUDE_CODE_MAX_OUTPUT_TOKENS": str(asked.most_tokens + _FOR_THOUGHT),
            "CLAUDE_CODE_DISABLE_CLAUDE_MDS": "1",
            "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "MAX_THINKING_TOKENS": "0",
        },
        (("--no-session-persistence",), ("--disable-slash-commands",), ("--effort", "low")),
    )


def _read_claude(ran: ProgramOutput) -> str:
    document = document_of(ran.out)
    if isinstance(document, list) and document:  # with every message, where it is told to be verbose
        document = document[-1]
    if not isinstance(document, dict) or document.get("type") != "result":
        raise ValueError("it is no result")
    said, status = document.get("result"), document.get("api_error_status")
    if document.get("is_error") or document.get("subtype") != "success":
        told = said if isinstance(said, str) and said else str(document.get("subtype"))
        raise _refused("Claude Code", told, status=status if isinstance(status, int) else 0)
    if document.get("stop_reason") == "max_tokens":
        raise ProgramGaveNoAnswer(ModelError("Claude Code gave no answer: it was cut off."), holds=None)
    return said if isinstance(said, str) else ""


def _tell_gemini(asked: ModelRequest, model: str, folder: Path) -> ProgramCall:
    _keep(folder / "no-tools.toml", _NO_TOOLS)
    (folder / ".gemini").mkdir(mode=0o700, exist_ok=True)
    _keep(folder / ".gemini" / "settings.json", json.dumps(_GEMINI_SETTINGS))
    return ProgramCall(
        (
            *("-p", "", "--output-format", "json", "--model", model),
            *("--skip-trust", "--extensions", "none", "--policy", "no-tools.toml"),
            *("--allowed-mcp-server-names", "none"),
        ),
        {"GEMINI_SYSTEM_MD": str(_written(folder, asked.system)), "NO_COLOR": "1"},
    )


def _read_gemini(ran: ProgramOutput) -> str:
    """Errors come on either stream, after warnings."""
    for said in (ran.out, ran.err):
        with suppress(ValueError):
            document = document_of(said[said.index("{") :])
            if not isinstance(document, dict):
                continue
            if error := document.get("error"):
                words = error.get("message") if isinstance(error, dict) else error
                denied = 401 if ran.status == _GEMINI_DENIED else 0
                raise _refused("Gemini CLI", str(words), status=denied)
            if isinstance(document.get("response"), str):
                return str(document["response"])
    raise ValueError("it is no response")


def _refused(title: str, words: str, *, status: int) -> ProgramGaveNoAnswer:
    if status in _DENIED:
        return ProgramGaveNoAnswer(ModelDenied(f"{title} is not let in."), holds=LONGEST_HOLD)
    if status == 429 or status >= 500:
        return ProgramGaveNoAnswer(ModelAway(f"{title} gets no answer for now."))
    return ProgramGaveNoAnswer(ModelError(f"{title} gave no answer: {words}"))


def _written(folder: Path, system: str) -> Path:
    """The file with what the model is told to be; the same for every call that says the same."""
    path = folder / f"system-{sha256(system.encode()).hexdigest()[:16]}.md"
    _keep(path, system)
    return path


def _keep(path: Path, content: str) -> None:
    """Whole at any moment, also if another process does the same."""
    with suppress(OSError, UnicodeDecodeError):
        if path.read_text(encoding="utf-8") == content:
            return
    partial = path.with_name(f"{path.name}.{os.getpid()}")
    partial.write_text(content, encoding="utf-8")
    partial.replace(path)


PROGRAMS = {
    "claude_cli": LlmProgram(
        "Claude Code",
        "claude",
        "haiku",
        _tell_claude,
        _read_claude,
        key="ANTHROPIC_API_KEY",
        advice="Run `claude` once by hand: it may want a login or an update.",
    ),
    "gemini_cli": LlmProgram(
        "Gemini CLI",
        "gemini",
        "gemini-2.5-flash",
        _tell_gemini,
        _read_gemini,
        key="GEMINI_API_KEY",
        advice="Run `gemini` once by hand: it may want a login or an update; or set llm.gemini_key.",
    ),
}

AT_ONCE = 2
_UNKNOWN_FLAG = re.compile(r"unknown (?:option|argument)s?:? ['\"]?(--[\w-]+)", re.IGNORECASE)


class ProgramTransport:
    """The way to a model by a program. It runs in a folder of ours, so that it finds nothing there to read."""

    attempts = 1  # it tries again by itself

    def __init__(
        self,
        program: LlmProgram,
        *,
        model: str,
        command: str,
        folder: Path,
        environ: Mapping[str, str],
    ) -> None:
        self._program = program
        self._model = model
        self._command = command or program.command
        self._folder = folder
        self._environ = environ
        self._unknown: set[str] = set()  # flags that this version doesn't take
        self._places = asyncio.Semaphore(AT_ONCE)

    async def ask(self, asked: ModelRequest, *, patience: float) -> ModelAnswer:
        try:
            async with asyncio.timeout(patience):
                async with self._places:
                    return ModelAnswer(await self._ask(asked))
        except TimeoutError as error:
            title = self._program.title
            late = ModelAway(
                f"{title} didn't answer within {patience:.0f} seconds.",
                advice="Raise llm.wait_seconds, or see what it waits for by running it by hand.",
            )
            late.lost = True
            raise ServiceFault(late) from error

    async def close(self) -> None:
        """What runs ends with the call that asked for it."""

    async def _ask(self, asked: ModelRequest) -> str:
        ran = await self._run(asked)
        try:
            answer = self._program.read(ran)
        except ProgramGaveNoAnswer as refused:
            raise ServiceFault(self._advised(refused.error), holds=refused.holds) from refused
        except ValueError as error:
            told = self._words(ran.err) or str(error)
            failed = ModelBroken(
                f"{self._program.title} gave no answer (it ended with {ran.status}): {told}.",
                advice=self._program.advice,
            )
            raise ServiceFault(failed) from error
        if not answer.strip():
            raise ServiceFault(ModelError(f"{self._program.title} gave an empty answer."), holds=None)
        return answer

    async def _run(self, asked: ModelRequest) -> ProgramOutput:
        found = await asyncio.to_thread(self._found)
        if found is None:
            missing = ModelMissing(
                f"There is no program {self._command!r} to ask.",
                advice=f"Install {self._program.title}, or say where it is by llm.command.",
            )
            raise ServiceFault(unasked(missing), holds=LONGEST_HOLD)
        try:
            told = await asyncio.to_thread(self._tell, asked)
        except OSError as error:
            unusable = ModelBroken(
                f"What {self._program.title} is told can't be written to {self._folder}: {error.strerror}.",
                advice="Make room there, or let Mindhold write to it.",
            )
            raise ServiceFault(unasked(unusable)) from error
        try:
            while True:
                ran = await self._once(found, told, asked.prompt)
                unknown = _UNKNOWN_FLAG.search(ran.err)
                known = [flag[0] for flag in self._optional(told)]
                if ran.status == 0 or unknown is None or unknown[1] not in known:
                    return ran
                self._unknown.add(unknown[1])
        except OSError as error:
            title = self._program.title
            broken = ModelBroken(f"{title} can't be run: {error.strerror}.", advice=self._program.advice)
            raise ServiceFault(broken, holds=LONGEST_HOLD) from error
        except OutputTooLong as error:
            raise ServiceFault(ModelBroken(f"{self._program.title} answers without end.")) from error

    def _found(self) -> str | None:
        return shutil.which(str(Path(self._command).expanduser()), path=self._environ.get("PATH"))

    def _tell(self, asked: ModelRequest) -> ProgramCall:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self._program.tell(asked, self._model, self._folder)

    def _optional(self, told: ProgramCall) -> list[tuple[str, ...]]:
        return [flag for flag in told.optional if flag[0] not in self._unknown]

    async def _once(self, found: str, told: ProgramCall, prompt: str) -> ProgramOutput:
        return await run(
            (found, *told.arguments, *(part for flag in self._optional(told) for part in flag)),
            said=prompt,
            folder=self._folder,
            environ={**self._environ, **told.variables},
        )

    def _advised(self, error: ModelError) -> ModelError:
        words = self._words(error.message)
        return type(error)(f"{words}.", advice=error.advice or self._program.advice)

    def _words(self, text: str) -> str:
        return plain_words(text, (self._environ.get(self._program.key, ""),))
