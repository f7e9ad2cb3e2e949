"""The short-lived worker that hooks start: it does the queued work, writes the hook caches, and exits."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mindhold.hooks import already_shown, event_queue, server
from mindhold.hooks.files import hooks_path, list_names
from mindhold.hooks.lease import Lease
from mindhold.hooks.worker import LAST_SECONDS, lower_priority, set_deadline

if TYPE_CHECKING:
    from mindhold.capture.capture import CaptureResult
    from mindhold.interfaces.runtime import OpenMindhold
    from mindhold.model.scope import Caller
    from mindhold.settings.loader import LoadedSettings


log = logging.getLogger("mindhold.worker")
LONGEST_SECONDS = 3_600.0  # until the settings say less
SHARE = 0.5  # of the worker's time that one conversation may take
MODEL_SHARE = 0.7  # of that, for language models; then rules take over
BATCH = 20  # conversations after which the hook caches are written and their events removed
UPKEEP_SECONDS = 20.0
INDEX_SECONDS = 20.0  # for the conversations that were captured
EMBED_SECONDS = 5.0
PASSAGES = 256  # that get a vector in one run
LONGEST_LOG = 64 * 1024
LAG_SECONDS = 0.3  # the client writes the transcript a little later than it calls the hook
LAGS = 5
BUSY, CAPTURED = "busy", "captured"  # outcomes of a capture: another process is at it; something was read
# From least to most telling: of one conversation's events only the last is handled.
EVENTS = ("Stop", "SubagentStop", "PreCompact", "SessionEnd")
Event = dict[str, Any]
WaitingEvent = tuple[str, Event]  # the file that it waits in, and the event


def run(home: str, handed: int | None = None) -> int:
    """Handle all waiting events, unless another worker runs. `handed` is a descriptor that already holds the lease."""
    tried: set[str] = set()
    begun = time.monotonic()
    try:
        while True:
            with Lease(home, handed) as mine:
                if not mine:
                    return 0
                on_time = _run(home, tried, begun=begun)
            handed = None
            # A hook that wrote while the lease was held has started no worker.
            if not on_time or not _untried(home, tried):
                return 0
    except OSError:  # the home can't be written, so not even a log
        return 0


def _run(home: str, tried: set[str], *, begun: float) -> bool:
    """One run with the lease held; whether there is time for another."""
    set_deadline(begun + LONGEST_SECONDS)
    lower_priority()
    from mindhold.interfaces.logs import logging_to
    from mindhold.model.errors import MindholdError
    from mindhold.settings.loader import load_settings

    try:
        settings_file = SettingsFile(home)
        loaded = load_settings({"home": home})
        seconds = float(loaded.settings.capture.worker_seconds)
        set_deadline(begun + seconds)
        with logging_to(loaded.settings):
            until = begun + seconds - LAST_SECONDS
            work = _Work(loaded, settings_file, home, tried, until=until, share=seconds * SHARE)
            asyncio.run(work.do())
        return work.left > 0
    except MindholdError as error:  # the store is away, busy or full, or the settings are wrong
        _note(home, error.code)
        _put_off(home, tried)
    except Exception as error:  # the outermost handler
        log.exception("the worker failed")
        _note(home, type(error).__name__)
        _put_off(home, tried)
    return True


class _Work:
    """One run, on one open app."""

    def __init__(
        self,
        loaded: LoadedSettings,
        settings_file: SettingsFile,
        home: str,
        tried: set[str],
        *,
        until: float,
        share: float,
    ) -> None:
        self._loaded = loaded
        self._settings_file = settings_file
        self._home = home
        self._tried = tried
        self._until = until
        self._share = share
        self._folders: dict[str, dict[str, None]] = {"": {}}  # by agent
        self._transcripts: dict[str, None] = {}  # that grew and are to be indexed
        # By agent and folder: projects whose documents lack what was captured last.
        self._outdated: dict[tuple[str, str], None] = {}

    async def do(self) -> None:
        """Do the work. Raises MindholdError if the store can't be opened."""
        from mindhold.app.application import open_app

        async with open_app(self._loaded) as running:
            upkeep = time.monotonic() + UPKEEP_SECONDS
            while self._goes_on:
                if events := _untried(self._home, self._tried):
                    await self._handle_all(running, events)
                elif self._transcripts:
                    await self._index(running)
                elif time.monotonic() >= upkeep or not await self._ran_a_job(running):
                    break
            await self._write_hook_caches(running, others=True)  # jobs may have changed memories
            if running.history_behind:
                await running.index_in_background()

    @property
    def _goes_on(self) -> bool:
        """Whether there is time, and the settings are those that the run began with."""
        return self.left > 0 and not self._settings_file.is_changed

    @property
    def left(self) -> float:
        """Seconds that are left."""
        return self._until - time.monotonic()

    async def _handle_all(self, running: OpenMindhold, events: Sequence[WaitingEvent]) -> None:
        """Handle as many as there is time for; the others go on waiting, also for a run with changed settings."""
        rest = _latest_events(events)
        while rest and self._goes_on:
            batch, rest = rest[:BATCH], rest[BATCH:]
            await self._handle(running, batch)

    async def _handle(self, running: OpenMindhold, batch: Sequence[WaitingEvent]) -> None:
        """Capture a batch. Its events are removed at the end, so that a killed worker's work is done again."""
        done: list[str] = []
        last = _last_of_each(batch)
        for file, event in batch:
            if not self._goes_on:
                break
            self._folders.setdefault(_text(event, "agent"), {})[_text(event, "folder")] = None
            self._tried.add(file)
            is_conversation = event.get("event") in EVENTS
            if is_conversation and not _text(event, "exclude"):
                self._transcripts[_text(event, "file")] = None
            if not is_conversation or await self._captured(running, file, event, documents=file in last):
                done.append(file)
        await self._write_documents(running)
        await self._write_hook_caches(running)
        for file in done:
            event_queue.remove_event(file)

    async def _captured(self, running: OpenMindhold, file: str, event: Event, *, documents: bool) -> bool:
        """Whether it was captured; if not, its event goes on waiting, and is put aside after some attempts."""
        from mindhold.model.errors import MindholdError, SettingsError, StoreError

        seconds = max(0.0, min(self.left, self._share))
        try:
            async with asyncio.timeout(seconds):
                options = {"documents": documents, "model_seconds": seconds * MODEL_SHARE}
                result = await _capture(running, event, options)
                self._note_outdated(event, result)
                return result is None or result.outcome != BUSY
        except (StoreError, SettingsError) as error:  # not the conversation's fault
            log.warning("a conversation waits: %s", error.code)
            _note(self._home, error.code)
        except (MindholdError, TimeoutError) as error:
            code = getattr(error, "code", "TIMEOUT")
            log.warning("a conversation was not captured: %s", code)
            _note(self._home, code)
            # Nor is a run that ended before the conversation had its full share.
            if isinstance(error, MindholdError) or seconds >= self._share:
                _count_attempt(file, event)
        except Exception as error:  # the other conversations must not wait for this one
            log.exception("a conversation was not captured")
            _note(self._home, type(error).__name__)
            _count_attempt(file, event)
        return False

    def _note_outdated(self, event: Event, result: CaptureResult | None) -> None:
        project = _text(event, "agent"), _text(event, "folder")
        if result is not None and result.documents:
            self._outdated.pop(project, None)
        elif result is not None and result.outcome == CAPTURED and project[1]:
            self._outdated[project] = None

    async def _write_documents(self, running: OpenMindhold) -> None:
        """Write the documents that the last conversation of their project left as they were: it may have no transcript."""
        from mindhold.capture.claude_md import WRITE_DOCUMENTS
        from mindhold.interfaces.runtime import call_operation
        from mindhold.model.errors import MindholdError

        for agent, folder in self._outdated:
            try:
                async with asyncio.timeout(max(0.0, self.left)):
                    await call_operation(running, WRITE_DOCUMENTS, caller=_caller(agent), folder=folder)
            except (MindholdError, OSError, TimeoutError) as error:
                log.warning("documents were not written: %s", getattr(error, "code", type(error).__name__))
        self._outdated.clear()

    async def _index(self, running: OpenMindhold) -> None:
        """Index the captured transcripts at once. If that fails, a later run of the indexer makes up for it."""
        from mindhold.history.index import INDEX_HISTORY
        from mindhold.history.passages import EMBED_HISTORY
        from mindhold.interfaces.runtime import call_operation
        from mindhold.model.errors import MindholdError

        files = [name for name in self._transcripts if Path(name).is_absolute()]
        self._transcripts.clear()
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
        except Exception as error:  # the capture must not fail for it
            log.exception("conversations are not indexed")
            _note(self._home, type(error).__name__)

    async def _write_hook_caches(self, running: OpenMindhold, *, others: bool = False) -> None:
        from mindhold.capture.hook_cache import MAKE_HOOK_CACHE
        from mindhold.interfaces.runtime import call_operation
        from mindhold.model.errors import MindholdError

        try:
            # At the end of the time this may be called twice.
            async with asyncio.timeout(max(LAST_SECONDS * 0.4, self.left)):
                for agent, folders in self._folders.items():
                    every = others and not agent  # one call makes those of all agents
                    if folders or every:
                        # The first caches must not wait for the words.
                        options = {"folders": list(folders), "others": every, "words": others}
                        await call_operation(running, MAKE_HOOK_CACHE, caller=_caller(agent), **options)
                    folders.clear()
        except (MindholdError, OSError, TimeoutError) as error:
            log.warning("hook caches were not made: %s", getattr(error, "code", type(error).__name__))
        already_shown.remove_old_shown(self._home)
        server.remove_stale_servers(self._home)
        event_queue.remove_old_events(self._home)

    async def _ran_a_job(self, running: OpenMindhold) -> bool:
        """Run one due job, unless a server of this home does that. Whether one ran."""
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


