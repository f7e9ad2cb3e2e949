"""Verifies backups: each is restored to a temporary place, counted and compared."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections import Counter
from collections.abc import Iterable

from pydantic import Field

from mindhold.aio import run_uncancelled
from mindhold.backup.create import backup_folder, backups
from mindhold.backup.file_format import COUNTS, EXPORT, BackupPart, split_lines
from mindhold.backup.folder import BackupFile, find_backup_file, is_full, temporary_folder, verify_checksum
from mindhold.backup.reader import PartReader, ReaderContext, read_parts
from mindhold.model.errors import InvalidInput, Refused, SchemaTooNew, StoreDamaged, StoreFull
from mindhold.operations import Context, Input, Output, operation
from mindhold.ports.backend import Totals


class VerifyBackupsInput(Input):
    """Which file of the backup folder, or all; by default the newest."""

    file: str | None = Field(
        default=None,
        description="A file name from the list of backups.",
        examples=["backup-20261116T103000Z.backup"],
    )
    all: bool = False


class ProofView(Output):
    """The result of restoring a backup to a temporary store. `problem` is empty if it is good."""

    file: str = Field(description="Its file.", examples=["backup-20261116T103000Z.backup"])
    good: bool = Field(examples=[True])
    problem: str = ""
    memories: int = Field(default=0, description="Number of memories.", examples=[1523])
    vectors: int = Field(default=0, examples=[1523])
    encrypted: bool = Field(default=False, examples=[False])


class VerifyBackupsResult(Output):
    """One result per backup; `good` if all are."""

    good: bool = Field(examples=[True])
    backups: list[ProofView]


async def _verify(context: Context, request: VerifyBackupsInput) -> VerifyBackupsResult:
    """Verify backups by restoring them to a temporary store."""
    engine = context.engine
    if request.all and request.file is not None:
        raise InvalidInput("Either one file is verified or all of them.", advice="Give one of the two.")
    if request.all:
        files = await backups(engine)
    else:
        files = [await asyncio.to_thread(find_backup_file, backup_folder(engine), request.file)]
    secret = engine.settings.backup.read_passphrase()
    proofs = []
    for number, file in enumerate(files):
        context.progress(f"verify {file.path.name}", number, len(files))
        parts: list[BackupPart] = []
        problem = await _problem_of(context, file, secret, parts)
        proofs.append(
            ProofView(
                file=file.path.name,
                good=not problem,
                problem=problem,
                memories=sum(part.totals.memories for part in parts),
                vectors=sum(part.totals.vectors for part in parts),
                encrypted=file.encrypted,
            )
        )
    return VerifyBackupsResult(good=all(proof.good for proof in proofs), backups=proofs)


VERIFY_BACKUPS = operation("verify_backups", _verify, reads=True, owner_only=True)


async def _problem_of(context: Context, file: BackupFile, secret: str, parts: list[BackupPart]) -> str:
    """What is wrong with a file; empty if nothing is. Adds to `parts` what was read.

    Raises StoreFull if there is no room for a temporary store.
    """
    engine = context.engine
    try:
        await run_uncancelled(asyncio.to_thread(verify_checksum, file))
        if file.earlier:
            await run_uncancelled(asyncio.to_thread(_read_export, file))
            return ""
        with temporary_folder(backup_folder(engine)) as folder:
            place = ReaderContext(engine.backend_sites, folder, engine.zone(), engine.clock())
            async for part in read_parts(file.path, secret, place):
                context.progress(f"verify {file.path.name}: {part.mode}", len(parts), None)
                problem = await _find_problem(part)
                parts.append(part.summary)
                if problem:
                    return f"{part.mode}: {problem}"
    except (Refused, StoreDamaged, SchemaTooNew) as error:
        return error.message
    except OSError as error:
        if is_full(error):
            raise StoreFull(
                f"There is no room to restore {file.path.name} to a temporary place.", advice="Make room."
            ) from error
        return f"It can't be read: {error.strerror or error}."
    return ""


async def _find_problem(part: PartReader) -> str:
    """What is wrong with a part; empty if it can be restored as it was backed up."""
    if part.form == EXPORT:
        counts = await run_uncancelled(asyncio.to_thread(_count_types, split_lines(part.blocks)))
        expected = part.summary.totals
        return "" if counts["memory"] == expected.memories else "not all of its memories are in it"
    async with part.as_store() as store:
        actual = await store.totals()
        unhealthy = [finding.detail for finding in await store.check() if not finding.healthy]
    if differing := differences(part.summary.totals, actual):
        return f"restored it is another: {differing}"
    return "; ".join(unhealthy)


def differences(expected: Totals, actual: Totals) -> str:
    """A text about differing totals; empty if all are equal."""
    parts = [
        f"{getattr(actual, name)} of {getattr(expected, name)} {name}"
        for name in COUNTS
        if getattr(actual, name) != getattr(expected, name)
    ]
    return ", ".join(parts) or ("" if actual.content == expected.content else "other texts")


def _read_export(file: BackupFile) -> None:
    try:
        with gzip.open(file.path, "rt", encoding="utf-8", newline="\n") as lines:
            _count_types(lines)
    except (EOFError, UnicodeDecodeError) as error:
        raise Refused(f"{file.path.name} can't be read: {error}.") from error


def _count_types(lines: Iterable[str]) -> Counter[str]:
    try:
        return Counter(json.loads(line).get("type", "head") for line in lines)
    except ValueError as error:
        raise Refused(f"A line of it is none: {error}.") from error
