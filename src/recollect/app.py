"""The composition root: settings in, engine out."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from recollect.bare.files import HOOKS
from recollect.classifying import classifier_of
from recollect.engine.capture.place import scope_of_folder
from recollect.engine.core import Engine, Policy
from recollect.engine.embed import follow_model
from recollect.engine.uses import UseCounter
from recollect.housing import houses_of
from recollect.housing_redis import address_of, company
from recollect.languages import language_model
from recollect.meanings import meaning_of
from recollect.model.access import Caller
from recollect.model.capture import CAPTURED_KINDS, Capture
from recollect.model.errors import NotFound, RecollectError, Refused, SettingsError, StoreError, StoreReadOnly
from recollect.model.ids import IdMaker
from recollect.model.life import Life
from recollect.model.memory import Kind
from recollect.model.scope import GLOBAL
from recollect.operations.activity import done_by, finish_notes, note_done
from recollect.operations.admission import admitted, speaking
from recollect.operations.catalogue import Call, Effect, Input, Operation, Output, no_progress
from recollect.ports.cache import Aside
from recollect.ports.houses import LOCAL, Houses
from recollect.ports.llm import LanguageModel, OwnModel
from recollect.ports.store import Finding, Store
from recollect.providers.embedding.shelf import LocalShelf
from recollect.providers.transcripts.claude import ClaudeTranscripts
from recollect.settings import LoadedSettings, load_settings
from recollect.settings.capture import CaptureSettings, listed
from recollect.settings.declared import LifeSettings, Settings
from recollect.stores.routed.store import Routed
from recollect.stores.sqlite.leftover import Leftover, leftover

I = TypeVar("I", bound=Input)  # noqa: E741
O = TypeVar("O", bound=Output)  # noqa: E741
QUEUE_WORK = "run_jobs"  # the operation that queues are worked off by, which stirs nobody
LEAFLETS_SECONDS = 20.0
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class App:
    """A running Recollect."""

    engine: Engine
    loaded: LoadedSettings
    stirred: asyncio.Event = field(default_factory=asyncio.Event)  # by what may have queued a job
    written: asyncio.Event = field(default_factory=asyncio.Event)  # by what may have changed memories

    def warm(self, *, patient: bool = True) -> None:
        """Say that meaning will be needed: the model loads while the caller gets ready, or answers by words alone."""
        self.engine.meaning.warm(patient=patient)

    async def run(
        self,
        operation: Operation[I, O],
        given: I,
        *,
        progress: Callable[[str, int, int | None], None] = no_progress,
        caller: Caller | None = None,
        model: LanguageModel | None = None,
        conversation: str | None = None,
        agent: str | None = None,
        tool: str | None = None,
    ) -> O:
        """One operation, as the agent of the settings unless a door says who calls; `agent` is whom the call names.

        `tool` is what the caller knows it by. Raises RecollectError.
        """
        who = speaking(caller or Caller(self.loaded.settings.agent), agent)
        engine = admitted(self.engine, operation, who)
        if operation.effect is not Effect.READS and operation.name != QUEUE_WORK:
            self.written.set()  # also by one that fails half-way
        answer = await operation.run(Call(engine, who.agent, progress, model, conversation, who.owner), given)
        if operation.effect is not Effect.READS and operation.name != QUEUE_WORK:
            self.stirred.set()
        if operation.name == QUEUE_WORK and getattr(answer, "ran", False):
            self.written.set()
        if conversation is not None:
            done = done_by(operation, answer, tool=tool)
            note_done(engine, operation, done, conversation=conversation, caller=who)
        return answer

    async def keep_leaflets(self) -> None:
        """Make anew what hooks hand out, if something was written since, and hooks are used at all. Never raises."""
        if not self.written.is_set():
            return
        self.written.clear()
        if not (self.engine.policy.home / "hooks" / "leaflets").is_dir():
            return
        from recollect.engine.capture.leaflet import make_leaflets  # for those who have hooks

        try:
            async with asyncio.timeout(LEAFLETS_SECONDS):
                await make_leaflets(self.engine, agent=self.engine.policy.agent)
        except (
            RecollectError,
            OSError,
            TimeoutError,
        ) as error:  # what is there is a little old; there will be another time
            log.warning("leaflets are not fresh: %s", getattr(error, "code", type(error).__name__))

    async def await_job(self, seconds: float) -> bool:
        """Until a job is queued, here or by another server, at most so long. Whether one was."""
        waits = (self.engine.aside.bell.wait(seconds), self.stirred.wait())
        tasks = [asyncio.create_task(one) for one in waits]
        try:
            await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            return any(task.done() and task.result() for task in tasks)
        finally:
            self.stirred.clear()
            for task in tasks:
                task.cancel()


@asynccontextmanager
async def open_app(
    loaded: LoadedSettings | None = None, *, houses: Houses | None = None
) -> AsyncIterator[App]:
    """Open the store and put the engine together; close it at the end. Raises the store's errors, SettingsError.

    `houses` are those of the settings unless given.
    """
    loaded = loaded or load_settings()
    settings = loaded.settings
    make_home(settings.home)
    houses = houses or houses_of(settings, clock=utc_now)
    store = Routed(houses, clock=utc_now)
    await store.open()
    try:
        async with company(settings, store) as (followed, aside):
            model = language_model(settings)
            engine = await _engine(settings, followed, aside, houses, model)
            loaded, engine = await _in_its_project(loaded, engine)
            app = App(engine, loaded)
            try:
                yield app
            finally:
                await app.keep_leaflets()
                await finish_notes(engine)
                await engine.uses.flush()
                await engine.meaning.close()
                if model is not None:
                    await model.close()
    finally:
        await store.close()


def left_in_file(loaded: LoadedSettings) -> Leftover:
    """What the local file holds of the agent's, whatever the store is now."""
    return leftover(loaded.settings.database, agent=loaded.settings.agent)


