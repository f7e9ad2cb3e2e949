"""The settings of single features: backup, capture, history, language models, maintenance, NLI, summaries, remote server, retention."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import time, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast, get_args
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from mindhold.model.lifecycle import LifecycleRules
    from mindhold.model.memory import Kind


def setting(
    default: Any,
    description: str,
    *,
    aliases: tuple[str, ...] = (),
    least: float | None = None,
    most: float | None = None,
    problem: Callable[[Any], str] | None = None,
    secret: bool = False,
) -> Any:
    """Declare one setting. A `secret` is never shown. `problem` says what is wrong with a value of the right type; empty if it is fine."""
    return field(
        default=default,
        repr=not secret,
        metadata={
            "description": description,
            "aliases": aliases,
            "least": least,
            "most": most,
            "problem": problem,
            "secret": secret,
        },
    )


PASSPHRASE = "backup.passphrase"
_LONGEST_PASSPHRASE = 10_000  # bytes


@dataclass(frozen=True, slots=True)
class BackupSettings:
    schedule: bool = setting(True, "Make a backup every day, by maintenance, and drop the oldest of them.")
    keep_daily: int = setting(7, "Daily backups that are kept.", least=1, most=366)
    keep_weekly: int = setting(4, "Weekly backups that are kept: the first of each week.", least=0, most=520)
    encrypt: bool = setting(
        False, "Encrypt every backup. Without a passphrase none is made: none is made in clear."
    )
    passphrase: str = setting(
        "",
        "What backups are encrypted with, for the time of a call. Set it in the environment or use passphrase_file: the "
        "settings file is no place for it, and refuses it.",
        secret=True,
    )
    passphrase_file: str = setting("", "A file whose first line is the passphrase; for your eyes alone.")

    def read_passphrase(self) -> str:
        """The passphrase, or the first line of `passphrase_file`; empty where that can't be read."""
        if self.passphrase or not self.passphrase_file:
            return self.passphrase
        return first_line(Path(self.passphrase_file).expanduser()) or ""


def first_line(path: Path) -> str | None:
    """The first line of a file; None if it is empty or can't be read."""
    try:
        if not path.is_file():  # reading a pipe would never end
            return None
        with path.open("rb") as file:
            lines = file.read(_LONGEST_PASSPHRASE).decode("utf-8-sig").splitlines()
    except (OSError, ValueError):
        return None
    return lines[0] if lines and lines[0] else None


KINDS = (
    "decision",
    "error",
    "preference",
    "procedure",
    "architecture",
    "pattern",
    "gotcha",
    "progress",
    "context",
)


def comma_list(value: str) -> tuple[str, ...]:
    """The parts of a comma-separated list, without empty ones."""
    return tuple(part for part in (piece.strip() for piece in value.split(",")) if part)


def _only_names(known: tuple[str, ...], what: str) -> Callable[[str], str]:
    """A check that a list has only known names."""

    def problem(value: str) -> str:
        unknown = [name for name in comma_list(value) if name not in known]
        return f"no list of {what}: {unknown[0]!r} is none of {', '.join(known)}" if unknown else ""

    return problem


