"""Runs one command of the package in this process and reports the path of a memory through the code.

`code_map.py` starts this file with the Python of the checkout that it measures. The report goes to a control pipe as JSON.
It patches sqlite3, asyncio, threads and contextlib, and knows no module of the package except `__main__`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import inspect
import json
import os
import sqlite3
import sys
import threading
from collections import defaultdict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

INTERFACE_LIBRARIES = (
    "click",
    "mcp",
    "uvicorn",
)  # the handler is the function of ours that one of these calls
COMPREHENSIONS = frozenset(("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"))
DEPTH = 3  # how deep a value is searched for the text
MOST_ITEMS = 50  # of one list or mapping


class Call(NamedTuple):
    """One frame of a chain. `module` is None for code that is not ours; `unit` is the task or thread that it ran in."""

    module: str | None
    name: str
    library: bool
    unit: int


class Recorder:
    """Counts from `begin` on: modules that run, classes that hold the text, and the chain at the SQL statement."""

    def __init__(self, package: str, source: Path) -> None:
        self.package = package
        self._folder = f"{(source / package).resolve()}{os.sep}"
        self._modules_by_code: dict[CodeType, str | None] = {}
        self._origins: WeakKeyDictionary[asyncio.Task[Any], list[Call]] = WeakKeyDictionary()
        self._units: WeakKeyDictionary[asyncio.Task[Any], int] = WeakKeyDictionary()
        self._parents: list[int] = [0]  # of each unit, the one that made it; 0 is the main thread
        self._thread = threading.local()
        self.opener: str | None = None  # the first async context manager of ours that was entered
        self.begin("", ())

    def begin(self, phrase: str, verbs: tuple[str, ...]) -> None:
        """Forget what was counted. `phrase` marks the content; its first word marks the statement."""
        self.phrase, self.verbs = phrase, verbs
        self.word = phrase.partition(" ")[0]
        self.modules: dict[int, set[str]] = defaultdict(set)  # by unit
        self.shapes: dict[int, set[str]] = defaultdict(set)
        self.shapes_at_sql: dict[int, set[str]] = {}
        self.chain: list[Call] = []
        self.statement = ""

    def opened(self) -> None:
        """The app is open: the modules that ran before belong to opening it."""
        self.modules.clear()

    def report(self, *, of_request: bool) -> dict[str, Any]:
        """What was counted since `begin`: in the whole process, or in the handler's task and what it started."""
        prefix = f"{self.package}."
        chain = from_handler(self.chain)
        request = chain[0].unit if chain and of_request else 0
        return {
            "chain": [f"{call.module}.{call.name}" for call in chain],
            "statement": " ".join(self.statement.split())[:160],
            "modules": self._within(request, self.modules),
            "imported": sorted(name for name in sys.modules if f"{name}.".startswith(prefix)),
            "shapes_at_sql": self._within(request, self.shapes_at_sql),
            "shapes": self._within(request, self.shapes),
            "opener": self.opener,
        }

    def _within(self, unit: int, names: Mapping[int, set[str]]) -> list[str]:
        """The names of this unit and of those that it made."""
        return sorted(
            {name for one, found in list(names.items()) if self._descends(one, unit) for name in found}
        )

    def _descends(self, unit: int, ancestor: int) -> bool:
        while unit not in (0, ancestor):
            unit = self._parents[unit]
        return unit == ancestor

    def new_unit(self) -> int:
        """The number of a task or thread that is made now, by the one that runs."""
        self._parents.append(self.unit())
        return len(self._parents) - 1

    def unit(self) -> int:
        """The task or thread that runs; work that was handed to a thread belongs to who handed it over."""
        loop = asyncio._get_running_loop()
        task = asyncio.current_task(loop) if loop else None
        if task is not None:
            return self._units.get(task, 0)
        return getattr(self._thread, "unit", 0)

    def set_unit(self, unit: int) -> None:
        """Of this thread."""
        self._thread.unit = unit

    def module_of(self, code: CodeType) -> str | None:
        """The module of ours that this code is a function of; module and class bodies are no functions."""
        try:
            return self._modules_by_code[code]
        except KeyError:
            pass
        module = None
        if code.co_flags & inspect.CO_OPTIMIZED and code.co_filename.startswith(self._folder):
            parts = Path(code.co_filename[len(self._folder) :]).with_suffix("").parts
            module = ".".join((self.package, *(part for part in parts if part != "__init__")))
        self._modules_by_code[code] = module
        return module

    def profile(self, frame: FrameType, event: str, value: Any) -> None:
        """For sys.setprofile."""
        if event not in ("call", "return"):
            return
        module = self.module_of(frame.f_code)
        if module is None:
            return
        unit = self.unit()
        if event == "call":
            self.modules[unit].add(module)
            if self.phrase:
                for local in list(frame.f_locals.values()):
                    self._add_shapes(unit, local, DEPTH)
        elif self.phrase:
            self._add_shapes(unit, value, DEPTH)

    def traced(self, statement: str) -> None:
        """For sqlite3's set_trace_callback: the statement has its parameters filled in."""
        if not self.phrase or self.chain or self.word not in statement.lower():
            return
        if statement.lstrip().upper().startswith(self.verbs):
            self.chain = self.chain_from(sys._getframe(1))
            self.statement = statement
            self.shapes_at_sql = {unit: set(names) for unit, names in list(self.shapes.items())}

    def chain_from(self, frame: FrameType | None) -> list[Call]:
        """The calls that led here, innermost first, across threads and tasks."""
        chain: list[Call] = []
        unit = self.unit()
        while frame is not None:
            code = frame.f_code
            if code is _CARRIED:
                return chain + frame.f_locals["origin"]
            if code is _THREAD_RUN:
                return chain + getattr(frame.f_locals["self"], "call_path_origin", [])
            if code is _HANDLE_RUN:
                task = asyncio.current_task()
                return chain + (self._origins.get(task, []) if task else [])
            library = _is_interface_library(code.co_filename)
            chain.append(Call(self.module_of(code), code.co_qualname, library, unit))
            frame = frame.f_back
        return chain

    def task_made(self, task: asyncio.Task[Any], frame: FrameType) -> None:
        """Remember who made a task."""
        self._origins[task] = self.chain_from(frame)
        self._units[task] = self.new_unit()

    def _add_shapes(self, unit: int, value: Any, depth: int) -> None:
        kind = type(value)
        if kind is str or depth == 0:
            return
        fields = self._fields_of(value)
        if fields is not None:
            if any(self._says(one) for one in fields):
                self.shapes[unit].add(f"{kind.__module__}.{kind.__qualname__}")
        elif kind in (list, tuple, set, frozenset):
            fields = value
        elif kind is dict:
            fields = value.values()
        else:
            return
        if len(fields) <= MOST_ITEMS:
            for one in list(fields):
                self._add_shapes(unit, one, depth - 1)

    def _fields_of(self, value: Any) -> list[Any] | None:
        """The field values of a dataclass, pydantic model or NamedTuple of ours."""
        kind = type(value)
        if not f"{kind.__module__}.".startswith(f"{self.package}."):
            return None
        if dataclasses.is_dataclass(kind):
            return [getattr(value, field.name, None) for field in dataclasses.fields(kind)]
        if hasattr(kind, "__pydantic_fields__"):
            return list(getattr(value, "__dict__", {}).values())
        if issubclass(kind, tuple) and hasattr(kind, "_fields"):
            return list(value)
        return None

    def _says(self, value: Any) -> bool:
        if isinstance(value, str):
            return self.phrase in value.lower()
        if type(value) in (list, tuple) and len(value) <= MOST_ITEMS:
            return any(isinstance(one, str) and self.phrase in one.lower() for one in value)
        if type(value) is dict and len(value) <= MOST_ITEMS:
            return any(isinstance(one, str) and self.phrase in one.lower() for one in list(value.values()))
        return False


