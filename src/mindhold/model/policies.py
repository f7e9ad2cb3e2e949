"""The rules that features are configured with: recaps, backups, capture, history and maintenance."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

from mindhold.model.memory import Kind

RECAP = (
    "mindhold.recap"  # in the metadata of each: which part of its conversation, or which time, it stands for
)
RECAP_SOURCE = "summary"  # Provenance.source of one
RECAP_TAG = "summary"
CONVERSATION_RECAP, MONTH_RECAP, YEAR_RECAP = 1, 2, 3  # levels
# What each is about, so that a store finds those of a level.
RECAP_TOPICS = {
    CONVERSATION_RECAP: "conversation summary",
    MONTH_RECAP: "summary of a month",
    YEAR_RECAP: "summary of a year",
}


@dataclass(frozen=True, slots=True)
class RecapRules:
    """The knobs; app fills them from the settings."""

    enabled: bool = True
    from_messages: int = 8  # a conversation that ends with fewer is its own summary
    every_messages: int = 50  # most that one part of a long conversation stands for
    old_days: int = 180  # from when on those of a month become one
    longest_tokens: int = 400


@dataclass(frozen=True, slots=True)
class BackupRules:
    """The knobs of backups. The passphrase is known while the process runs, and shown by nothing."""

    schedule: bool = True
    keep_daily: int = 7
    keep_weekly: int = 4
    encrypt: bool = False
    passphrase: str = field(default="", repr=False)


CAPTURED_KINDS = frozenset(
    {
        Kind.DECISION,
        Kind.ERROR,
        Kind.PREFERENCE,
        Kind.PROCEDURE,
        Kind.ARCHITECTURE,
        Kind.PATTERN,
        Kind.GOTCHA,
        Kind.PROGRESS,
        Kind.CONTEXT,
    }
)


@dataclass(frozen=True, slots=True)
class CaptureRules:
    """App fills them from the settings, which say what each is for."""

    enabled: bool = True
    kinds: frozenset[Kind] = CAPTURED_KINDS
    exclude: tuple[str, ...] = ()
    subagents: bool = True
    by_model: bool = False
    most_calls: int = 10
    start_tokens: int = 1_500
    prompt_tokens: int = 400
    prompt_most: int = 3
    errors: bool = True
    condense_every: int = 10
    condense_above: int = 80
    condense_from: int = 5
    keep_dropped_days: int = 14
    document_lines: int = 150


DEFAULT_ARCHIVE_BYTES = 2_000 << 20  # bytes of archive


@dataclass(frozen=True, slots=True)
class HistoryRules:
    """App fills them from the settings, which say what each is for."""

    enabled: bool = True
    agents: tuple[str, ...] | None = None  # None: any
    exclude: tuple[str, ...] = ()
    subagents: bool = True
    vectors: bool = True
    archive: bool = False
    archive_hours: int = 24
    archive_room: int = DEFAULT_ARCHIVE_BYTES
    by_model: bool = True
    most_calls: int = 12


@dataclass(frozen=True, slots=True)
class RlmRules:
    """How a recursive language model is asked about conversations."""

    provider: str = "claude-sdk"
    model: str = "claude-haiku-4-5"
    concurrency: int = 4
    most_conversations: int = 10
    relevance: float = 0.5
    chunk_lines: int = 100
    most_characters: int = 400_000
    seconds: float = 90.0


LONGEST_IDLE_WAIT = timedelta(hours=4)  # so long a due run waits for quiet; then it runs beside other work


@dataclass(frozen=True, slots=True)
class MaintenanceRules:
    """As the settings have it."""

    schedule: bool = True
    hour: time = time(3)
    idle: timedelta = timedelta(minutes=5)
    seconds: float = 600.0


def next_run(last: datetime, now: datetime, zone: ZoneInfo, hour: time) -> datetime:
    """The first time that it is `hour` there after the `last` run: past, if nights were missed, and then it is one run for all.

    An hour that the clocks leave out in spring comes as much later as they are put forward; of one that they repeat in
    autumn the first counts. A `last` that lies ahead, by a clock that was wrong then, counts as now.
    """
    since = min(last, now)
    day = since.astimezone(zone).date() - timedelta(days=1)
    while True:
        moment = datetime.combine(day, hour, tzinfo=zone).astimezone(UTC)
        if moment > since:
            return moment
        day += timedelta(days=1)


def is_time(due: datetime, now: datetime, *, quiet: bool) -> bool:
    """Whether what is due is to begin: at once when it is quiet, else when it has waited long enough."""
    return now >= due and (quiet or now >= due + LONGEST_IDLE_WAIT)
