"""`mindhold remember --batch`: JSON lines in, one answer a line."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from mindhold.interfaces.cli.output import plural
from mindhold.interfaces.cli.remembering import open_binary
from mindhold.interfaces.cli.session import Desk, build
from mindhold.model.errors import InvalidInput, MindholdError, NotFound

if TYPE_CHECKING:
    from mindhold.interfaces.running import Told
    from mindhold.operations.catalogue import Input
    from mindhold.operations.writing import RememberManyResult, RememberResult

CHUNK = 500
MOST_TOLD = 20
AGAIN = "Run the whole batch again: what is stored already is not stored twice."


@dataclass
class Tally:
    """What became of each line."""

    lines: list[dict[str, Any]] = field(default_factory=list)

    def answered(self, number: int, result: RememberResult) -> None:
        """One line's answer."""
        self.lines.append(
            {
                "line": number,
                "outcome": result.outcome,
                "id": result.id,
                "superseded": result.superseded,
                "error": result.error,
            }
        )

    def unanswered(self, numbers: Iterable[int], error: MindholdError) -> None:
        """Lines that some of may have been stored before the database failed."""
        self.lines += [
            {"line": number, "outcome": "unknown", "id": None, "error": str(error)} for number in numbers
        ]

    def failed(self, number: int, error: MindholdError) -> None:
        """One line that could not be used."""
        self.lines.append({"line": number, "outcome": "failed", "id": None, "error": str(error)})

    @property
    def counts(self) -> Counter[str]:
        return Counter(line["outcome"] for line in self.lines)


async def remember_lines(desk: Desk, path: str | None, *, defaults: Mapping[str, Any], run_jobs: bool) -> int:
    """Store in chunks; a bad line is told and passed over. Exit status 1 when there was one.

    A failure that ends it has its own exit status, but what was stored by then is told.
    """
    tally, ran = Tally(), 0
    try:
        with open_binary(path or "-") as stream, desk.console.progress() as told:
            numbered = ((number, line) for number, line in enumerate(stream, 1) if line.strip())
            while chunk := list(islice(numbered, CHUNK)):
                await _take(desk, chunk, tally=tally, defaults=defaults)
                _tell(told, tally)
        if run_jobs and tally.counts["stored"] and not desk.server:  # a server does its jobs itself
            ran = len((await desk.run("run_jobs", scheduled=False)).ran)
    except MindholdError as error:
        if not tally.lines:
            raise
        _report(desk, tally, jobs=ran, error=error)
        return error.exit_status
    _report(desk, tally, jobs=ran, error=None)
    return 1 if tally.counts["failed"] else 0


async def _take(
    desk: Desk, chunk: Iterable[tuple[int, bytes]], *, tally: Tally, defaults: Mapping[str, Any]
) -> None:
    from mindhold.operations.index import operation

    items: dict[int, Input] = {}
    for number, line in chunk:
        try:
            items[number] = build(operation("remember"), {"dialect": "cli", **defaults, **_fields(line)})
        except InvalidInput as error:
            tally.failed(number, error)
    try:
        answer: RememberManyResult = await desk.run("remember_many", items=list(items.values()))
    except (InvalidInput, NotFound):  # one of them spoils the chunk: find out which
        await _take_singly(desk, items, tally=tally)
        return
    except MindholdError as error:
        tally.unanswered(items, error)
        raise
    for number, result in zip(items, answer.results, strict=True):
        tally.answered(number, result)


async def _take_singly(desk: Desk, items: Mapping[int, Input], *, tally: Tally) -> None:
    for number, item in items.items():
        try:
            answer: RememberManyResult = await desk.run("remember_many", items=[item])
        except (InvalidInput, NotFound) as error:
            tally.failed(number, error)
        except MindholdError as error:
            tally.unanswered([number], error)
            raise
        else:
            tally.answered(number, answer.results[0])


def _fields(line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except ValueError as error:
        raise InvalidInput(f"Not JSON: {error}.") from error
    except RecursionError as error:
        raise InvalidInput("Nested too deeply.") from error
    if isinstance(value, str):
        return {"content": value}
    if not isinstance(value, dict):
        raise InvalidInput("Neither a string nor an object.")
    return value


def _tell(told: Told, tally: Tally) -> None:
    told("remember", len(tally.lines), None)


def _report(desk: Desk, tally: Tally, *, jobs: int, error: MindholdError | None) -> None:
    console, counts = desk.console, tally.counts
    if console.json:
        summary = {"created": counts["stored"], "counts": dict(counts), "lines": tally.lines, "jobs": jobs}
        failure = {"code": error.code, "message": error.message, "advice": error.advice} if error else None
        console.document({**summary, "error": failure} if failure else summary)
    else:
        _print(desk, tally)
    if error:
        console.warn(f"{error}\n  {AGAIN}", label="error:")


def _print(desk: Desk, tally: Tally) -> None:
    counts = tally.counts
    rest = [
        f"{counts[outcome]:,} {words}"
        for outcome, words in (
            ("would_store", "would be stored"),
            ("duplicate", "already known"),
            ("noise", "passed over as noise"),
            ("failed", "failed"),
            ("unknown", "unknown"),
        )
        if counts[outcome]
    ]
    desk.console.line(", ".join([f"Remembered {plural(counts['stored'], 'memory')}", *rest]) + ".")
    replaced = [line for line in tally.lines if line.get("superseded")]
    if replaced:
        number = sum(len(line["superseded"]) for line in replaced)
        desk.console.line(f"The place of {plural(number, 'earlier memory')} was taken:")
    for line in replaced[:MOST_TOLD]:
        desk.console.line(
            f"  line {line['line']}: {line['id']} takes the place of {', '.join(line['superseded'])}"
        )
    if len(replaced) > MOST_TOLD:
        desk.console.line(f"  … and {len(replaced) - MOST_TOLD} more; --json lists them all.")
    failures = [line for line in tally.lines if line["outcome"] == "failed"]
    for line in failures[:MOST_TOLD]:
        desk.console.warn(f"  line {line['line']}: {line['error']}")
    if len(failures) > MOST_TOLD:
        desk.console.warn(f"  … and {len(failures) - MOST_TOLD} more; --json lists them all.")