@dataclass(frozen=True, slots=True)
class CaptureSettings:
    enabled: bool = setting(True, "Whether what Claude Code's hooks report is captured.")
    kinds: str = setting(
        "",
        "What is captured, by commas; empty means everything.",
        problem=_only_names(KINDS, "what is captured"),
    )
    exclude: str = setting(
        "", "Folders whose conversations are never read, by commas; * and ? stand for anything in them."
    )
    subagents: bool = setting(True, "Whether the conversations of sub-agents are captured too.")
    extract_with: Literal["rules", "model"] = setting(
        "rules",
        "Who picks out what is worth keeping: rules on this machine, or the language model of llm.provider, which is "
        "then sent the conversations, without secrets.",
    )
    project_log: bool = setting(
        False,
        "Whether what was said is also saved as the project's messages and worked into its summary, unless the project "
        "says otherwise.",
    )
    most_calls: int = setting(
        10, "Most calls of the model for one capture; the rest is left to rules.", least=0, most=1_000
    )
    start_tokens: int = setting(
        1_000, "Tokens of memory that a conversation begins with; 0 is none.", least=0, most=2_400
    )
    prompt_tokens: int = setting(
        400, "Tokens of memory that a prompt may bring to mind; 0 is none.", least=0, most=2_400
    )
    prompt_most: int = setting(3, "Most memories that one prompt brings to mind.", least=1, most=20)
    errors: bool = setting(True, "Whether a failure that was solved before brings its solution to mind.")
    condense_every: int = setting(10, "Captures after which what was captured is condensed.", least=1)
    condense_above: int = setting(80, "Active memories of a project above which it is.", least=1)
    condense_from: int = setting(5, "Memories of a kind from which on they are.", least=2)
    keep_dropped_days: int = setting(
        14, "Days until what condensing dropped is removed; 0 keeps it.", least=0, most=36_500
    )
    document_lines: int = setting(
        150, "Lines of memory in CLAUDE.md, where it has our markers.", least=20, most=1_000
    )
    worker_seconds: int = setting(
        600, "Most seconds that one run of the worker may take.", least=10, most=3_600
    )

    @property
    def captured_kinds(self) -> frozenset[Kind]:
        from mindhold.model.memory import Kind

        return frozenset(Kind(name) for name in comma_list(self.kinds) or KINDS)

    @property
    def excluded(self) -> tuple[str, ...]:
        return comma_list(self.exclude)

    @property
    def by_model(self) -> bool:
        return self.extract_with == "model"


AGENTS = ("claude", "codex", "gemini", "cursor")


@dataclass(frozen=True, slots=True)
class HistorySettings:
    enabled: bool = setting(True, "Whether past conversations are indexed and searched.")
    claude_dir: str = setting(
        "",
        "Claude Code's folder with its transcripts; empty means ~/.claude.",
        aliases=("CLAUDE_CONFIG_DIR",),
    )
    agents: str = setting(
        "claude,codex,gemini,cursor",
        "Whose conversations are read, by commas.",
        problem=_only_names(AGENTS, "agents"),
    )
    codex_dir: str = setting("", "Codex CLI's folder; empty means ~/.codex.", aliases=("CODEX_HOME",))
    gemini_dir: str = setting("", "Gemini CLI's folder; empty means ~/.gemini.")
    cursor_dir: str = setting("", "A folder with chats exported from Cursor; empty means none.")
    exclude: str = setting(
        "",
        "Projects and folders whose conversations are never indexed, by commas; * and ? stand for anything in them. "
        "Those of capture.exclude aren't either.",
    )
    subagents: bool = setting(True, "Whether what sub-agents said is indexed too.")
    vectors: bool = setting(True, "Whether conversations are also found by meaning, where there is a model.")
    watch: bool = setting(True, "Whether a running server keeps the index current.")
    archive: bool = setting(
        False, "Whether transcripts are kept, compressed, when the program that made them deletes them."
    )
    archive_hours: int = setting(24, "Hours between two looks at what must be archived.", least=1, most=720)
    archive_max_mb: int = setting(
        2_000, "Megabytes that the archive may have; the oldest conversations make room.", least=1
    )
    read_with: Literal["auto", "index"] = setting(
        "auto",
        "Who reads the best passages before memory_recall answers: `auto` the RLM server, else the language model of "
        "llm.provider, where there is one, which is then sent them without secrets; `index` nobody.",
    )
    most_calls: int = setting(12, "Most calls of the model for one answer.", least=1, most=100)

    @property
    def agent_names(self) -> tuple[str, ...]:
        return comma_list(self.agents)

    @property
    def archive_bytes(self) -> int:
        return round(self.archive_max_mb * (1 << 20))

    @property
    def by_model(self) -> bool:
        return self.read_with == "auto"


CLAUDE_SDK = "claude-sdk"  # the provider of RLM servers that starts Claude Code


