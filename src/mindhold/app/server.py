"""Starts the long-running servers: MCP over stdio, and everything over HTTP."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import time
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

from mindhold.aio import cancel_tasks
from mindhold.hooks.server import unregister_server
from mindhold.interfaces.cli.session import StartObserver
from mindhold.interfaces.hooks.server import serve_hooks
from mindhold.interfaces.logs import logging_to
from mindhold.interfaces.mcp.requests import LazyEngine
from mindhold.interfaces.mcp.server import McpServer
from mindhold.interfaces.runtime import OpenMindhold, call_operation, local_caller
from mindhold.model.errors import InvalidInput, MindholdError, SettingsError, StoreAway, StoreBusy, StoreFull
from mindhold.settings.loader import LoadedSettings, home_agent, is_hosted, load_settings

log = logging.getLogger("mindhold.doors")
FIRST_OPEN_SECONDS = 20.0
FIRST_UPKEEP_SECONDS = 5.0
UPKEEP_SECONDS = 30.0
SOON_SECONDS = 5.0  # the shortest time between two runs of jobs
WATCH_SECONDS = 2.0
CATCH_UP_SECONDS = 60.0  # between two starts of the background indexer
JOBS_AT_ONCE = 50
JOBS_SECONDS = 10.0  # for one run of jobs; then the hook caches are written
PRESENCE_REPORTS = 4  # in the time after which a silent conversation counts as over


async def run_stdio(loaded: LoadedSettings) -> None:
    """Serve MCP to the client that started this process, until it ends the connection."""
    from mindhold.interfaces.mcp.stdio import serve_stdio

    loaded = replace(loaded, hosted=is_hosted())
    opening = LazyEngine(lambda: _engine(loaded))
    server = McpServer(opening, settings=loaded.settings, local=local_caller(loaded))
    with logging_to(loaded.settings):
        await _serve_stdio(serve_stdio(server), server, opening, loaded)


async def _serve_stdio(
    work: Coroutine[Any, Any, None], server: McpServer, opening: LazyEngine, loaded: LoadedSettings
) -> None:
    async with _background(opening, server, loaded):
        serving = asyncio.create_task(work)
        stopped = asyncio.create_task(_stop_signal())
        await asyncio.wait({serving, stopped}, return_when=asyncio.FIRST_COMPLETED)
        await server.end_conversations()
        if not serving.done():
            await opening.close()
            unregister_server(str(loaded.settings.home))
            os._exit(0)  # the thread that reads stdin can't be stopped
        stopped.cancel()
    await opening.close()
    await serving


async def run_http(loaded: LoadedSettings, *, start: StartObserver) -> None:
    """Serve everything on one port until a signal to stop. Raises SettingsError, and StoreError for faults that waiting won't mend."""
    from mindhold.interfaces.http.health import Metrics
    from mindhold.interfaces.http.server import bind, http_app, http_server, shown_address
    from mindhold.interfaces.http.shutdown import Shutdown
    from mindhold.interfaces.mcp.http import McpHttp

    settings, metrics = loaded.settings, Metrics()
    opening = LazyEngine(lambda: _engine(loaded))
    server = McpServer(
        opening,
        settings=settings,
        local=local_caller(loaded),
        observe=metrics.observe_tool,
        spent=metrics.observe_model,
    )
    metrics.count_sessions(lambda: len(server.conversations))
    mcp = McpHttp(server, opening, settings=settings.serve)
    stopping = Shutdown(also=server.listening.close)
    app = http_app(
        opening,
        loaded=loaded,
        mcp_routes=mcp.routes(),
        mcp_lifespan=mcp.run,
        metrics=metrics,
        stopping=stopping,
    )
    sockets = bind(settings.serve)
    listener = http_server(
        app, settings=settings.serve, stopping=stopping, ready=lambda: start.ready(shown_address(sockets))
    )
    try:
        with logging_to(settings):
            await _open_first(opening, start)
            async with _background(opening, server, loaded, _watch_history(opening, loaded)):
                await listener.serve(sockets)
    finally:
        for each in sockets:
            each.close()
        await opening.close()


async def _open_first(opening: LazyEngine, start: StartObserver) -> None:
    """Open the store. If its server is away the start goes on, and each request tries again; other faults end the start."""
    try:
        async with asyncio.timeout(FIRST_OPEN_SECONDS):
            running = await opening.running()
    except (StoreAway, StoreBusy, StoreFull) as error:
        start.away(error)
    except TimeoutError:
        start.away(StoreBusy("The store takes long to open."))
    else:
        await start.opened(running)


@asynccontextmanager
async def _engine(loaded: LoadedSettings) -> AsyncIterator[OpenMindhold]:
    """The open application. Its modules are imported in a thread, so that the server answers meanwhile."""
    try:
        app = await asyncio.to_thread(import_module, "mindhold.app.application")
    finally:
        gc.freeze()  # what was imported stays, so no collection needs to look through it
        gc.enable()
    async with app.open_app(loaded) as running:
        names = [scope.name for scope in await running.engine.store.scopes()]
        await _make_scope(running, names)
        yield running


async def _make_scope(running: OpenMindhold, names: Sequence[str]) -> None:
    """Create the scope that the server works in, if there is none of that name. Raises SettingsError."""
    name = running.loaded.settings.scope
    if name in names:
        return
    alike = [other for other in names if other.casefold() == name.casefold()]
    if alike:
        raise SettingsError(
            f"There is no scope {name!r}, but {alike[0]!r}.", advice=f"Say --scope {alike[0]!r}."
        )
    from mindhold.projects.scope_operations import CREATE_SCOPE

    await call_operation(running, CREATE_SCOPE, name=name, kind="project")


