"""`mindhold status` and `mindhold doctor`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from mindhold.interfaces.cli.capture import capture_facts, capture_problems, hook_facts
from mindhold.interfaces.cli.command import command, with_open_session, with_session
from mindhold.interfaces.cli.forget import print_receipt
from mindhold.interfaces.cli.output import Console, neutral, one_line, plural, price
from mindhold.interfaces.cli.session import CARRY_OVER, CheckFinding, CliSession, OpenSession
from mindhold.model.errors import (
    MemoryNotFound,
    MindholdError,
    SettingsError,
    StoreBusy,
    StoreDamaged,
    StoreError,
)

if TYPE_CHECKING:
    from mindhold.capture.status import CaptureStatusResult
    from mindhold.history.status import HistoryStatusResult
    from mindhold.lifecycle.status import DoctorResult, StatusResult


UNHEALTHY = 1


@command("status", remote=True, examples=["mindhold status", "mindhold status --json"])
@with_open_session
async def status(session: OpenSession) -> None:
    """How things are, at a glance."""
    from mindhold.lifecycle.status import STATUS

    result = await session.run(STATUS)
    here = None if session.server else await _of_this_machine(session)
    if session.console.json:
        session.console.document({**result.model_dump(mode="json"), **(here.document() if here else {})})
        return
    console = session.console
    for name, value in (*_facts(session, result), *(here.facts if here else ())):
        if value:
            console.line(f"{console.style(f'{name:<10}', bold=True)} {neutral(value)}")
    for job in result.dead_jobs:
        console.warn(f"dead job: {one_line(job, most=200)}")
    for problem in here.problems if here else ():
        console.warn(one_line(problem, most=400))
    for mode, one in result.storage.items():
        if one["detail"]:
            console.warn(f"{mode}: {one['detail']}")
    if here and here.left:
        kept = f"The local file has {plural(here.left, 'memory')}, and not all of them are in this store"
        console.warn(f"{kept}: {CARRY_OVER}")
    if result.backup.get("problem"):
        console.warn(f"no backup: {result.backup['problem']}")
    for missing in result.unready_models:
        console.warn(missing)
    console.note(result.notice)


@dataclass(frozen=True, slots=True)
class _Here:
    """What is to be told of this machine, besides the store."""

    captured: CaptureStatusResult
    past: HistoryStatusResult
    left: int
    facts: Sequence[tuple[str, str]]
    problems: Sequence[str]

    def document(self) -> dict[str, Any]:
        return {
            "capture": self.captured.model_dump(mode="json"),
            "history": self.past.model_dump(mode="json"),
            "left_in_the_file": self.left,
        }


async def _of_this_machine(session: OpenSession) -> _Here:
    from mindhold.capture.status import CAPTURE_STATUS
    from mindhold.history.status import HISTORY_STATUS

    captured = await session.run(CAPTURE_STATUS)
    past = await session.run(HISTORY_STATUS)
    hooks, wrong = hook_facts(session.running.loaded)
    return _Here(
        captured,
        past,
        left=await _left_in_the_file(session),
        facts=(*hooks, *capture_facts(session, captured), ("history", _history(past))),
        problems=(*wrong, *capture_problems(captured)),
    )


async def _left_in_the_file(session: OpenSession) -> int:
    """How many memories the local file has, unless it is the store or what it has is in the store as well."""
    from mindhold.memories.filters import SHOW

    loaded = session.running.loaded
    if loaded.settings.store.mode == "local":
        return 0
    left = session.cli.launcher.leftover(loaded)
    try:
        for one in left.ids:
            await session.run(SHOW, id=one)
    except MemoryNotFound:
        return left.memories
    except (StoreError, SettingsError):  # of a project's store, where it may be
        return 0
    return 0


@command(
    "doctor",
    examples=[
        "mindhold doctor",
        "mindhold doctor --repair",
        'mindhold doctor --scrub --phrase "what must be gone"',
    ],
)
@click.option(
    "--repair", is_flag=True, help="Rebuild what is derived; save what can be read of a damaged database."
)
@click.option(
    "--scrub", is_flag=True, help="Rewrite the database's files, so that nothing erased is left in them."
)
@click.option(
    "--phrase", "phrases", multiple=True, metavar="TEXT", help="With --scrub: look for these bytes."
)
@with_session
async def doctor(cli: CliSession, /, *, repair: bool, scrub: bool, phrases: tuple[str, ...]) -> int:
    """Look closely at database, models, folders and jobs. Exit status 1 when something is wrong."""
    from mindhold.lifecycle.status import DOCTOR

    if phrases and not scrub:
        raise click.UsageError("--phrase goes with --scrub.")
    console = cli.console
    try:
        async with cli.open() as session:
            result = await session.run(DOCTOR, repair=repair, scrub=scrub, phrases=phrases)
            result = _with_hooks(result, session)
    except StoreBusy:
        raise
    except (StoreError, SettingsError) as error:
        return await _unusable(cli, error, repair=repair)
    if repair and (damage := _lasting_damage(result.findings)):
        return await _unusable(cli, StoreDamaged(damage), repair=True)
    if console.json:
        console.document(result)
    else:
        _print(console, result.findings, result.repaired)
        if result.scrubbed:
            print_receipt(console, result.scrubbed)
    left = result.scrubbed is not None and not result.scrubbed.empty
    return 0 if result.healthy and not left else UNHEALTHY


def _with_hooks(result: DoctorResult, session: OpenSession) -> DoctorResult:
    """With what is wrong with the hooks of this folder: these are files of another program."""
    from mindhold.memories.views import FindingView

    _, wrong = hook_facts(session.running.loaded)
    found = [FindingView(name="hooks in this folder", healthy=False, detail=one, advice="") for one in wrong]
    if not found:
        return result
    return result.model_copy(update={"healthy": False, "findings": [*result.findings, *found]})


def _lasting_damage(findings: Sequence[CheckFinding]) -> str:
    """What is wrong with the pages after all that is derived was rebuilt."""
    return "; ".join(one.detail for one in findings if one.name == "file" and not one.healthy)


async def _unusable(cli: CliSession, error: StoreError | SettingsError, *, repair: bool) -> int:
    """Only a damaged database is salvaged: one that is newer, full or another program's holds what would be lost."""
    console, loaded = cli.console, cli.loaded()
    salvage = repair and isinstance(error, StoreDamaged)
    salvaged = list(await cli.launcher.salvage(loaded)) if salvage else []
    findings = list(await cli.launcher.diagnose(loaded))
    if not salvaged and not any(error.message in one.detail for one in findings):
        findings.insert(0, _opening(error))
    healthy = bool(salvaged) and all(finding.healthy for finding in findings)
    if console.json:
        seen = [
            {"name": one.name, "healthy": one.healthy, "detail": one.detail, "advice": one.advice}
            for one in findings
        ]
        document: dict[str, Any] = {"healthy": healthy, "findings": seen, "repaired": salvaged}
        console.document({**document, "opening": {"code": error.code, "message": error.message}})
    else:
        if salvaged:
            console.warn(f"The database could not be used as it was: {error}")
        _print(console, findings, salvaged)
    return 0 if healthy else UNHEALTHY