async def diagnose_store(loaded: LoadedSettings) -> list[Finding]:
    """What can be said of a database that can't be opened, and of what stands beside it."""
    settings = loaded.settings
    beside = [await _tried_beside(settings)] if settings.redis.enabled else []
    if settings.store.mode != LOCAL:
        return [await _tried(settings), *beside]
    from recollect.stores.sqlite.salvage import diagnose

    return [*await asyncio.to_thread(diagnose, settings.database), *beside]


async def salvage_store(loaded: LoadedSettings) -> list[str]:
    """Put what can be read of a damaged database in its place; the damaged file is kept aside. Says what it did.

    Raises StoreBusy while another process uses it, StoreDamaged when nothing can be read, SchemaTooNew, Refused for a
    server's database.
    """
    if loaded.settings.store.mode != LOCAL:
        raise Refused(
            f"The files of {loaded.settings.store.mode} are its server's.", advice="Restore a backup there."
        )
    from recollect.stores.sqlite.salvage import rescue

    path = loaded.settings.database
    saved = await asyncio.to_thread(rescue, path, now=utc_now())
    return [f"saved {saved.memories} memories into {path}", f"kept the damaged file as {saved.aside}"]


async def _tried(settings: Settings) -> Finding:
    """A server says more when it is asked again than any look from outside."""
    houses, mode = houses_of(settings, clock=utc_now), settings.store.mode
    try:
        await houses.house(mode)
    except (StoreError, SettingsError) as error:
        return Finding(mode, False, f"{error.code}: {error.message}", error.advice)
    finally:
        await houses.close()
    return Finding(mode, True, "it answers now")


async def _tried_beside(settings: Settings) -> Finding:
    from recollect.stores.redis.line import Line  # for those who have one

    try:
        line = Line(address_of(settings.redis))
        await line.open()
        await line.close()
    except (StoreError, SettingsError) as error:
        return Finding("redis", False, f"{error.code}: {error.message}", error.advice)
    if line.fault is not None:
        return Finding("redis", False, f"{line.fault.code}: {line.fault.message}", line.fault.advice)
    return Finding("redis", True, "it answers")


def utc_now() -> datetime:
    """The present instant."""
    return datetime.now(UTC)


def make_home(home: Path) -> None:
    """The home folder, for its owner only. Raises StoreReadOnly."""
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name in ("data", "models", "backups", "logs", "export"):
            (home / name).mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise StoreReadOnly(
            f"The home folder {home} can't be made: {error.strerror}.",
            advice="Choose another with RECOLLECT_HOME.",
        ) from error


