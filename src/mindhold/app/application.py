"""The application: settings in, a running engine out."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from mindhold.access.authorization import admitted_engine, as_agent
from mindhold.app.providers import classifier_of, language_model, rlm_server, transcripts_of, vector_source_of
from mindhold.app.stores import (
    SettingsSites,
    advise_restore,
    make_home,
    make_store_registry,
    utc_now,
    with_sidecar,
)
from mindhold.capture.project_folder import scope_of_folder
from mindhold.conversations.activity import call_activity_of, flush_activity, note_call_activity
from mindhold.engine import Engine, UseCounter
from mindhold.hooks.files import HOOKS
from mindhold.interfaces.runtime import I, O, ProgressCallback
from mindhold.memories.embedding import follow_model, prepare_questions
from mindhold.memories.idempotency import run_once
from mindhold.model.errors import MindholdError, NotFound, Refused, SettingsError, StoreError
from mindhold.model.memory import IdMaker
from mindhold.model.scope import EVERYONE, GLOBAL, Caller
from mindhold.operations import Context, Effect, Operation, do_nothing, no_progress
from mindhold.ports.backend import StoreRegistry
from mindhold.ports.cache import Sidecar
from mindhold.ports.history import NoHistory
from mindhold.ports.llm import LanguageModel, OwnModel
from mindhold.ports.store import Store
from mindhold.providers.model_registry import LocalModelRegistry
from mindhold.settings.loader import LoadedSettings, home_agent, load_settings
from mindhold.stores.history.archive import GzipArchive
from mindhold.stores.history.index import SqliteHistory
from mindhold.stores.routed.store import RoutedStore
from mindhold.stores.sqlite.connection import FileContents, contents_of_file

PER_CALL_SETTINGS = ("scope", "agent", "toolsets")  # a background worker does not depend on them
FEW_CACHES = 5  # hook caches that a call writes itself before it ends; more are left to the worker
HOOK_CACHE_SECONDS = 20.0
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class App:
    """A running Mindhold. OpenMindhold says what its methods promise."""

    engine: Engine
    loaded: LoadedSettings
    job_queued: asyncio.Event = field(default_factory=asyncio.Event)  # set: a call may have queued a job
    written: set[str] = field(default_factory=set)  # scopes whose memories may have changed; Global means all
    preparing: list[asyncio.Task[None]] = field(default_factory=list)  # one, once questions are expected

    def warm(self, *, wait_seconds: float | None = None) -> None:
        self.engine.vector_source.warm(wait_seconds=wait_seconds)
        if not self.preparing:
            self.preparing.append(asyncio.create_task(prepare_questions(self.engine)))

    async def prepared(self) -> None:
        """Wait for what warm() started, before the store is closed."""
        await asyncio.gather(*self.preparing, return_exceptions=True)

    async def run(
        self,
        operation: Operation[I, O],
        given: I,
        *,
        progress: ProgressCallback = no_progress,
        caller: Caller | None = None,
        model: LanguageModel | None = None,
        conversation: str | None = None,
        agent: str | None = None,
        tool: str | None = None,
        key: str | None = None,
        on_repeat: Callable[[], None] = do_nothing,
    ) -> O:
        """Run one operation for `caller`, by default the agent of the settings; `agent` is the agent that the call names.

        `tool` is the name that the caller used. A writing call with the `key` of an earlier call gets the earlier answer,
        and `on_repeat` is called. Raises MindholdError.
        """
        who = as_agent(caller or Caller(self.loaded.settings.agent), agent)
        engine = admitted_engine(self.engine, operation, who)
        if operation.changes_memories:
            scope = getattr(given, "scope", None) or engine.settings.scope
            # Also when it fails half-way. Global means all: only of `remember` is the scope known.
            self.written.add(scope if operation.name == "remember" else GLOBAL)
        if operation.refreshes_hook_caches and getattr(given, "others", False):
            self.written.clear()
        call = Context(engine, who.agent, progress, model, conversation, who.owner)
        # An interface's own questions, such as a health check, are no calls of a client.
        is_call = caller is not None and caller.agent != EVERYONE
        with self.engine.idle_tracker.busy(self.engine.clock) if is_call else nullcontext():
            if key is None:
                answer = await operation.run(call, given)
            else:
                answer = await run_once(call, operation, given, key=key, on_repeat=on_repeat)
        if operation.effect is not Effect.READS:
            if not operation.runs_jobs:
                self.job_queued.set()
            if getattr(answer, "ran", True):  # a run of the queue that had nothing to do changed nothing
                self.engine.change_notifier.beat()
        if operation.runs_jobs and getattr(answer, "ran", False):
            self.written.add(GLOBAL)
        if conversation is not None:
            done = call_activity_of(operation, answer, tool=tool)
            note_call_activity(engine, operation, done, conversation=conversation, caller=who)
        return answer

    async def refresh_hook_caches(self, *, closing: bool = False) -> None:
        """Write the hook caches again if memories changed and hooks are in use. Never raises.

        When `closing`, many caches are left to the background worker.
        """
        touched = frozenset(self.written)
        self.written.clear()
        home = self.engine.settings.home
        if not touched or not (home / "hooks" / "leaflets").is_dir():
            return
        from mindhold.capture.hook_cache import affected_caches, make_hook_caches
        from mindhold.hooks.worker import start_cache_worker

        agent = self.loaded.settings.agent
        try:
            async with asyncio.timeout(HOOK_CACHE_SECONDS):
                many = closing and len(await affected_caches(self.engine, touched, agent=agent)) > FEW_CACHES
                if many and self._has_home_settings():
                    await asyncio.to_thread(start_cache_worker, str(home), agent)
                    return
                engine = self.engine
                if not closing:
                    engine = await asyncio.to_thread(self._with_current_capture_settings)
                await make_hook_caches(engine, agent=agent, scopes=touched)
        except (MindholdError, OSError, TimeoutError) as error:
            self.written.update(touched)  # tried again later
            log.warning("hook caches are not fresh: %s", getattr(error, "code", type(error).__name__))

    def _has_home_settings(self) -> bool:
        """Whether a background worker of this home would have the same settings, apart from those of a single call."""
        return all(key in PER_CALL_SETTINGS or key.startswith("serve.") for key in self._arguments())

    def _arguments(self) -> list[str]:
        """The settings that the call itself gave."""
        return [key for key, source in self.loaded.sources.items() if source == "argument"]

    def _with_current_capture_settings(self) -> Engine:
        """The engine with the capture settings as the file has them now; a server may have started long ago."""
        if any(key.startswith("capture.") for key in self._arguments()):
            return self.engine
        with suppress(SettingsError):  # the file is half written, or wrong
            now = load_settings({"home": str(self.loaded.settings.home)}).settings.capture
            return self.engine.with_settings(capture=now)
        return self.engine

    def conversation_roots(self) -> list[Path]:
        return self.engine.transcripts.roots()

    @property
    def history_behind(self) -> bool:
        return self.engine.history_behind.is_set()

    async def await_history_behind(self) -> None:
        await self.engine.history_behind.wait()
        self.engine.history_behind.clear()

    async def index_in_background(self) -> bool:
        """Start a low-priority process that indexes transcripts, unless one runs. False if none can be started."""
        if not self._has_home_settings():
            return False
        from mindhold.hooks.worker import start_indexer

        try:
            await asyncio.to_thread(start_indexer, str(self.engine.settings.home))
        except OSError as error:
            log.warning("conversations are not indexed in the background: %s", error.strerror)
            return False
        return True

    async def await_change(self, seen: int, seconds: float) -> int:
        return await self.engine.change_notifier.wait(seen, seconds=seconds)

    async def await_urgent_job(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.engine.urgent_job.wait()
        self.engine.urgent_job.clear()

    async def await_job(self, seconds: float) -> bool:
        waits = (self.engine.sidecar.bell.wait(seconds), self.job_queued.wait())
        tasks = [asyncio.create_task(wait) for wait in waits]
        try:
            await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            return any(task.done() and task.result() for task in tasks)
        finally:
            self.job_queued.clear()
            for task in tasks:
                task.cancel()


@asynccontextmanager
async def open_app(
    loaded: LoadedSettings | None = None, *, store_registry: StoreRegistry | None = None
) -> AsyncIterator[App]:
    """Open the store and put the engine together; close it at the end. Raises the store's errors, SettingsError.

    `store_registry` replaces the one that the settings describe.
    """
    loaded = loaded or load_settings()
    settings = loaded.settings
    make_home(settings.home, database=settings.database)
    registry = store_registry or make_store_registry(settings, clock=utc_now)
    store = RoutedStore(registry, clock=utc_now)
    with advise_restore(settings.home):
        await store.open()
    try:
        async with with_sidecar(settings, store) as (followed, sidecar):
            model = language_model(settings)
            engine = await _engine(loaded, followed, sidecar, registry, model)
            loaded, engine = await _in_project(loaded, engine)
            app = App(engine, loaded)
            # Closed from the last to the first, even if one of them fails.
            async with AsyncExitStack() as closing:
                if engine.rlm is not None:
                    closing.push_async_callback(engine.rlm.close)
                if model is not None:
                    closing.push_async_callback(model.close)
                closing.callback(engine.history.close)
                closing.push_async_callback(engine.vector_source.close)
                closing.push_async_callback(app.prepared)
                closing.push_async_callback(engine.use_counter.flush)
                closing.push_async_callback(flush_activity, engine)
                closing.push_async_callback(app.refresh_hook_caches, closing=True)
                yield app
    finally:
        await store.close()


def file_contents(loaded: LoadedSettings) -> FileContents:
    """What the local file holds of the agent's memories, whichever store is configured."""
    return contents_of_file(loaded.settings.database, agent=loaded.settings.agent)