def _opening(error: MindholdError) -> CheckFinding:
    from mindhold.memories.views import FindingView  # for the rare need

    return FindingView(
        name="opening", healthy=False, detail=f"{error.code}: {error.message}", advice=error.advice
    )


def _print(console: Console, findings: Sequence[CheckFinding], repaired: Sequence[str]) -> None:
    for done in repaired:
        console.line(f"{console.style('done ', fg='cyan')} {neutral(done)}")
    for finding in findings:
        mark = console.style("fine ", fg="green") if finding.healthy else console.style("WRONG", fg="red")
        console.line(f"{mark} {neutral(finding.name)}: {neutral(finding.detail)}")
        if finding.advice:
            console.line(f"      {neutral(finding.advice)}")
    wrong = sum(not finding.healthy for finding in findings)
    console.line("All is well." if not wrong else f"{wrong} of {len(findings)} findings need attention.")


def _facts(session: OpenSession, result: StatusResult) -> list[tuple[str, str]]:
    size = result.store.get("bytes") or 0
    return [
        ("version", result.version),
        ("server", session.server) if session.server else ("home", str(session.running.loaded.settings.home)),
        ("store", f"{_kind(result)}, {result.store.get('location')}, {size / 1e6:.1f} MB"),
        ("storage", _storage(result)),
        ("memories", f"{result.memories:,} active, {result.embedded:,} of them with a vector"),
        ("status", _tally(result.by_status)),
        ("kinds", _tally(result.by_kind)),
        ("scopes", _tally(result.by_scope)),
        ("recall by", result.rung),
        ("models", ", ".join(result.models) or "none; `mindhold models pull` fetches one"),
        ("judged by", result.classifier),
        ("jobs", _tally(result.jobs) or "none"),
        ("language", _language(result)),
        ("today", _spent(result)),
        ("beside", _beside(result)),
        ("lately", _lately(result)),
        ("backup", _backup(result)),
    ]


