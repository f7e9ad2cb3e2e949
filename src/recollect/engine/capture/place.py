"""Which project a folder is."""

from __future__ import annotations

from pathlib import Path

from recollect.bare.folders import identity as identity_at
from recollect.engine.capture.alone import alone
from recollect.engine.core import Engine
from recollect.engine.housing import create_project
from recollect.engine.projects import PROJECT
from recollect.engine.scopes import PATHS
from recollect.model.entry import Entry
from recollect.model.errors import Conflict, Refused
from recollect.model.memory import ANY_STATUS
from recollect.model.query import Filter
from recollect.model.scope import GLOBAL, LONGEST_NAME

MOST_PROJECTS = 10_000
MOST_NAMESAKES = 1_000
GIT = ".git"


async def scope_of_folder(engine: Engine, folder: str, *, create: bool) -> str | None:
    """The scope of the project that the folder, or the nearest one above it, is; None where there is none.

    With `create` one is made for it, named like the folder. Only then raises NotFound for a folder that isn't there, and
    Refused for a project that is deactivated.
    """
    identity = identity_at(folder)  # also of a folder that has gone
    known = await _known(engine)
    if (found := _nearest(identity, folder, known)) or not create:
        return found
    return await _made(engine, folder, identity)


async def _known(engine: Engine, *, active: bool = True) -> dict[str, str]:
    """Names of the projects that are in use, or that aren't, by identity."""
    names = {scope.name for scope in await engine.store.scopes() if scope.active is active}
    entries = await engine.store.entries(PATHS, now=engine.clock(), limit=MOST_PROJECTS)
    return {
        entry.value["identity"]: entry.key
        for entry in entries
        if entry.key in names and entry.value.get("identity")
    }


def _nearest(identity: str, folder: str, known: dict[str, str]) -> str | None:
    if identity in known:
        return known[identity]
    real = Path(folder).expanduser().resolve()
    if identity != str(real):  # a repository of its own belongs to nothing above it
        return None
    return next((known[str(above)] for above in real.parents if str(above) in known), None)


async def _made(engine: Engine, folder: str, identity: str) -> str:
    """One at a time for a folder: a name that is taken may be that of the project which another is just making."""
    async with alone(engine, f"project {identity}"):
        if (found := (await _known(engine)).get(identity)) is not None:
            return found
        if identity in await _known(engine, active=False):
            raise Refused(
                f"The project of {folder} is deactivated.",
                advice="`recollect scopes activate` opens it again.",
            )
        return await _make(engine, _top(folder, identity))


def _top(folder: str, identity: str) -> Path:
    """The folder that a project is named after: that of the repository, wherever in it one stands."""
    git = Path(identity)
    return git.parent if git.name == GIT and git.is_dir() else Path(folder).expanduser().resolve()


async def _make(engine: Engine, folder: Path) -> str:
    printable = "".join(char if char.isprintable() else "-" for char in folder.name).strip()
    name = printable[: LONGEST_NAME - 8] or PROJECT
    for number in range(1, MOST_NAMESAKES):
        named = name if number == 1 else f"{name}-{number}"
        if named.casefold() == GLOBAL.casefold():
            continue
        try:
            return (await create_project(engine, named, path=str(folder))).scope.name
        except Conflict:
            if await _is_unfinished(engine, named):
                value = {"path": str(folder), "identity": identity_at(str(folder))}
                await engine.store.put_entry(Entry(PATHS, named, value, engine.clock()))
                return named
    raise Conflict(
        f"There are too many projects named {name!r}.", advice="Name this one by `recollect init --name`."
    )


async def _is_unfinished(engine: Engine, name: str) -> bool:
    """Whether a project of that name has neither a folder nor memories: whoever made it was stopped on the way."""
    scope = next((one for one in await engine.store.scopes() if one.name == name), None)
    if scope is None or scope.kind != PROJECT or not scope.active:
        return False
    if await engine.store.entry(PATHS, name, now=engine.clock()) is not None:
        return False
    where = Filter(viewer="system", scopes=(name,), statuses=ANY_STATUS)
    return await engine.store.count(where, most=1) == 0
