"""Documents that follow at once when memories of their project are forgotten, brought back or amended; and whether what was
erased is gone from them. Of a project without a folder on this machine nothing is looked at."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mindhold.bare import folders
from mindhold.engine.capture.document import Written, marked_documents, one_line, write_documents, writer_of
from mindhold.engine.core import Engine
from mindhold.engine.scopes import PATHS
from mindhold.model.memory import Memory
from mindhold.ports.store import Receipt


@dataclass(frozen=True, slots=True)
class Shown:
    """Where a project's documents are: its folder and its worktrees, as far as a document there has markers."""

    scope: str
    agent: str  # whose view they show
    folders: tuple[Path, ...]


async def shown_in(engine: Engine, scopes: Iterable[str]) -> list[Shown]:
    """The places of those projects' documents; none for those that have none. Raises the store's errors."""
    found = []
    for scope in dict.fromkeys(scopes):
        noted = await engine.ledger.entry(PATHS, scope, now=engine.clock())
        if noted is None or not noted.value.get("path"):
            continue
        there = await asyncio.to_thread(_with_documents, noted.value)
        if there:
            found.append(Shown(scope, await writer_of(engine, scope), there))
    return found


async def rewritten(engine: Engine, places: Sequence[Shown]) -> list[Written]:
    """Bring them up to date. Raises the store's errors."""
    return [
        told
        for place in places
        for folder in place.folders
        for told in await write_documents(engine, place.scope, folder, agent=place.agent)
    ]


async def rewrite_documents(engine: Engine, memories: Iterable[Memory]) -> str:
    """Bring the documents of their projects up to date; words about those that can't be. Raises the store's errors."""
    places = await shown_in(engine, (one.scope for one in memories))
    return problems(await rewritten(engine, places))


async def off_the_documents(
    engine: Engine, receipt: Receipt, erased: Sequence[Memory]
) -> tuple[Receipt, str]:
    """The receipt of an erasure, after the documents lost what was erased, and words about those that didn't.

    What still shows it, in a line of its own, counts as left, unless another memory says the same.
    """
    places = await shown_in(engine, (one.scope for one in erased))
    if not places:
        return receipt, ""
    lines = {f"- {one_line(one.content)}" for one in erased}
    before = await asyncio.to_thread(_showing, places, lines)
    told = await rewritten(engine, places)
    again = {line for one in told for line in one.text.split("\n")}
    after = await asyncio.to_thread(_showing, places, lines - again)
    return _with(receipt, removed=max(0, before - after), left=after), problems(told)


async def off_deleted_documents(
    engine: Engine, receipt: Receipt | None, places: Sequence[Shown]
) -> tuple[Receipt | None, str]:
    """The same for a whole project that has gone, whose places were looked up before."""
    told = await rewritten(engine, places)
    if receipt is not None and places:
        failed = sum(bool(one.problem) for one in told)
        receipt = _with(receipt, removed=sum(one.changed for one in told), left=failed)
    return receipt, problems(told)


def problems(told: Iterable[Written]) -> str:
    """What to say of documents that couldn't be written."""
    return " ".join(f"{one.problem} It may still show what it did." for one in told if one.problem)


def _with(receipt: Receipt, *, removed: int, left: int) -> Receipt:
    return replace(
        receipt,
        removed={**receipt.removed, "documents": removed},
        remaining={**receipt.remaining, "documents": left},
    )


def _with_documents(noted: Mapping[str, str]) -> tuple[Path, ...]:
    own = Path(noted["path"])
    places = [own, *map(Path, folders.worktrees(noted.get("identity") or ""))]
    return tuple(one for one in dict.fromkeys(places) if one.is_dir() and marked_documents(one))


def _showing(places: Sequence[Shown], lines: set[str]) -> int:
    """In how many documents one of the lines stands."""
    wanted = {line.encode(errors="replace") for line in lines}
    paths = {path for place in places for folder in place.folders for path in marked_documents(folder)}
    return sum(_holds(path, wanted) for path in paths)


def _holds(path: Path, wanted: set[bytes]) -> bool:
    try:
        return any(line.strip() in wanted for line in path.read_bytes().splitlines())
    except FileNotFoundError:
        return False
    except OSError:
        return True  # nobody knows
