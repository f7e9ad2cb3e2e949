"""A readable export on the disk."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from mindhold.engine.core import Engine, unbroken
from mindhold.engine.readable.as_csv import CsvForm
from mindhold.engine.readable.as_json import JsonForm
from mindhold.engine.readable.as_markdown import MarkdownForm
from mindhold.engine.readable.parts import End, Form
from mindhold.engine.readable.walk import walk
from mindhold.engine.transfer import Exported, in_one_piece
from mindhold.model.scope import Scope

JSON, MARKDOWN, CSV, LINES = "json", "markdown", "csv", "jsonl"
ENDINGS = {JSON: JsonForm.ending, MARKDOWN: MarkdownForm.ending, CSV: CsvForm.ending, LINES: ".jsonl"}


def form_of(engine: Engine, name: str) -> Form:
    """The way to write that goes by that name."""
    if name == MARKDOWN:
        return MarkdownForm(engine.zone())
    return CsvForm() if name == CSV else JsonForm()


async def export_readable(
    engine: Engine, path: Path, form: Form, *, agent: str, scopes: Sequence[str] = ()
) -> Exported:
    """Write atomically: the file is there whole, or not at all. Raises StoreFull, StoreReadOnly."""

    async def write(stream: TextIO) -> Exported:
        memories = told = 0
        async for batch in walk(engine, agent=agent, scopes=scopes):
            await unbroken(asyncio.to_thread(stream.writelines, map(form.written, batch)))
            told += sum(isinstance(part, Scope) for part in batch)
            memories += sum(part.memories for part in batch if isinstance(part, End))
        return Exported(str(path), memories, links=0, versions=0, scopes=told)

    return await in_one_piece(path, write)


def named_by_time(engine: Engine, folder: Path, ending: str, *, scope: str | None) -> Path:
    """A name that is free: `full_export_2026-11-16-103000.json`, or with a scope's name before."""
    whose = "full" if scope is None else "".join(one if one.isalnum() else "-" for one in scope)[:40]
    stem = f"{whose}_export_{engine.clock():%Y-%m-%d-%H%M%S}"
    path, number = folder / f"{stem}{ending}", 1
    while path.exists():
        number += 1
        path = folder / f"{stem}-{number}{ending}"
    return path
