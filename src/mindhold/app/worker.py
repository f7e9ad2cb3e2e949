"""The short-lived worker that hooks start: it does the queued work, writes the hook caches, and exits."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mindhold.hooks import already_shown, event_queue, server
from mindhold.hooks.files import hooks_path, list_names
from mindhold.hooks.lease import Lease
from mindhold.hooks.worker_process import LAST_SECONDS, lower_priority, set_deadline

if TYPE_CHECKING:
    from mindhold.interfaces.runtime import OpenMindhold
    from mindhold.model.scope import Caller
    from mindhold.settings.loader import LoadedSettings


log = logging.getLogger("mindhold.worker")
LONGEST_SECONDS = 3_600.0  # until the settings say less
SHARE = 0.5  # of its time, that one conversation may take
MODEL_SHARE = 0.7  # of that, for language models: then rules must do
BATCH = 20  # conversations after which what follows from them is done, and they wait no longer
UPKEEP_SECONDS = 20.0
INDEX_SECONDS = 20.0  # for the conversations that were captured
EMBED_SECONDS = 5.0
PASSAGES = 256  # that get a vector meanwhile
LONGEST_LOG = 64 * 1024
LAG_SECONDS = 0.3  # the client writes a conversation's file a little later than it tells of it
LAGS = 5
BUSY = "busy"  # the outcome of a capture that another process is at
# From what says least to what says most: of one conversation the last stands for all.
EVENTS = ("Stop", "SubagentStop", "PreCompact", "SessionEnd")
Event = dict[str, Any]


def run(home: str, handed: int | None = None) -> int:
    """Do all that waits, unless another worker is at it. `handed` is a descriptor that holds the lease already."""
    tried: set[str] = set()
    begun = time.monotonic()
    try:
        while True:
            with Lease(home, handed) as mine:
                if not mine:
                    return 0
                on_time = _run(home, tried, begun=begun)
            handed = None
            # A hook that wrote while the lease was held has started nobody.
            if not on_time or not _untried(home, tried):
                return 0
    except OSError:  # a home that can't be written: there is nobody to tell
        return 0


def _run(home: str, tried: set[str], *, begun: float) -> bool:
    """With the lease in hand; whether there is time for more."""
    set_deadline(begun + LONGEST_SECONDS)
    lower_priority()
    from mindhold.interfaces.logs import logging_to
    from mindhold.model.errors import MindholdError
    from mindhold.settings.loader import load_settings

    try:
        loaded = load_settings({"home": home})
        seconds = float(loaded.settings.capture.worker_seconds)
        set_deadline(begun + seconds)
        with logging_to(loaded.settings):
            work = _Work(loaded, home, tried, until=begun + seconds - LAST_SECONDS, share=seconds * SHARE)
            asyncio.run(work.do())
        return work.left > 0
    except MindholdError as error:  # of a store that is away, busy or full, or of the settings
        _note(home, error.code)
        _put_off(home, tried)
    except Exception as error:  # the outermost handler: nobody is there to tell
        log.exception("the worker failed")
        _note(home, type(error).__name__)
        _put_off(home, tried)
    return True


@dataclass(slots=True)
class _Conversation:
    """What waits for one conversation: `event`, in `file`, says what all say that are there for it."""

    file: str
    event: Event
    others: list[str] = field(default_factory=list)


class _Work:
    """One run, on one open app."""

    def __init__(
        self, loaded: LoadedSettings, home: str, tried: set[str], *, until: float, share: float
    ) -> None:
        self._loaded = loaded
        self._home = home
        self._tried = tried
        self._until = until
        self._share = share
        self._folders: dict[str, dict[str, None]] = {"": {}}  # by the agents whose they are
        self._held: dict[str, None] = {}  # files of conversations that grew

    async def do(self) -> None:
        """Raises MindholdError where the store can't be opened."""
        from mindhold.app.application import open_app

        async with open_app(self._loaded) as running:
            upkeep = time.monotonic() + UPKEEP_SECONDS
            while self.left > 0:
                if found := _untried(self._home, self._tried):
                    await self._heed_all(running, found)
                elif self._held:
                    await self._index(running)
                elif time.monotonic() >= upkeep or not await self._ran_a_job(running):
                    break
            await self._make_leaflets(running, others=True)  # jobs may have changed what is told
            if running.history_behind:
                await running.index_in_background()

    @property
    def left(self) -> float:
        """Seconds."""
        return self._until - time.monotonic()

    async def _heed_all(self, running: OpenMindhold, found: Sequence[tuple[str, Event]]) -> None:
        """As many as there is time for; the others wait on, as if nobody had looked."""
        rest = _conversations(found)
        while rest and self.left > 0:
            batch, rest = rest[:BATCH], rest[BATCH:]
            await self._heed(running, batch)

    async def _heed(self, running: OpenMindhold, batch: Sequence[_Conversation]) -> None:
        """Nothing waits any longer once all that follows from it is done: killed before, it is done again."""
        done: list[str] = []
        last = _last_of_each(batch)
        for one in batch:
            if self.left <= 0:
                break
            self._folders.setdefault(_text(one.event, "agent"), {})[_text(one.event, "folder")] = None
            self._tried.add(one.file)
            if one.event.get("event") in EVENTS and not _text(one.event, "exclude"):
                self._held[_text(one.event, "file")] = None
            if one.event.get("event") not in EVENTS or await self._captured(
                running, one, documents=one.file in last
            ):
                done.append(one.file)
        await self._make_leaflets(running)
        for file in done:
            event_queue.remove_event(file)

    async def _captured(self, running: OpenMindhold, one: _Conversation, *, documents: bool) -> bool:
        """False where it stays waiting: for the next hook, or aside after some attempts of its own."""
        from mindhold.model.errors import MindholdError, SettingsError, StoreError

        seconds = max(0.0, min(self.left, self._share))
        try:
            async with asyncio.timeout(seconds):
                # If somebody else is at it, that one may not go on to its end.
                given = {"documents": documents, "model_seconds": seconds * MODEL_SHARE}
                return await _capture(running, one.event, given)
        except (StoreError, SettingsError) as error:  # which is not its fault
            log.warning("a conversation waits: %s", error.code)
            _note(self._home, error.code)
        except (MindholdError, TimeoutError) as error:
            code = getattr(error, "code", "TIMEOUT")
            log.warning("a conversation was not captured: %s", code)
            _note(self._home, code)
            # A run that ended before its share did is not its fault either.
            if isinstance(error, MindholdError) or seconds >= self._share:
                _count_attempt(one)
        except Exception as error:  # one conversation that can't be read must not keep the others waiting
            log.exception("a conversation was not captured")
            _note(self._home, type(error).__name__)
            _count_attempt(one)
        return False

    async def _index(self, running: OpenMindhold) -> None:
        """What was said is found at once. Where that fails, another who indexes makes up for it."""
        from mindhold.history.index import INDEX_HISTORY
        from mindhold.history.vectors import EMBED_HISTORY
        from mindhold.interfaces.runtime import call_operation
        from mindhold.model.errors import MindholdError

        files = [name for name in self._held if Path(name).is_absolute()]
        self._held.clear()
        seconds = max(0.0, min(self.left, INDEX_SECONDS))
        if not files or not self._loaded.settings.history.enabled:
            return
        try:
            async with asyncio.timeout(seconds + LAST_SECONDS):
                await call_operation(
                    running, INDEX_HISTORY, files=files, most_seconds=max(0.1, seconds), workers=0
                )
                await call_operation(
                    running, EMBED_HISTORY, most=PASSAGES, seconds=max(0.1, min(self.left, EMBED_SECONDS))
                )
        except (MindholdError, TimeoutError) as error:
            log.warning("conversations are not indexed: %s", getattr(error, "code", "TIMEOUT"))
        except Exception as error:  # what was captured is not to suffer for it
            log.exception("conversations are not indexed")
            _note(self._home, type(error).__name__)

    async def _make_leaflets(self, running: OpenMindhold, *, others: bool = False) -> None:
        from mindhold.capture.hook_cache import MAKE_LEAFLET
        from mindhold.interfaces.runtime import call_operation
        from mindhold.model.errors import MindholdError

        try:
            async with asyncio.timeout(
                max(LAST_SECONDS * 0.4, self.left)
            ):  # at the end it may be asked twice
                for agent, folders in self._folders.items():
                    every = others and not agent  # those of all agents are made by one
                    if folders or every:
                        given = {"folders": list(folders), "others": every}
                        await call_operation(running, MAKE_LEAFLET, caller=_caller(agent), **given)
                    folders.clear()
        except (MindholdError, OSError, TimeoutError) as error:
            log.warning("leaflets were not made: %s", getattr(error, "code", type(error).__name__))
        already_shown.remove_old_shown(self._home)
        server.remove_stale_servers(self._home)
        event_queue.remove_old_events(self._home)

    async def _ran_a_job(self, running: OpenMindhold) -> bool:
        """One that is due, unless a server of this home is there to do it."""
        from mindhold.interfaces.runtime import call_operation
        from mindhold.jobs.queue import RUN_JOBS
        from mindhold.model.errors import MindholdError

        if list_names(hooks_path(self._home, server.SERVERS_FOLDER), ".json"):
            return False
        try:
            async with asyncio.timeout(max(0.0, self.left)):
                return bool((await call_operation(running, RUN_JOBS, most=1)).ran)
        except (MindholdError, TimeoutError) as error:
            log.warning("upkeep: %s", getattr(error, "code", "TIMEOUT"))
            return False


