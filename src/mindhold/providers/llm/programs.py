"""Language models behind a program on this machine (Claude Code, Gemini CLI), run with bounded output and no orphans."""

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
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from mindhold.model.errors import ModelAway, ModelBroken, ModelDenied, ModelError, ModelMissing
from mindhold.providers.llm.services import ModelAnswer, ModelRequest
from mindhold.providers.remote_service import LONGEST_HOLD, ServiceFault, as_unsent, one_line, parse_json

# The guard reads process group numbers. When its input ends, this process has ended, and it kills those groups.
_GUARD = """
import os, signal, subprocess, sys
for number in map(int, sys.stdin.buffer.read().split()):
    try:
        if os.name == "nt":
            subprocess.run(["taskkill", "/F", "/T", "/PID", str(number)], creationflags=0x08000000)
        else:
            os.killpg(number, signal.SIGKILL)
    except OSError:
        pass
"""


@asynccontextmanager
async def process_guard(detached: Mapping[str, Any]) -> AsyncIterator[Callable[[int], None]]:
    """Run a guard process that kills the registered process groups when this process ends, however it ends.

    `detached` are the options that start a process in its own group. Without memory for a guard, there is none.
    """
    guard = None
    with suppress(OSError):
        guard = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", "-c", _GUARD),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            **detached,
        )

    def register(group: int) -> None:
        if guard is not None and guard.stdin is not None:
            guard.stdin.write(b"%d\n" % group)

    try:
        yield register
    finally:
        if guard is not None:
            with suppress(ProcessLookupError):
                guard.kill()
            await guard.wait()


MOST_OUTPUT = 4 * 1024 * 1024
_LAST_SECONDS = 2.0  # for the last output to arrive
_IN, _OUT, _ERR = 0, 1, 2

if sys.platform == "win32":
    _DETACHED: dict[str, Any] = {
        "creationflags": subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW
    }
else:
    _DETACHED: dict[str, Any] = {"start_new_session": True}


@dataclass(frozen=True, slots=True)
class ProgramOutput:
    """The exit status and output of a program."""

    status: int
    out: str
    err: str


class OutputTooLong(Exception):
    """The program wrote more than MOST_OUTPUT bytes."""


async def run(
    command: Sequence[str], *, prompt: str, folder: Path, environ: Mapping[str, str]
) -> ProgramOutput:
    """Run a command without a shell; `prompt` goes to its standard input. Raises OSError, OutputTooLong.

    The answer is complete when the program exits; child processes that it left running are killed.
    """
    async with process_guard(_DETACHED) as guard:
        transport, output = await asyncio.get_running_loop().subprocess_exec(
            _Output, *command, cwd=folder, env=dict(environ), **_DETACHED
        )
        guard(transport.get_pid())
        return await _read_output(transport, output, prompt)


async def _read_output(transport: asyncio.SubprocessTransport, output: _Output, prompt: str) -> ProgramOutput:
    try:
        _write_input(transport, prompt)
        await asyncio.wait((output.exited, output.too_long), return_when=asyncio.FIRST_COMPLETED)
        await _kill_group(transport, output)
        await asyncio.wait((output.outputs_closed,), timeout=_LAST_SECONDS)
        if output.too_long.done():
            raise OutputTooLong
        return ProgramOutput(transport.get_returncode() or 0, output.text(_OUT), output.text(_ERR))
    finally:
        await _kill_group(transport, output)
        transport.close()


class _Output(asyncio.SubprocessProtocol):
    """The output of a program so far, and whether more can come."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.exited: asyncio.Future[None] = loop.create_future()
        self.outputs_closed: asyncio.Future[None] = loop.create_future()
        self.too_long: asyncio.Future[None] = loop.create_future()
        self._received = {_OUT: bytearray(), _ERR: bytearray()}
        self._open = {_OUT, _ERR}

    def text(self, output: int) -> str:
        return self._received[output].decode("utf-8", errors="replace")

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if len(self._received[fd]) + len(data) <= MOST_OUTPUT:
            self._received[fd] += data
        else:
            _resolve_future(self.too_long)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        self._open.discard(fd)
        if not self._open:
            _resolve_future(self.outputs_closed)

    def process_exited(self) -> None:
        _resolve_future(self.exited)


def _resolve_future(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _write_input(transport: asyncio.SubprocessTransport, prompt: str) -> None:
    pipe = transport.get_pipe_transport(_IN)
    if isinstance(pipe, asyncio.WriteTransport):
        pipe.write(prompt.encode())
        pipe.close()


if sys.platform == "win32":

    async def _kill_group(transport: asyncio.SubprocessTransport, output: _Output) -> None:
        """Kill the program and its children; children of a program that has exited can't be found."""
        if output.exited.done():
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
        await asyncio.wait((output.exited,))