@dataclass(frozen=True, slots=True)
class RlmSettings:
    server_path: str = setting(
        "", "The folder of an RLM server, which `uv` runs; empty means none.", aliases=("RLM_SERVER_PATH",)
    )
    command: str = setting("", "The command that starts an RLM server, instead of `uv` in rlm.server_path.")
    provider: str = setting(CLAUDE_SDK, "Whom the RLM server asks.")
    model: str = setting("claude-haiku-4-5", "By which model.")
    concurrency: int = setting(4, "Calls that it makes at once.", least=1, most=8)
    most_conversations: int = setting(
        10, "Most conversations that it reads for one answer.", least=1, most=100
    )
    most_characters: int = setting(
        400_000,
        "Most characters of conversations that its model reads for one answer; about four are a token.",
        least=1_000,
    )
    relevance: float = setting(
        0.5, "What it, or a language model, finds less relevant than that is left out.", least=0.0, most=1.0
    )
    timeout_seconds: int = setting(60, "Seconds that one call of it may take.", least=1, most=3_600)
    answer_seconds: int = setting(
        90, "Seconds that one answer by it may take; then the index answers.", least=1, most=3_600
    )
    start_seconds: int = setting(30, "Seconds that its start may take.", least=1, most=600)
    tries: int = setting(3, "How often a connection is tried.", least=1, most=10)


Provider = Literal["none", "anthropic", "openai", "compatible", "claude_cli", "gemini_cli"]
_CHOICE = re.compile(
    r"(?P<provider>[a-z_]+)(?: *: *(?P<model>[^\s@]\S*?))?(?: *@ *(?P<address>https?://\S+))?"
)


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """A provider, its model and its address; empty parts are the provider's usual ones."""

    provider: Provider
    model: str = ""
    address: str = ""


def origin_of(address: str) -> tuple[str, str, int | None]:
    """Scheme, host and port of an address. A key is sent to one origin only."""
    try:
        parts = urlsplit(address.strip())
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:  # not an address
        return address, "", None
    return parts.scheme, parts.hostname or "", port


def fallbacks(value: str) -> tuple[ModelChoice, ...]:
    """Parse a list such as `claude_cli, compatible:qwen3@http://localhost:11434/v1`. Raises ValueError, saying what is wrong."""
    choices = []
    for part in comma_list(value):
        match = _CHOICE.fullmatch(part)
        names = [name for name in get_args(Provider) if name != "none"]
        if match is None or match["provider"] not in names:
            raise ValueError(f"{part!r} is none of {', '.join(names)}, with :MODEL and @ADDRESS where wanted")
        provider = cast("Provider", match["provider"])
        choices.append(ModelChoice(provider, match["model"] or "", match["address"] or ""))
    return tuple(choices)


def _fallback_problem(value: str) -> str:
    try:
        fallbacks(value)
    except ValueError as error:
        return f"no list of whom to ask next: {error}"
    return ""


@dataclass(frozen=True, slots=True)
class LlmSettings:
    provider: Provider = setting(  # noqa: RUF009
        "none",
        "Who judges new memories, answers questions and settles contradictions: anthropic, openai and compatible (any "
        "server that speaks OpenAI's protocol, such as Ollama) are sent remembered text; claude_cli and gemini_cli ask "
        "by those programs; none leaves it to rules, and nothing leaves this machine.",
    )
    fallback: str = setting(
        "",
        "Who is asked next where the provider fails, by commas: a provider, with :MODEL and @ADDRESS where it needs them, such as "
        "claude_cli, compatible:qwen3@http://localhost:11434/v1.",
        problem=_fallback_problem,
    )
    model: str = setting("auto", "Which model; auto takes the provider's usual one.")
    base_url: str = setting("", "Address of the service; empty means the provider's own.")
    anthropic_key: str = setting("", "Key to Anthropic.", aliases=("ANTHROPIC_API_KEY",), secret=True)
    openai_key: str = setting("", "Key to OpenAI.", aliases=("OPENAI_API_KEY",), secret=True)
    compatible_key: str = setting("", "Key to the compatible service, if it wants one.", secret=True)
    gemini_key: str = setting(
        "",
        "Key to Gemini, handed to its program; needless where that is logged in.",
        aliases=("GEMINI_API_KEY",),
        secret=True,
    )
    command: str = setting(
        "", "The program of claude_cli or gemini_cli; empty looks for claude or gemini on the PATH."
    )
    plain_http: bool = setting(
        False, "Whether texts and key may go to a service on another machine by http, readable on the way."
    )
    sampling: bool = setting(
        False, "Whether an MCP client's own model may be asked, where the client offers it."
    )
    wait_seconds: int = setting(30, "How long to wait for a language model.", least=1, most=600)
    most_output: int = setting(2_000, "Most tokens of one answer of the model.", least=100, most=100_000)
    daily_tokens: int = setting(
        200_000, "Most tokens that language models may be asked for in a day (UTC); 0 is none.", least=0
    )
    daily_dollars: float = setting(
        0.0, "Most dollars that language models may cost in a day (UTC); 0 is no limit.", least=0
    )
    price_in: float = setting(
        -1.0,
        "Dollars for a million tokens that the model is sent; -1 takes the list price known here.",
        least=-1,
    )
    price_out: float = setting(
        -1.0, "Dollars for a million tokens that it answers; -1 takes the list price known here.", least=-1
    )