async def _capture(running: OpenMindhold, event: Event, more: Event) -> bool:
    """False while another process has the conversation in hand. Raises MindholdError."""
    from mindhold.capture.capture import CAPTURE
    from mindhold.interfaces.runtime import call_operation
    from mindhold.settings.sections import comma_list

    names = ("conversation", "file", "event", "folder", "last_message", "subagent")
    given: dict[str, Any] = {name: _text(event, name) for name in names} | more
    # Where the hook knew no folder, the file says it.
    if not given["file"] or not (given["folder"] or Path(given["file"]).is_file()):
        return True
    given["exclude"] = list(comma_list(_text(event, "exclude")))
    for turn in range(LAGS):
        if turn == LAGS - 1:
            given["last_message"] = ""  # it is not going to come
        done = await call_operation(running, CAPTURE, caller=_caller(_text(event, "agent")), **given)
        if not done.lags:
            return bool(done.outcome != BUSY)
        await asyncio.sleep(LAG_SECONDS)
    return True


def _caller(agent: str) -> Caller | None:
    """None for the home's own agent."""
    from mindhold.model.scope import Caller

    return Caller(agent) if agent else None


def _conversations(found: Iterable[tuple[str, Event]]) -> list[_Conversation]:
    """The oldest first. The files of those that another one stands for are removed: it waits on for them all."""
    groups: dict[tuple[str, ...], _Conversation] = {}
    for file, event in found:
        name = event.get("event")
        names: tuple[str, ...]
        if name in EVENTS:
            names = ("agent", "conversation", "file", "subagent", "exclude")
        else:
            names = ("event", "agent", "folder")
        group = tuple(_text(event, each) for each in names)
        known = groups.get(group)
        if known is None:
            groups[group] = _Conversation(file, event)
        elif _rank(event) >= _rank(known.event):
            groups[group] = _Conversation(file, event, [*known.others, known.file])
        else:
            known.others.append(file)
    for one in groups.values():
        for file in one.others:
            event_queue.remove_event(file)
    return list(groups.values())