class SettingsFile:
    """The settings file as it was when a run began, so that the run sees that it was changed since."""

    def __init__(self, home: str) -> None:
        from mindhold.settings.schema import Settings

        self._path = Settings(home=Path(home)).config_file
        self._state = self._look()

    @property
    def is_changed(self) -> bool:
        """Whether it was written, made or removed since."""
        return self._look() != self._state

    def _look(self) -> tuple[int, ...]:
        try:
            facts = self._path.stat()
        except OSError:
            return ()
        return facts.st_ino, facts.st_size, facts.st_mtime_ns


async def _capture(running: OpenMindhold, event: Event, options: Event) -> CaptureResult | None:
    """Capture the conversation of an event; None if it has none. Raises MindholdError."""
    from mindhold.capture.capture import CAPTURE
    from mindhold.interfaces.runtime import call_operation
    from mindhold.settings.sections import comma_list

    names = ("conversation", "file", "event", "folder", "last_message", "subagent")
    fields: dict[str, Any] = {name: _text(event, name) for name in names} | options
    # Without a folder the transcript names it.
    if not fields["file"] or not (fields["folder"] or Path(fields["file"]).is_file()):
        return None
    fields["exclude"] = list(comma_list(_text(event, "exclude")))
    for turn in range(LAGS):
        if turn == LAGS - 1:
            fields["last_message"] = ""  # it won't come any more
        done = await call_operation(running, CAPTURE, caller=_caller(_text(event, "agent")), **fields)
        if not done.lags:
            return done
        await asyncio.sleep(LAG_SECONDS)
    return done


