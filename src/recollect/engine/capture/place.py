"""Which project a folder is."""

from __future__ import annotations

from pathlib import Path

from recollect.engine.core import Engine
from recollect.engine.housing import create_project, identity_of
from recollect.engine.projects import PROJECT
from recollect.engine.scopes import PATHS
from recollect.model.errors import Conflict, NotFound
from recollect.model.scope import GLOBAL, LONGEST_NAME

MOST_PROJECTS = 10_000
MOST_NAMESAKES = 1_000


async def scope_of_folder(engine: Engine, folder: str, *, create: bool) -> str | None:
    """The scope of the project that the folder, or the nearest one above it, is; None where there is none.

    With `create` one is made for it, named like the folder. Raises NotFound, for a folder that isn't there, only then.
    """
    try:
        identity = identity_of(folder)
    except (NotFound, OSError):
        if create:
            raise
        return None
    known = await _known(engine)
    if (found := _nearest(identity, folder, known)) or not create:
        return found
    return await _made(engine, folder, identity)


async def _known(engine: Engine) -> dict[str, str]:
    """Names of the projects that are in use, by identity."""
    active = {scope.name for scope in await engine.store.scopes() if scope.active}
    entries = await engine.store.entries(PATHS, now=engine.clock(), limit=MOST_PROJECTS)
    return {
        entry.value["identity"]: entry.key
        for entry in entries
        if entry.key in active and entry.value.get("identity")
    }


def _nearest(identity: str, folder: str, known: dict[str, str]) -> str | None:
    if identity in known:
        return known[identity]
    real = Path(folder).expanduser().resolve()
    if identity != str(real):  # a repository of its own belongs to nothing above it
        return None
    return next((known[str(above)] for above in real.parents if str(above) in known), None)


async def _made(engine: Engine, folder: str, identity: str) -> str:
    name = Path(folder).expanduser().resolve().name or PROJECT
    name = (
        "".join(char if char.isprintable() else "-" for char in name).strip()[: LONGEST_NAME - 8] or PROJECT
    )
    for number in range(1, MOST_NAMESAKES):
        named = name if number == 1 else f"{name}-{number}"
        if named.casefold() == GLOBAL.casefold():
            continue
        try:
            return (await create_project(engine, named, path=folder)).scope.name
        except Conflict:  # the name is another's, or somebody has just made it for this folder
            if (found := (await _known(engine)).get(identity)) is not None:
                return found
    raise Conflict(
        f"There are too many projects named {name!r}.", advice="Name this one by `recollect init --name`."
    )
