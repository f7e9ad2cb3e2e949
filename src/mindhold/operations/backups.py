"""Operations on the backups that there are: proving them, and letting them go."""

from __future__ import annotations

import asyncio

from mindhold.engine.backup import backups, folder_of
from mindhold.engine.backup_shelf import dropped, named
from mindhold.engine.backup_verify import verify
from mindhold.model.errors import InvalidInput, StoreBusy
from mindhold.operations.catalogue import Call, Effect, Input, Operation, Output
from mindhold.operations.safekeeping import BackupFileView, file_view


class VerifyBackupsInput(Input):
    """Which file of the folder of backups, or all of them; the newest when neither is said."""

    file: str | None = None
    all: bool = False


class ProofView(Output):
    """What came of restoring one to a temporary place. `problem` is empty where it is good."""

    file: str
    good: bool
    problem: str = ""
    memories: int = 0
    vectors: int = 0
    encrypted: bool = False


class VerifyBackupsResult(Output):
    """One for each that was looked at; `good` when all are."""

    good: bool
    backups: list[ProofView]


class DropBackupInput(Input):
    """Which file of the folder of backups."""

    file: str


class DropBackupResult(Output):
    """What went."""

    dropped: BackupFileView


async def _verify(call: Call, given: VerifyBackupsInput) -> VerifyBackupsResult:
    engine = call.engine
    if given.all and given.file is not None:
        raise InvalidInput("Either one file is verified or all of them.", advice="Give one of the two.")
    if given.all:
        chosen = await backups(engine)
    else:
        chosen = [await asyncio.to_thread(named, folder_of(engine), given.file)]
    proofs = await verify(engine, chosen, told=call.progress)
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


async def _drop(call: Call, given: DropBackupInput) -> DropBackupResult:
    chosen = await asyncio.to_thread(named, folder_of(call.engine), given.file)
    if not await asyncio.to_thread(dropped, chosen):
        raise StoreBusy(f"{chosen.path.name} can't be removed now.", advice="Somebody reads it: try again.")
    return DropBackupResult(dropped=file_view(chosen))


VERIFY_BACKUPS = Operation(
    "verify_backups",
    "Prove backups by restoring them to a temporary place.",
    VerifyBackupsInput,
    VerifyBackupsResult,
    _verify,
    Effect.READS,
    owner_only=True,
)
DROP_BACKUP = Operation(
    "drop_backup",
    "Remove one backup.",
    DropBackupInput,
    DropBackupResult,
    _drop,
    Effect.DESTROYS,
    owner_only=True,
)