def _caller(agent: str) -> Caller | None:
    """The caller for an agent; None for the home's own."""
    from mindhold.model.scope import Caller

    return Caller(agent) if agent else None


def _latest_events(events: Iterable[WaitingEvent]) -> list[WaitingEvent]:
    """The event that stands for each conversation, the oldest first. The files of its other events are removed."""
    latest: dict[tuple[str, ...], WaitingEvent] = {}
    outdated = []
    for file, event in events:
        names = ["event", "agent", "folder"]
        if event.get("event") in EVENTS:
            names = ["agent", "conversation", "file", "subagent", "exclude"]
        group = tuple(_text(event, name) for name in names)
        earlier = latest.get(group)
        if earlier is None or _rank(event) >= _rank(earlier[1]):
            latest[group] = file, event
            outdated += [earlier[0]] if earlier else []
        else:
            outdated.append(file)
    for file in outdated:
        event_queue.remove_event(file)
    return list(latest.values())


def _last_of_each(batch: Iterable[WaitingEvent]) -> set[str]:
    """The files of the last conversation of each project, after which the project is condensed and its documents written."""
    latest: dict[tuple[str, str], WaitingEvent] = {}
    for file, event in batch:
        project = _text(event, "agent"), _text(event, "folder")
        if project not in latest or _rank(event) >= _rank(latest[project][1]):
            latest[project] = file, event
    return {file for file, _ in latest.values()}


def _rank(event: Event) -> int:
    name = event.get("event")
    return EVENTS.index(name) if name in EVENTS else -1


def _text(event: Event, name: str) -> str:
    value = event.get(name)
    return value if isinstance(value, str) else ""


def _untried(home: str, tried: set[str]) -> list[WaitingEvent]:
    return [(file, event) for file, event in event_queue.all_events(home) if file not in tried]


def _put_off(home: str, tried: set[str]) -> None:
    """Leave all untried events waiting, without counting an attempt."""
    tried.update(file for file, _ in _latest_events(_untried(home, tried)))


def _count_attempt(file: str, event: Event) -> None:
    """Count a failed attempt; after some of them the event is put aside."""
    with suppress(OSError):
        event_queue.note_failed_event(file, event)


def _note(home: str, problem: str) -> None:
    """Write an error code to worker.log; never any text of a conversation."""
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