def hour_of(text: str) -> time:
    """The time of day that a text such as 03:00 names. Raises ValueError."""
    hours, _, minutes = text.strip().partition(":")
    if not (hours.isdecimal() and minutes.isdecimal() and len(minutes) == 2):
        raise ValueError(text)
    return time(int(hours), int(minutes))


def _hour_problem(text: str) -> str:
    try:
        hour_of(text)
    except ValueError:
        return "no time of day; one such as 03:00 is"
    return ""


@dataclass(frozen=True, slots=True)
class MaintenanceSettings:
    schedule: bool = setting(True, "Whether maintenance runs every night by itself, where something runs.")
    hour: str = setting("03:00", "At what time of the person's day it is due.", problem=_hour_problem)
    idle_minutes: int = setting(
        5,
        "How long nobody may have called for it to begin; it waits for that, but not for hours.",
        least=0,
        most=240,
    )
    seconds: int = setting(600, "Seconds that one maintenance may take.", least=1, most=86_400)

    @property
    def time_of_day(self) -> time:
        return hour_of(self.hour)

    @property
    def idle(self) -> timedelta:
        return timedelta(minutes=self.idle_minutes)


@dataclass(frozen=True, slots=True)
class NliSettings:
    model: str = setting(
        "auto",
        "Which pulled model tells contradictions where the rules aren't sure; auto takes the one that is here, none "
        "leaves it to the rules.",
    )
    threads: int = setting(0, "Pairs that it judges at once; 0 chooses by the machine.", least=0, most=64)


@dataclass(frozen=True, slots=True)
class RecapSettings:
    enabled: bool = setting(
        True, "Whether conversations of the log that end or grow long are summarised by themselves."
    )
    from_messages: int = setting(
        8, "Messages from which on a conversation that ends is summarised.", least=2, most=100_000
    )
    every_messages: int = setting(
        50,
        "Messages after which one that goes on is, and the most that one part stands for.",
        least=4,
        most=500,
    )
    old_days: int = setting(
        180, "Days after which the summaries of a month become one.", least=1, most=36_500
    )
    longest_tokens: int = setting(400, "Most tokens of one summary.", least=80, most=2_000)


def _address_problem(value: str) -> str:
    if not value:
        return ""
    try:
        parts = urlsplit(value)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    if not host or parts.scheme not in ("http", "https"):
        return "no address; one such as https://memory.example.org is"
    return ""


@dataclass(frozen=True, slots=True)
class RemoteSettings:
    url: str = setting(
        "",
        "Address of a `mindhold serve` that commands ask, instead of the store on this machine; empty means none. The "
        "MCP server and the hooks of this machine keep to its own store.",
        problem=_address_problem,
    )
    key: str = setting(
        "",
        "Key to it: the owner's, or one of `mindhold keys create`. In the settings file it is for the remote.url there alone.",
        secret=True,
    )
    insecure: bool = setting(False, "Whether the key may go to another machine by http, readable on the way.")
    wait_seconds: int = setting(
        60, "How long one request to it and its answer may take.", least=1, most=3_600
    )


MONTH = timedelta(days=365.25 / 12)
SHORTEST_MESSAGE_WINDOW = timedelta(days=21)
AGGRESSIVE_SHARE = 0.5  # what aggressive retention leaves of each period
AGGRESSIVE_BELOW = 0.5  # the importance below which it archives, unless the settings say more


