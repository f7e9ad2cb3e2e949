"""Verifies backups: each is restored to a temporary place, counted and compared."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pydantic import Field

from mindhold.aio import run_uncancelled
from mindhold.backup.create import BackupProgress, backups, folder_of, no_backup_progress
from mindhold.backup.file_format import EXPORT, BackupPart
from mindhold.backup.folder import BackupFile, check_sum, find_backup_file, is_full, temporary_folder
from mindhold.backup.reader import PartReader, ReaderContext, parts_of
from mindhold.backup.rows import lines_of
from mindhold.engine import Engine
from mindhold.model.errors import InvalidInput, Refused, SchemaTooNew, StoreDamaged, StoreFull
from mindhold.operations import Context, Input, Output, operation
from mindhold.ports.backend import Totals


@dataclass(frozen=True, slots=True)
class BackupProof:
    """What came of it; `problem` says what is wrong, and is empty where nothing is."""

    file: BackupFile
    parts: tuple[BackupPart, ...] = ()
    problem: str = ""

    @property
    def good(self) -> bool:
        """Whether it can be restored."""
        return not self.problem


async def verify(
    engine: Engine,
    chosen: Sequence[BackupFile],
    *,
    passphrase: str | None = None,
    told: BackupProgress = no_backup_progress,
) -> list[BackupProof]:
    """Each of them. Raises StoreFull where there is no room for a temporary place."""
    proofs = []
    for number, one in enumerate(chosen):
        told(f"verify {one.path.name}", number, len(chosen))
        proofs.append(
            await _proved(engine, one, passphrase or engine.settings.backup.read_passphrase(), told)
        )
    return proofs


async def _proved(engine: Engine, one: BackupFile, secret: str, told: BackupProgress) -> BackupProof:
    parts: list[BackupPart] = []
    try:
        await run_uncancelled(asyncio.to_thread(check_sum, one))
        if one.earlier:
            await run_uncancelled(asyncio.to_thread(_read_export, one))
            return BackupProof(one)
        with temporary_folder(folder_of(engine)) as room:
            opening = ReaderContext(engine.backend_sites, room, engine.zone(), engine.clock())
            async for part in parts_of(one.path, secret, opening):
                told(f"verify {one.path.name}: {part.mode}", len(parts), None)
                problem = await _wrong_with(part)
                parts.append(part.told)
                if problem:
                    return BackupProof(one, tuple(parts), f"{part.mode}: {problem}")
    except (Refused, StoreDamaged, SchemaTooNew) as error:
        return BackupProof(one, tuple(parts), error.message)
    except OSError as error:
        if is_full(error):
            raise StoreFull(
                f"There is no room to restore {one.path.name} to a temporary place.", advice="Make room."
            ) from error
        return BackupProof(one, tuple(parts), f"It can't be read: {error.strerror or error}.")
    return BackupProof(one, tuple(parts))


async def _wrong_with(part: PartReader) -> str:
    """Nothing, where what was restored of it is what was backed up."""
    if part.form == EXPORT:
        counts = await run_uncancelled(asyncio.to_thread(_counted, lines_of(part.blocks)))
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


class VerifyBackupsInput(Input):
    """Which file of the folder of backups, or all of them; the newest when neither is said."""

    file: str | None = Field(
        default=None,
        description="A file name from the list of backups.",
        examples=["backup-20261116T103000Z.backup"],
    )
    all: bool = False


class ProofView(Output):
    """What came of restoring one to a temporary place. `problem` is empty where it is good."""

    file: str = Field(description="Its file.", examples=["backup-20261116T103000Z.backup"])
    good: bool = Field(examples=[True])
    problem: str = ""
    memories: int = Field(default=0, description="Number of memories.", examples=[1523])
    vectors: int = Field(default=0, examples=[1523])
    encrypted: bool = Field(default=False, examples=[False])


class VerifyBackupsResult(Output):
    """One for each that was looked at; `good` when all are."""

    good: bool = Field(examples=[True])
    backups: list[ProofView]


async def _verify(context: Context, request: VerifyBackupsInput) -> VerifyBackupsResult:
    """Prove backups by restoring them to a temporary place."""
    engine = context.engine
    if request.all and request.file is not None:
        raise InvalidInput("Either one file is verified or all of them.", advice="Give one of the two.")
    if request.all:
        chosen = await backups(engine)
    else:
        chosen = [await asyncio.to_thread(find_backup_file, folder_of(engine), request.file)]
    proofs = await verify(engine, chosen, told=context.progress)
    return VerifyBackupsResult(
        good=all(proof.good for proof in proofs),
        backups=[
            ProofView(
                file=proof.file.path.name,
                good=proof.good,
                problem=proof.problem,
                memories=sum(part.totals.memories for part in proof.parts),
                vectors=sum(part.totals.vectors for part in proof.parts),
                encrypted=proof.file.encrypted,
            )
            for proof in proofs
        ],
    )


VERIFY_BACKUPS = operation("verify_backups", _verify, reads=True, owner_only=True)
