"""A transcript as it was: its file while that is there, else out of the archive."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import dataclass
from pathlib import Path

from mindhold.engine.core import Engine
from mindhold.engine.history.archive_names import archive_name
from mindhold.engine.history.naming import conversation_named, files_of
from mindhold.model.errors import Conflict, NotFound, StoreReadOnly
from mindhold.ports.history import Conversation


@dataclass(frozen=True, slots=True)
class Restored:
    """The files that were written."""

    session_id: str
    files: tuple[Path, ...]


async def restore_conversation(engine: Engine, session: str, target: Path) -> Restored:
    """Write the transcript as it was to a new file; into a folder with those of its sub-agents.

    Raises NotFound, InvalidInput, Conflict for a file that is there, StoreReadOnly.
    """
    named = await conversation_named(engine, session)
    known = await asyncio.to_thread(engine.history.conversations)
    files = files_of(named.belongs_to, known) if target.is_dir() else [named]

    def restore() -> tuple[Path, ...]:
        written = [file for one in files if (file := _restored(engine, one, target)) is not None]
        if not written:
            raise NotFound(
                f"Neither the archive nor the disk has the transcript of {named.session_id}.",
                advice="`mindhold history show` has what the index knows of it.",
            )
        return tuple(written)

    return Restored(named.belongs_to, await asyncio.to_thread(restore))


def _restored(engine: Engine, conversation: Conversation, target: Path) -> Path | None:
    """None where nothing has it."""
    file = target / _relative(conversation) if target.is_dir() else target
    if file.exists():
        raise Conflict(f"{file} is there already.", advice="Name another file.")
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if conversation.file.is_file():  # no copy has more of it
            shutil.copyfile(conversation.file, file)
            file.chmod(0o600)
        else:
            engine.archive.unpack(archive_name(conversation), file)
    except (NotFound, FileNotFoundError):
        return None
    except OSError as error:
        raise StoreReadOnly(
            f"{file} can't be written: {error.strerror}.", advice="Name another place."
        ) from error
    return file


def _relative(conversation: Conversation) -> Path:
    name = Path(conversation.file.name)
    return Path(conversation.part_of, "subagents") / name if conversation.part_of else name