else:

    async def _kill_group(transport: asyncio.SubprocessTransport, output: _Output) -> None:
        """Kill the whole process group, also after the program itself has exited."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(transport.get_pid(), signal.SIGKILL)
        await asyncio.wait((output.exited,))


_DENIED_STATUSES = (401, 402, 403)
_GEMINI_DENIED_STATUS = 41  # its exit status when nobody is logged in
# Variables that make a program believe it is part of the conversation that started it.
_SESSION_VARIABLES = (
    "CLAUDECODE",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_CODE_SSE_PORT",
    "CLAUDE_CODE_SESSION_ID",
    "CLAUDE_CODE_CHILD_SESSION",
)
_THINKING_TOKENS = 1_000  # tokens, because it can't be told not to think first
_NO_TOOLS_POLICY = '[[rule]]\ntoolName = "*"\ndecision = "deny"\npriority = 999\n'
# Gemini reads these settings from its folder: no tools, no hooks, and only the last conversation is kept.
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


@dataclass(frozen=True, slots=True)
class LlmProgram:
    """A program: `prepare` writes the files of a call into its folder; `read` raises ServiceFault, ValueError."""

    title: str
    command: str
    usual: str
    prepare: Callable[[ModelRequest, str, Path], ProgramCall]
    read: Callable[[ProgramOutput], str]
    key: str  # the variable that holds its own key
    advice: str


def environment(program: LlmProgram, environ: Mapping[str, str], *, key: str) -> dict[str, str]:
    """Return the environment for the program: with its own key, and nobody else's."""
    others = {each.key for each in PROGRAMS.values()} - {program.key}
    variables = {
        name: value
        for name, value in environ.items()
        if name not in others and name not in _SESSION_VARIABLES
    }
    return variables | {program.key: key} if key else variables


def _prepare_claude(request: ModelRequest, model: str, folder: Path) -> ProgramCall:
    return ProgramCall(
        (
            *("-p", "--output-format", "json", "--model", model),
            *("--tools", "", "--strict-mcp-config", "--settings", '{"disableAllHooks": true}'),
            *("--system-prompt-file", _write_system_prompt(folder, request.system).name),
        ),
        {
            "CLAUDE_CODE_MAX_OUTPUT_TOKENS": str(request.most_tokens + _THINKING_TOKENS),
            "CLAUDE_CODE_DISABLE_CLAUDE_MDS": "1",
            "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "MAX_THINKING_TOKENS": "0",
        },
        (("--no-session-persistence",), ("--disable-slash-commands",), ("--effort", "low")),
    )


def _read_claude(output: ProgramOutput) -> str:
    document = parse_json(output.out)
    if isinstance(document, list) and document:  # a verbose program lists every message
        document = document[-1]
    if not isinstance(document, dict) or document.get("type") != "result":
        raise ValueError("it is no result")
    result, status = document.get("result"), document.get("api_error_status")
    if document.get("is_error") or document.get("subtype") != "success":
        message = result if isinstance(result, str) and result else str(document.get("subtype"))
        raise _refusal("Claude Code", message, status=status if isinstance(status, int) else 0)
    if document.get("stop_reason") == "max_tokens":
        raise ServiceFault(ModelError("Claude Code gave no answer: it was cut off."), hold_seconds=None)
    return result if isinstance(result, str) else ""


def _prepare_gemini(request: ModelRequest, model: str, folder: Path) -> ProgramCall:
    _write_if_changed(folder / "no-tools.toml", _NO_TOOLS_POLICY)
    (folder / ".gemini").mkdir(mode=0o700, exist_ok=True)
    _write_if_changed(folder / ".gemini" / "settings.json", json.dumps(_GEMINI_SETTINGS))
    return ProgramCall(
        (
            *("-p", "", "--output-format", "json", "--model", model),
            *("--skip-trust", "--extensions", "none", "--policy", "no-tools.toml"),
            *("--allowed-mcp-server-names", "none"),
        ),
        {"GEMINI_SYSTEM_MD": str(_write_system_prompt(folder, request.system)), "NO_COLOR": "1"},
    )


def _read_gemini(output: ProgramOutput) -> str:
    """Read the answer; errors come on either stream, after warnings."""
    for text in (output.out, output.err):
        with suppress(ValueError):
            document = parse_json(text[text.index("{") :])
            if not isinstance(document, dict):
                continue
            if error := document.get("error"):
                words = error.get("message") if isinstance(error, dict) else error
                denied = 401 if output.status == _GEMINI_DENIED_STATUS else 0
                raise _refusal("Gemini CLI", str(words), status=denied)
            if isinstance(document.get("response"), str):
                return str(document["response"])
    raise ValueError("it is no response")


def _refusal(title: str, words: str, *, status: int) -> ServiceFault:
    if status in _DENIED_STATUSES:
        return ServiceFault(ModelDenied(f"{title} is not let in."), hold_seconds=LONGEST_HOLD)
    if status == 429 or status >= 500:
        return ServiceFault(ModelAway(f"{title} gets no answer for now."))
    return ServiceFault(ModelError(f"{title} gave no answer: {words}"))