async def _upkeep(opening: LazyEngine, server: McpServer) -> None:
    """Run due jobs every few seconds, and note less often which conversations are still open."""
    if opening.opened is None:
        await asyncio.sleep(FIRST_UPKEEP_SECONDS)
    else:
        await opening.opened.await_urgent_job(FIRST_UPKEEP_SECONDS)
    reported = time.monotonic()
    while True:
        running = opening.opened
        if running is not None:
            try:
                session_ttl = running.loaded.settings.serve.session_ttl.total_seconds()
                if time.monotonic() - reported > session_ttl / PRESENCE_REPORTS:
                    reported = time.monotonic()
                    await server.keep_conversations()
                from mindhold.jobs.queue import RUN_JOBS  # loads every feature: not before the first answers

                done = await call_operation(running, RUN_JOBS, most=JOBS_AT_ONCE, seconds=JOBS_SECONDS)
                await running.refresh_hook_caches()
                if done.more:
                    continue
            except MindholdError as error:  # such as a busy store: the next run tries again
                log.warning("upkeep: %s", error.code)
            except Exception:  # the outermost handler of this task, which must go on
                log.exception("upkeep failed")
        ran_at = time.monotonic()
        if running is None:
            await asyncio.sleep(SOON_SECONDS)
            continue
        await running.await_job(await _until_due(running))
        # At most one run in SOON_SECONDS, however often a job is queued, unless somebody waits for one.
        await running.await_urgent_job(ran_at + SOON_SECONDS - time.monotonic())


async def _serve_hooks(opening: LazyEngine, loaded: LoadedSettings) -> None:
    """Answer the hooks of this home that belong to this process's agent, once hooks are installed."""
    home, agent = loaded.settings.home, loaded.settings.agent
    agents = (agent, "") if agent == home_agent(loaded) else (agent,)
    while True:
        if (home / "hooks").is_dir():
            async with serve_hooks(lambda: opening.opened, home, agents=agents):
                await asyncio.Event().wait()
        await asyncio.sleep(WATCH_SECONDS)


async def _catch_up(opening: LazyEngine) -> None:
    """Start the background indexer when more transcripts wait than a query may read."""
    while True:
        running = opening.opened
        if running is not None:
            await running.await_history_behind()
            await running.index_in_background()
            await asyncio.sleep(CATCH_UP_SECONDS)
        await asyncio.sleep(WATCH_SECONDS)


async def _watch_history(opening: LazyEngine, loaded: LoadedSettings) -> None:
    """Index transcripts while they are written."""
    chosen = loaded.settings.history
    while chosen.enabled and chosen.watch:
        running = opening.opened
        if running is not None:
            module = await asyncio.to_thread(import_module, "mindhold.app.history_index")
            try:
                await module.keep_current(running)
            except Exception:  # the outermost handler of this task, which must go on
                log.exception("conversations are not watched")
                await asyncio.sleep(CATCH_UP_SECONDS)
        await asyncio.sleep(WATCH_SECONDS)


async def _until_due(running: OpenMindhold) -> float:
    """Seconds until the next waiting job is due, within the bounds of SOON_SECONDS and UPKEEP_SECONDS."""
    from mindhold.jobs.queue import LIST_JOBS

    try:
        waiting = await call_operation(running, LIST_JOBS, states=["waiting"], limit=JOBS_AT_ONCE)
    except MindholdError:  # the run of jobs logs it
        return UPKEEP_SECONDS
    now = datetime.now(UTC)
    soonest = min(((job.due - now).total_seconds() for job in waiting.jobs), default=UPKEEP_SECONDS)
    return min(UPKEEP_SECONDS, max(SOON_SECONDS, soonest))


async def _follow_settings(server: McpServer, loaded: LoadedSettings) -> None:
    """Serve other toolsets as soon as the settings file names them."""
    path = loaded.settings.config_file
    if loaded.sources.get("toolsets", str(path)) != str(path):
        return  # an argument or the environment decides
    seen = _modified(path)
    while True:
        await asyncio.sleep(WATCH_SECONDS)
        now = _modified(path)
        if now == seen:
            continue
        seen = now
        try:
            await server.serve_toolsets(load_settings({"home": str(loaded.settings.home)}).settings.toolsets)
        except (SettingsError, InvalidInput) as error:  # half written, or wrong: the toolsets stay
            log.warning("the settings can't be followed: %s", error.code)
        except Exception:  # the outermost handler of this task
            log.exception("the settings can't be followed")


def _modified(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


async def _stop_signal() -> None:
    """Wait for a signal to stop."""
    loop, received = asyncio.get_running_loop(), asyncio.Event()
    for name in ("SIGTERM", "SIGINT", "SIGHUP"):  # some clients send several at once
        number = getattr(signal, name, None)
        if number is None:
            continue
        try:
            loop.add_signal_handler(number, received.set)
        except NotImplementedError:  # Windows
            signal.signal(number, lambda _number, _frame: loop.call_soon_threadsafe(received.set))
    await received.wait()


@asynccontextmanager
async def _background(
    opening: LazyEngine, server: McpServer, loaded: LoadedSettings, *more: Coroutine[Any, Any, None]
) -> AsyncIterator[None]:
    """Run what both servers do beside answering, and `more`, until the end of the context."""
    work = (
        _upkeep(opening, server),
        _follow_settings(server, loaded),
        _serve_hooks(opening, loaded),
        _catch_up(opening),
        *more,
    )
    tasks = [asyncio.create_task(each) for each in work]
    try:
        yield
    finally:
        await cancel_tasks(*tasks)
        await asyncio.gather(*tasks, return_exceptions=True)
