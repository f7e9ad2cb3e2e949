"""Operations that keep the whole in order: stats, backup and restore."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from mindhold.engine.backup import back_up, backups
from mindhold.engine.backup_merge import restore
from mindhold.engine.backup_shelf import BackupFile
from mindhold.engine.consolidate import last_consolidated
from mindhold.engine.contradictions import contradictions
from mindhold.engine.conversations import count_conversations, write_down
from mindhold.engine.feedback import feedback_report
from mindhold.engine.health import status
from mindhold.engine.ledger import EMBEDDING, spent_today
from mindhold.engine.sources import by_source
from mindhold.engine.storage import left_out
from mindhold.model.query import Filter
from mindhold.operations.catalogue import Call, Effect, Input, Operation, Output


class StatsInput(Input):
    """Nothing to say."""


class ToolFeedback(Output):
    """What was said of one tool: how many answers were relevant and sufficient, of how many."""

    relevant: int
    sufficient: int
    count: int


class TaskFeedback(Output):
    """How many conversations were said to have reached what they were for, of how many."""

    succeeded: int
    count: int


class SpendView(Output):
    """What language models were asked for today (UTC), by everybody, and how much they may be."""

    calls: int
    failed: int
    tokens_in: int
    tokens_out: int
    daily_tokens: int


class ServiceSpendView(Output):
    """What embedding services were asked for today (UTC), by everybody; no cap where `daily_tokens` is 0."""

    calls: int
    failed: int
    tokens: int
    dollars: float
    daily_tokens: int


class StatsResult(Output):
    """Counts of active memories unless they say otherwise."""

    total: int
    by_status: dict[str, int]
    by_kind: dict[str, int]
    by_tier: dict[str, int]
    by_scope: dict[str, int]
    by_agent: dict[str, int]
    by_source: dict[str, int]  # messages, notes, summaries, profile_facts
    embedded: int
    embedded_ratio: float
    anchors: int
    unverified: int  # that wait to be evaluated
    pending_contradictions: int  # pairs that wait for somebody to decide
    links: int
    conversations: int
    feedback: dict[str, ToolFeedback]
    tasks: TaskFeedback
    last_backup: datetime | None = None
    last_consolidated: datetime | None = None
    bytes_used: int
    megabytes: float
    model: str | None = None
    rung: str
    jobs: dict[str, int]
    models_today: SpendView
    services_today: ServiceSpendView
    notice: str = ""  # which stores don't answer


class BackupInput(Input):
    """What to call it; by the time when there is no name. Encrypted as the settings say, unless told."""

    name: str | None = None
    encrypt: bool | None = None
    without: list[str] = []  # stores that projects live in, and that may be left out


class BackupView(Output):
    """One backup. `file` is its name in the folder of backups."""

    file: str
    path: str
    memories: int
    links: int
    versions: int
    scopes: int
    vectors: int
    entries: int
    jobs: int
    encrypted: bool
    bytes: int
    sha256: str
    created: datetime


class ListBackupsInput(Input):
    """Nothing to say."""


class BackupFileView(Output):
    """One file in the folder of backups."""

    file: str
    path: str
    bytes: int
    sha256: str | None = None  # None when the sum beside it is missing
    created: datetime
    made: str  # what for: by hand, daily, weekly, before a restore, before a scope was forgotten
    encrypted: bool = False
    whole: bool = True  # whether it can take the place of everything that is there


class ListBackupsResult(Output):
    """The newest first."""

    backups: list[BackupFileView]


class RestoreInput(Input):
    """Which file of the folder of backups; the newest when none is named."""

    file: str | None = None


class RestoreResult(Output):
    """What came back; `skipped` were there already. `safety` is the backup that was made before."""

    file: str
    memories: int
    skipped: int
    links: int
    versions: int
    scopes: int
    safety: str
    note: str = ""


async def _stats(call: Call, _given: StatsInput) -> StatsResult:
    engine, store = call.engine, call.engine.store
    await write_down(engine)  # conversations that are a moment old count too
    report = await status(engine, agent=call.agent)
    active = Filter(viewer=call.agent, scopes=report.reached)
    whole = [one for one in await backups(engine) if one.whole]
    said = await feedback_report(engine, agent=call.agent)
    spent, sent = await spent_today(engine), await spent_today(engine, EMBEDDING)
    size = report.store.bytes_used if call.owner else 0  # of what others keep, too
    return StatsResult(
        total=report.memories,
        by_status=dict(report.by_status),
        by_kind=dict(report.by_kind),
        by_tier=await store.tally(active, "tier"),
        by_scope=dict(report.by_scope),
        by_agent=await store.tally(active, "agent"),
        by_source=await by_source(engine, active),
        embedded=report.embedded,
        embedded_ratio=round(report.embedded / report.memories, 4) if report.memories else 0.0,
        anchors=await store.count(replace(active, anchored=True)),
        unverified=await store.count(replace(active, unverified=True)),
        pending_contradictions=len(await contradictions(engine, agent=call.agent, pending=True)),
        links=await store.count_links(active),
        conversations=await count_conversations(engine, agent=call.agent),
        feedback={
            name: ToolFeedback(
                relevant=one.whole.relevant, sufficient=one.whole.sufficient, count=one.whole.count
            )
            for name, one in said.tools.items()
        },
        tasks=TaskFeedback(succeeded=said.tasks.succeeded, count=said.tasks.count),
        last_backup=whole[0].created if whole else None,
        last_consolidated=await last_consolidated(engine),
        bytes_used=size,
        megabytes=round(size / 1e6, 2),
        model=report.model,
        rung=report.rung,
        jobs=dict(report.jobs),
        models_today=SpendView(
            calls=spent.calls,
            failed=spent.failed,
            tokens_in=spent.tokens_in,
            tokens_out=spent.tokens_out,
            daily_tokens=engine.policy.daily_tokens,
        ),
        services_today=ServiceSpendView(
            calls=sent.calls,
            failed=sent.failed,
            tokens=sent.tokens,
            dollars=round(sent.dollars, 9),
            daily_tokens=engine.meaning.terms.daily_tokens if engine.meaning.terms else 0,
        ),
        notice=left_out(report.storage),
    )


async def _backup(call: Call, given: BackupInput) -> BackupView:
    made = await back_up(
        call.engine, given.name, encrypt=given.encrypt, without=given.without, told=call.progress
    )
    written = made.totals
    return BackupView(
        file=made.path.name,
        path=str(made.path),
        memories=written.memories,
        links=written.links,
        versions=written.versions,
        scopes=written.scopes,
        vectors=written.vectors,
        entries=written.entries,
        jobs=written.jobs,
        encrypted=made.encrypted,
        bytes=made.size,
        sha256=made.sha256,
        created=made.created,
    )


async def _list_backups(call: Call, _given: ListBackupsInput) -> ListBackupsResult:
    return ListBackupsResult(backups=[file_view(one) for one in await backups(call.engine)])


def file_view(one: BackupFile) -> BackupFileView:
    """As it is listed."""
    return BackupFileView(
        file=one.path.name,
        path=str(one.path),
        bytes=one.size,
        sha256=one.sha256,
        created=one.created,
        made=one.made.value,
        encrypted=one.encrypted,
        whole=one.whole and not one.earlier,
    )


async def _restore(call: Call, given: RestoreInput) -> RestoreResult:
    file, done, safety = await restore(
        call.engine,
        given.file,
        progress=lambda count: call.progress("restore", count, None),
        told=call.progress,
    )
    return RestoreResult(
        file=file.path.name,
        memories=done.memories,
        skipped=done.skipped,
        links=done.links,
        versions=done.versions,
        scopes=done.scopes,
        safety=safety.path.name,
        note="What is here already stays as it is, also if it was forgotten since." if done.skipped else "",
    )


STATS = Operation("stats", "How much is remembered.", StatsInput, StatsResult, _stats, Effect.READS)
BACKUP = Operation(
    "backup",
    "Write everything into a verified file.",
    BackupInput,
    BackupView,
    _backup,
    Effect.WRITES,
    owner_only=True,
)
LIST_BACKUPS = Operation(
    "list_backups",
    "The backups that there are.",
    ListBackupsInput,
    ListBackupsResult,
    _list_backups,
    Effect.READS,
    owner_only=True,
)
RESTORE = Operation(
    "restore",
    "Bring back what a backup holds.",
    RestoreInput,
    RestoreResult,
    _restore,
    Effect.WRITES,
    owner_only=True,
)