def _last_of_each(batch: Iterable[_Conversation]) -> set[str]:
    """Of the conversations of a project, the file of the one after which the project is condensed and its documents written."""
    found: dict[tuple[str, str], _Conversation] = {}
    for one in batch:
        place = _text(one.event, "agent"), _text(one.event, "folder")
        if place not in found or _rank(one.event) >= _rank(found[place].event):
            found[place] = one
    return {one.file for one in found.values()}


def _rank(event: Event) -> int:
    name = event.get("event")
    return EVENTS.index(name) if name in EVENTS else -1


def _text(event: Event, name: str) -> str:
    value = event.get(name)
    return value if isinstance(value, str) else ""


def _untried(home: str, tried: set[str]) -> list[tuple[str, Event]]:
    return [(file, event) for file, event in event_queue.all_events(home) if file not in tried]


def _put_off(home: str, tried: set[str]) -> None:
    """All that nobody came to. It is not their fault: they wait as long as it takes."""
    tried.update(one.file for one in _conversations(_untried(home, tried)))


def _count_attempt(one: _Conversation) -> None:
    """After some it is put aside."""
    with suppress(OSError):
        event_queue.note_failed_event(one.file, one.event)


def _note(home: str, problem: str) -> None:
    """For a person who wonders; a code, and never a word that was said."""
    path = hooks_path(home, "worker.log")
    with suppress(OSError):
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
        descriptor = os.open(path, flags, 0o600)
        try:
            if os.fstat(descriptor).st_size > LONGEST_LOG:
                os.ftruncate(descriptor, 0)
            stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            os.write(descriptor, f"{stamp} {problem}\n".encode())
        finally:
            os.close(descriptor)