async def _engine(
    settings: Settings, store: Store, aside: Aside, houses: Houses, model: OwnModel | None
) -> Engine:
    shelf = LocalShelf(settings.models_dir)
    new_id = IdMaker(utc_now, secrets.randbits)
    engine = Engine(
        store=store,
        meaning=await meaning_of(settings, store, shelf, clock=utc_now, new_id=new_id, cache=aside.cache),
        models=shelf,
        clock=utc_now,
        new_id=new_id,
        zone=lambda: person_zone(settings.time_zone),
        uses=UseCounter(store, utc_now),
        policy=_policy(settings),
        transcripts=ClaudeTranscripts(settings.claude_dir),
        ledger=store,
        houses=houses,
        aside=aside,
        llm=model,
        classifier=classifier_of(settings, shelf),
    )
    with suppress(StoreError):  # a busy or full store is no reason not to answer; the next start tries again
        await follow_model(engine)
    return engine


async def _in_its_project(loaded: LoadedSettings, engine: Engine) -> tuple[LoadedSettings, Engine]:
    """In the scope of the project that the call's folder is, unless somebody named one.

    Where hooks are at work and a client works in the folder, it becomes a project now: what is said before the first
    capture belongs to it too.
    """
    if loaded.folder is None or not loaded.scope_is_usual:
        return loaded, engine
    create = loaded.hosted and (loaded.settings.home / HOOKS).is_dir()
    try:
        scope = await scope_of_folder(engine, loaded.folder, create=create)
    except (NotFound, Refused):  # a folder that is gone, a project that is put away
        scope = None
    if scope is None or scope == GLOBAL:
        return loaded, engine
    return loaded.within(scope), replace(engine, policy=replace(engine.policy, scope=scope))


def _policy(settings: Settings) -> Policy:
    intake, recall = settings.intake, settings.recall
    return Policy(
        export_dir=settings.export_dir,
        home=settings.home,
        agent=settings.agent,
        scope=settings.scope,
        date_order=settings.date_order,
        longest=intake.longest,
        part_length=intake.part_length,
        redact=intake.redact,
        noise_gate=intake.noise_gate,
        link_threshold=intake.link_threshold,
        near_duplicate=intake.near_duplicate,
        most_links=intake.most_links,
        limit=recall.limit,
        floor=None if recall.floor < 0 else recall.floor,
        local_model=settings.embedding.provider == "local",
        longest_hit=recall.longest_hit,
        longest_answer=recall.longest_answer,
        daily_tokens=settings.llm.daily_tokens,
        daily_dollars=settings.llm.daily_dollars,
        importance_weight=recall.importance_weight,
        recency_weight=recall.recency_weight,
        composite_from=recall.composite_from,
        most_linked=recall.most_linked,
        session_ttl=timedelta(minutes=settings.serve.session_ttl_minutes),
        reflect=settings.life.reflect,
        life=_life(settings.life),
        capture=_capture(settings.capture),
    )


def _life(life: LifeSettings) -> Life:
    return Life(
        stale_days={
            Kind.PROCEDURE: life.stale_days_procedure,
            Kind.FACT: life.stale_days_fact,
            Kind.DECISION: life.stale_days_decision,
        },
        other_stale_days=life.stale_days_other,
        hot_days=life.hot_days,
        archive_below=life.archive_below,
        keep_archived_days=life.keep_archived_days,
        anchor_uses=life.anchor_uses,
        anchor_importance=life.anchor_importance,
        batch=life.batch,
        seconds=float(life.seconds),
        consolidate_hours=life.consolidate_hours,
    )


def _capture(chosen: CaptureSettings) -> Capture:
    return Capture(
        enabled=chosen.enabled,
        kinds=frozenset(Kind(name) for name in listed(chosen.kinds)) or CAPTURED_KINDS,
        exclude=listed(chosen.exclude),
        subagents=chosen.subagents,
        by_model=chosen.extract_with == "model",
        most_calls=chosen.most_calls,
        start_tokens=chosen.start_tokens,
        prompt_tokens=chosen.prompt_tokens,
        prompt_most=chosen.prompt_most,
        errors=chosen.errors,
        condense_every=chosen.condense_every,
        condense_above=chosen.condense_above,
        condense_from=chosen.condense_from,
        keep_dropped_days=chosen.keep_dropped_days,
        document_lines=chosen.document_lines,
    )


@cache
def person_zone(name: str) -> ZoneInfo:
    """The person's time zone; without a name the machine's."""
    if name:
        return ZoneInfo(name)
    from tzlocal import get_localzone_name

    with suppress(ZoneInfoNotFoundError, ValueError, OSError):
        return ZoneInfo(get_localzone_name() or "UTC")
    return ZoneInfo("UTC")