async def _engine(
    loaded: LoadedSettings, store: Store, sidecar: Sidecar, registry: StoreRegistry, model: OwnModel | None
) -> Engine:
    settings = loaded.settings
    models = LocalModelRegistry(settings.models_dir)
    new_id = IdMaker(utc_now, secrets.randbits)
    engine = Engine(
        store=store,
        vector_source=await vector_source_of(
            settings, store, models, clock=utc_now, new_id=new_id, cache=sidecar.cache
        ),
        models=models,
        clock=utc_now,
        new_id=new_id,
        zone=lambda: person_zone(settings.time_zone),
        use_counter=UseCounter(store, utc_now),
        settings=settings,
        home_agent=home_agent(loaded),
        tells_hooks=loaded.sources.get("store.path") != "argument",
        transcripts=transcripts_of(settings),
        history=SqliteHistory(settings.history_index)
        if settings.history.enabled
        else NoHistory(withheld=False),
        archive=GzipArchive(settings.archive_dir),
        ledger=store,
        store_registry=registry,
        backend_sites=SettingsSites(settings, clock=utc_now),
        sidecar=sidecar,
        llm=model,
        rlm=rlm_server(settings),
        classifier=classifier_of(settings, models),
    )
    with suppress(StoreError):  # a busy or full store must not prevent the start; the next one tries again
        await follow_model(engine)
    return engine


async def _in_project(loaded: LoadedSettings, engine: Engine) -> tuple[LoadedSettings, Engine]:
    """The settings and the engine in the scope of the folder's project, unless a scope was named.

    Where hooks are in use and a client works in the folder, the project is created now, so that what is stored before the
    first capture belongs to it too.
    """
    if loaded.folder is None or not loaded.scope_is_usual:
        return loaded, engine
    create = loaded.hosted and (loaded.settings.home / HOOKS).is_dir()
    scope = None
    with suppress(NotFound, Refused):  # the folder is gone, or the project archived
        scope = await scope_of_folder(engine, loaded.folder, create=create)
    if scope is None or scope == GLOBAL:
        return loaded, engine
    return loaded.within(scope), engine.with_settings(scope=scope)


@cache
def person_zone(name: str) -> ZoneInfo:
    """The user's time zone; without a name the machine's."""
    if name:
        return ZoneInfo(name)
    from tzlocal import get_localzone_name

    with suppress(ZoneInfoNotFoundError, ValueError, OSError):
        return ZoneInfo(get_localzone_name() or "UTC")
    return ZoneInfo("UTC")