def _kind(result: StatusResult) -> str:
    """`mongodb 6.0.5, embedded`: as far as the store tells."""
    kind = " ".join(str(result.store[name]) for name in ("kind", "server") if result.store.get(name))
    return f"{kind}, {result.store['mode']}" if result.store.get("mode") else kind


def _storage(result: StatusResult) -> str:
    """Nothing where all is in one store."""
    told = []
    for mode, one in result.storage.items():
        names = f" ({', '.join(one['projects'][:5])})" if one["projects"] else ""
        told.append(f"{mode} {one['state']}{names}")
    return "; ".join(told) if len(told) > 1 else ""


def _beside(result: StatusResult) -> str:
    told = result.beside
    if not told:
        return ""
    where = ", ".join(filter(None, (told["kind"], told.get("location"), told["state"])))
    return f"{where}; keyword sets {told['keywords']}" + (f". {told['detail']}" if told["detail"] else "")


def _history(past: HistoryStatusResult) -> str:
    """Past conversations, as far as they are indexed."""
    if not past.enabled:
        return "switched off (history.enabled)"
    if not past.conversations and not past.unread_files:
        return ""
    told = plural(past.conversations, "conversation")
    if past.unread_files:
        told += f", {plural(past.unread_files, 'file')} not indexed yet (`mindhold history index`)"
    if past.vanishing_count:
        told += f"; {past.vanishing_count:,} will be deleted within a week, without a copy"
    return told


def _backup(result: StatusResult) -> str:
    """The last one, and what restores have put aside."""
    told = result.backup
    if not told:
        return ""
    last = f"{told['last'][:16].replace('T', ' ')} UTC, {told['file']}" if told["last"] else "none yet"
    old = ", ".join(f"{one['location']} ({one['bytes'] / 1e6:.1f} MB)" for one in told["old"])
    return last + (f"; kept from before a restore: {old} (`mindhold restore --drop-old`)" if old else "")


def _lately(result: StatusResult) -> str:
    """What was done in conversations, over all servers."""
    if not result.conversations:
        return ""
    return f"{plural(result.conversations, 'conversation')}: {_tally(result.activity)}"


def _spent(result: StatusResult) -> str:
    """What embedding services were asked for; nothing where none was."""
    if not result.service_calls:
        return ""
    calls = plural(result.service_calls, "call")
    cost = f", {price(result.service_dollars)}" if result.service_dollars else ""
    return f"{calls} of embedding services, {result.service_tokens:,} tokens{cost}"


def _language(result: StatusResult) -> str:
    """Which model is configured, and what models were asked for; nothing where none was."""
    if result.language_model is None and not result.language_calls:
        return ""
    calls = plural(result.language_calls, "call")
    spent = f"{calls} today, {result.language_tokens:,} of {result.daily_tokens:,} tokens"
    if result.daily_dollars:
        spent += f", {price(result.language_dollars)} of {price(result.daily_dollars)}"
    elif result.language_dollars:
        spent += f", {price(result.language_dollars)}"
    names = ", then ".join((result.language_model or "no model configured", *result.fallback_models))
    return f"{names}; {spent}"


def _tally(counts: dict[str, int]) -> str:
    ordered = sorted(counts.items(), key=lambda item: -item[1])
    shown = ", ".join(f"{count:,} {name}" for name, count in ordered[:10])
    return f"{shown}, and {len(ordered) - 10} more" if len(ordered) > 10 else shown