def _write_system_prompt(folder: Path, system: str) -> Path:
    """Write the system prompt to a file, named by its content."""
    path = folder / f"system-{sha256(system.encode()).hexdigest()[:16]}.md"
    _write_if_changed(path, system)
    return path


def _write_if_changed(path: Path, content: str) -> None:
    """Write a file atomically, unless it has this content already."""
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
        _prepare_claude,
        _read_claude,
        key="ANTHROPIC_API_KEY",
        advice="Run `claude` once by hand: it may want a login or an update.",
    ),
    "gemini_cli": LlmProgram(
        "Gemini CLI",
        "gemini",
        "gemini-2.5-flash",
        _prepare_gemini,
        _read_gemini,
        key="GEMINI_API_KEY",
        advice="Run `gemini` once by hand: it may want a login or an update; or set llm.gemini_key.",
    ),
}

MAX_PARALLEL = 2
_UNKNOWN_FLAG = re.compile(r"unknown (?:option|argument)s?:? ['\"]?(--[\w-]+)", re.IGNORECASE)


@dataclass(slots=True, eq=False)
class ProgramTransport:
    """Calls a model through a program. It runs in a folder of ours, so that it finds no files to read."""

    program: LlmProgram
    model: str
    command: str
    folder: Path
    environ: Mapping[str, str]
    attempts: int = field(default=1, init=False)  # the program retries by itself
    # Flags that this version of the program doesn't accept.
    _unknown_flags: set[str] = field(default_factory=set, init=False)
    _slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_PARALLEL), init=False)

    async def ask(self, request: ModelRequest, *, patience: float) -> ModelAnswer:
        try:
            async with asyncio.timeout(patience):
                async with self._slots:
                    return ModelAnswer(await self._ask(request))
        except TimeoutError as error:
            title = self.program.title
            late = ModelAway(
                f"{title} didn't answer within {patience:.0f} seconds.",
                advice="Raise llm.wait_seconds, or see what it waits for by running it by hand.",
            )
            late.lost = True
            raise ServiceFault(late) from error

    async def close(self) -> None:
        """Do nothing: a running program ends with its call."""

    async def _ask(self, request: ModelRequest) -> str:
        output = await self._run(request)
        try:
            answer = self.program.read(output)
        except ServiceFault as refused:
            message = f"{self._shorten(refused.error.message)}."
            failure = type(refused.error)(message, advice=self.program.advice)
            raise ServiceFault(failure, hold_seconds=refused.hold_seconds) from refused
        except ValueError as error:
            detail = self._shorten(output.err) or str(error)
            broken = ModelBroken(
                f"{self.program.title} gave no answer (it ended with {output.status}): {detail}.",
                advice=self.program.advice,
            )
            raise ServiceFault(broken) from error
        if not answer.strip():
            raise ServiceFault(ModelError(f"{self.program.title} gave an empty answer."), hold_seconds=None)
        return answer

    async def _run(self, request: ModelRequest) -> ProgramOutput:
        path = await asyncio.to_thread(self._find_program)
        if path is None:
            missing = ModelMissing(
                f"There is no program {self.command!r} to ask.",
                advice=f"Install {self.program.title}, or say where it is by llm.command.",
            )
            raise ServiceFault(as_unsent(missing), hold_seconds=LONGEST_HOLD)
        try:
            call = await asyncio.to_thread(self._prepare, request)
        except OSError as error:
            unusable = ModelBroken(
                f"What {self.program.title} is told can't be written to {self.folder}: {error.strerror}.",
                advice="Make room there, or let Mindhold write to it.",
            )
            raise ServiceFault(as_unsent(unusable)) from error
        try:
            while True:
                flags = [flag for flag in call.optional if flag[0] not in self._unknown_flags]
                output = await run(
                    (path, *call.arguments, *(part for flag in flags for part in flag)),
                    prompt=request.prompt,
                    folder=self.folder,
                    environ={**self.environ, **call.variables},
                )
                unknown = _UNKNOWN_FLAG.search(output.err)
                if output.status == 0 or unknown is None or unknown[1] not in [flag[0] for flag in flags]:
                    return output
                self._unknown_flags.add(unknown[1])
        except OSError as error:
            title = self.program.title
            broken = ModelBroken(f"{title} can't be run: {error.strerror}.", advice=self.program.advice)
            raise ServiceFault(broken, hold_seconds=LONGEST_HOLD) from error
        except OutputTooLong as error:
            raise ServiceFault(ModelBroken(f"{self.program.title} answers without end.")) from error

    def _find_program(self) -> str | None:
        return shutil.which(str(Path(self.command).expanduser()), path=self.environ.get("PATH"))

    def _prepare(self, request: ModelRequest) -> ProgramCall:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self.program.prepare(request, self.model, self.folder)

    def _shorten(self, text: str) -> str:
        return one_line(text, (self.environ.get(self.program.key, ""),))