def from_handler(chain: list[Call]) -> list[Call]:
    """Our functions of a chain that is innermost first, outermost first, from the interface's handler on."""
    inside = []
    for call in chain:
        if call.library:
            break
        if call.module is not None and call.name.rpartition(".")[2] not in COMPREHENSIONS:
            inside.append(call)
    return inside[::-1]


@cache
def _is_interface_library(file: str) -> bool:
    parts = Path(file).parts
    return any(one == "site-packages" and two in INTERFACE_LIBRARIES for one, two in pairwise(parts))


def _carried(set_unit: Any, unit: int, origin: list[Call], work: Any, /, *args: Any, **kwargs: Any) -> Any:
    set_unit(unit)
    return work(*args, **kwargs)


_CARRIED = _carried.__code__
_THREAD_RUN = threading.Thread.run.__code__
_HANDLE_RUN = asyncio.Handle._run.__code__


def install(recorder: Recorder) -> None:
    """Patch the library so that the recorder sees every statement, thread, task and call."""
    connect, submit = sqlite3.connect, ThreadPoolExecutor.submit
    start, create_task = threading.Thread.start, asyncio.BaseEventLoop.create_task
    manager = contextlib._AsyncGeneratorContextManager
    enter = manager.__aenter__

    def traced_connect(*args: Any, **kwargs: Any) -> sqlite3.Connection:
        connection = connect(*args, **kwargs)
        connection.set_trace_callback(recorder.traced)
        return connection

    def linked_submit(self: ThreadPoolExecutor, work: Any, /, *args: Any, **kwargs: Any) -> Any:
        origin = recorder.chain_from(sys._getframe(1))
        return submit(self, _carried, recorder.set_unit, recorder.unit(), origin, work, *args, **kwargs)

    def linked_start(self: threading.Thread) -> None:
        self.call_path_origin = recorder.chain_from(sys._getframe(1))
        unit, run = recorder.new_unit(), self.run

        def run_as_unit() -> None:
            recorder.set_unit(unit)
            run()

        self.run = run_as_unit
        start(self)

    def linked_create_task(self: asyncio.BaseEventLoop, *args: Any, **kwargs: Any) -> Any:
        task = create_task(self, *args, **kwargs)
        recorder.task_made(task, sys._getframe(1))
        return task

    async def watched_enter(self: Any) -> Any:
        code = self.gen.ag_code
        module = recorder.module_of(code)
        if module is None or recorder.opener is not None:
            return await enter(self)
        recorder.opener = f"{module}.{code.co_qualname}"
        value = await enter(self)
        recorder.opened()
        return value

    sqlite3.connect = sqlite3.dbapi2.connect = traced_connect
    ThreadPoolExecutor.submit = linked_submit
    threading.Thread.start = linked_start
    asyncio.BaseEventLoop.create_task = linked_create_task
    manager.__aenter__ = watched_enter
    threading.setprofile(recorder.profile)
    sys.setprofile(recorder.profile)