@dataclass(frozen=True, slots=True)
class RetentionSettings:
    level: Literal["keep-all", "moderate", "aggressive"] = setting(
        "moderate",
        "How much goes by itself: nothing, what is old and unused, or that in half the time.",
    )
    keep_months: int = setting(
        6,
        "Months that messages of conversations stay as they are; three weeks at least.",
        least=0,
        most=1_200,
    )
    unused_days: int = setting(
        365,
        "Days after which what nobody ever used is archived, if it isn't important; 0: never.",
        least=0,
        most=36_500,
    )
    most_items: int = setting(
        100_000, "Active memories before which older ones are condensed and archived; 0 is no limit.", least=0
    )
    most_megabytes: int = setting(
        500, "Megabytes of active memories before which that is done; 0 is no limit.", least=0
    )
    keep_pruned_files: int = setting(
        10,
        "Of how many days the files of what upkeep removed are kept in backups/, the newest.",
        least=1,
        most=10_000,
    )

    @property
    def prunes(self) -> bool:
        """Whether anything goes by itself."""
        return self.level != "keep-all"

    @property
    def message_window(self) -> timedelta:
        """How long messages stay as they are."""
        share = AGGRESSIVE_SHARE if self.level == "aggressive" else 1.0
        return max(SHORTEST_MESSAGE_WINDOW, MONTH * self.keep_months * share)

    def shortened(self, days: int) -> int:
        """A number of days at this level; 0, which means never, stays 0."""
        if not days or self.level != "aggressive":
            return days
        return max(1, round(days * AGGRESSIVE_SHARE))


@dataclass(frozen=True, slots=True)
class LifeSettings:
    stale_days_procedure: int = setting(30, "Days unused until a procedure is stale.", least=1)
    stale_days_fact: int = setting(60, "Days unused until a fact is stale.", least=1)
    stale_days_decision: int = setting(90, "Days unused until a decision is stale.", least=1)
    stale_days_note: int = setting(90, "Days unused until a note is stale.", least=1)
    stale_days_other: int = setting(
        60, "Days unused until anything else is; preferences and errors never are.", least=1
    )
    hot_days: int = setting(7, "Days unused until a hot memory is warm.", least=1)
    archive_below: float = setting(
        0.35, "Only what has faded below this importance is archived.", least=0.0, most=1.0
    )
    keep_archived_days: int = setting(
        180, "Days in the archive until a memory is removed for good; 0 keeps it.", least=0
    )
    anchor_uses: int = setting(10, "Uses from which an important memory becomes an anchor.", least=1)
    anchor_importance: float = setting(0.8, "The importance that it needs for that.", least=0.0, most=1.0)
    consolidate_hours: int = setting(
        24,
        "Hours between two consolidations; 24 and more: at night, by maintenance; 0: only when asked.",
        least=0,
    )
    batch: int = setting(500, "Memories that a consolidation takes at a time.", least=1, most=10_000)
    seconds: int = setting(60, "Seconds that one consolidation may take.", least=1, most=86_400)
    reflect: bool = setting(True, "Whether conversations that end are reflected upon by themselves.")

    def rules(self, retention: RetentionSettings) -> LifecycleRules:
        """These settings at that level of retention."""
        from mindhold.model.lifecycle import LifecycleRules
        from mindhold.model.memory import Kind

        aggressive = retention.level == "aggressive"
        stale_days = {
            Kind.PROCEDURE: self.stale_days_procedure,
            Kind.FACT: self.stale_days_fact,
            Kind.DECISION: self.stale_days_decision,
            Kind.NOTE: self.stale_days_note,
        }
        return LifecycleRules(
            stale_days={kind: retention.shortened(days) for kind, days in stale_days.items()},
            other_stale_days=retention.shortened(self.stale_days_other),
            hot_days=self.hot_days,
            archive_below=max(self.archive_below, AGGRESSIVE_BELOW) if aggressive else self.archive_below,
            keep_archived_days=self.keep_archived_days,
            anchor_uses=self.anchor_uses,
            anchor_importance=self.anchor_importance,
            unused_days=retention.shortened(retention.unused_days),
            keeps_all=not retention.prunes,
        )
