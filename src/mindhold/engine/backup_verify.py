"""Proving a backup: it is restored to a temporary place, and what is found there is counted and compared."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mindhold.engine.backup import Told, folder_of, silent
from mindhold.engine.backup_file import EXPORT, Part
from mindhold.engine.backup_read import Opening, PartReading, parts_of
from mindhold.engine.backup_rows import lines_of
from mindhold.engine.backup_shelf import BackupFile, check_sum, is_full, workshop
from mindhold.engine.core import Engine, unbroken
from mindhold.model.errors import Refused, SchemaTooNew, StoreDamaged, StoreFull
from mindhold.ports.snapshot import Totals


@dataclass(frozen=True, slots=True)
class Proof:
    """What came of it; `problem` says what is wrong, and is empty where nothing is."""

    file: BackupFile
    parts: tuple[Part, ...] = ()
    problem: str = ""

    @property
    def good(self) -> bool:
        """Whether it can be restored."""
        return not self.problem


async def verify(
    engine: Engine, chosen: Sequence[BackupFile], *, passphrase: str | None = None, told: Told = silent
) -> list[Proof]:
    """Each of them. Raises StoreFull where there is no room for a temporary place."""
    proofs = []
    for number, one in enumerate(chosen):
        told(f"verify {one.path.name}", number, len(chosen))
        proofs.append(await _proved(engine, one, passphrase or engine.policy.backup.passphrase, told))
    return proofs


async def _proved(engine: Engine, one: BackupFile, secret: str, told: Told) -> Proof:
    parts: list[Part] = []
    try:
        await unbroken(asyncio.to_thread(check_sum, one))
        if one.earlier:
            await unbroken(asyncio.to_thread(_read_export, one))
            return Proof(one)
        with workshop(folder_of(engine)) as room:
            opening = Opening(engine.grounds, room, engine.zone(), engine.clock())
            async for part in parts_of(one.path, secret, opening):
                told(f"verify {one.path.name}: {part.mode}", len(parts), None)
                problem = await _wrong_with(part)
                parts.append(part.told)
                if problem:
                    return Proof(one, tuple(parts), f"{part.mode}: {problem}")
    except (Refused, StoreDamaged, SchemaTooNew) as error:
        return Proof(one, tuple(parts), error.message)
    except OSError as error:
        if is_full(error):
            raise StoreFull(
                f"There is no room to restore {one.path.name} to a temporary place.", advice="Make room."
            ) from error
        return Proof(one, tuple(parts), f"It can't be read: {error.strerror or error}.")
    return Proof(one, tuple(parts))


async def _wrong_with(part: PartReading) -> str:
    """Nothing, where what was restored of it is what was backed up."""
    if part.form == EXPORT:
        counts = await unbroken(asyncio.to_thread(_counted, lines_of(part.blocks)))
        wanted = part.told.totals
        return "" if counts["memory"] == wanted.memories else "not all of its memories are in it"
    async with part.as_store() as store:
        found = await store.totals()
        unhealthy = [finding.detail for finding in await store.check() if not finding.healthy]
    if differing := differences(part.told.totals, found):
        return f"restored it is another: {differing}"
    return "; ".join(unhealthy)


def differences(wanted: Totals, found: Totals) -> str:
    """Words about what isn't the same; empty where all is."""
    names = ("memories", "vectors", "versions", "links", "scopes", "jobs", "entries", "cursors")
    told = [
        f"{getattr(found, name)} of {getattr(wanted, name)} {name}"
        for name in names
        if getattr(found, name) != getattr(wanted, name)
    ]
    return ", ".join(told) or ("" if found.content == wanted.content else "other texts")


def _read_export(one: BackupFile) -> None:
    try:
        with gzip.open(one.path, "rt", encoding="utf-8", newline="\n") as lines:
            _counted(lines)
    except (EOFError, UnicodeDecodeError) as error:
        raise Refused(f"{one.path.name} can't be read: {error}.") from error


def _counted(lines: Iterable[str]) -> Counter[str]:
    """Raises Refused."""
    try:
        return Counter(json.loads(line).get("type", "head") for line in lines)
    except ValueError as error:
        raise Refused(f"A line of it is none: {error}.") from error