def answer_control(recorder: Recorder, read_end: int, write_end: int) -> None:
    """Answer `begin` and `end` from the pipe, one JSON line each, until it is closed."""
    with os.fdopen(read_end, encoding="utf-8") as requests:
        for line in requests:
            request = json.loads(line)
            answer: dict[str, Any] = {}
            if request["do"] == "begin":
                recorder.begin(request["phrase"], tuple(request["verbs"]))
            elif request["do"] == "end":
                answer = recorder.report(of_request=True)
            os.write(write_end, (json.dumps(answer) + "\n").encode())


def main() -> None:
    """Run the command after `--`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--package", required=True)
    parser.add_argument("--source", required=True, type=Path)
    parser.add_argument("--control", required=True, nargs=2, type=int, metavar=("READ", "WRITE"))
    parser.add_argument(
        "--phrase", default="", help="begin at once, with this phrase; report when the command ends"
    )
    parser.add_argument("--verbs", nargs="*", default=[])
    parser.add_argument("command", nargs="+")
    given = parser.parse_args()
    sys.path[0] = str(given.source)
    sys.argv = [given.package, *given.command]
    read_end, write_end = given.control
    recorder = Recorder(given.package, given.source)
    threading.Thread(target=answer_control, args=(recorder, read_end, write_end), daemon=True).start()
    recorder.begin(given.phrase, tuple(given.verbs))
    install(recorder)
    entry = __import__(f"{given.package}.__main__", fromlist=["main"])
    try:
        entry.main()
    finally:
        sys.setprofile(None)
        if given.phrase:
            os.write(write_end, (json.dumps(recorder.report(of_request=False)) + "\n").encode())


if __name__ == "__main__":
    main()
