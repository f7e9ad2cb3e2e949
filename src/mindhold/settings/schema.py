"""All settings: each one once, with its default and its meaning."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from mindhold.model.scope import StorageMode
from mindhold.settings.sections import (
    BackupSettings,
    CaptureSettings,
    HistorySettings,
    LlmSettings,
    MaintenanceSettings,
    NliSettings,
    RecapSettings,
    RemoteSettings,
    RetentionSettings,
    RlmSettings,
)
from mindhold.settings.sections import setting as _setting

CONFIG_FILE = "config.toml"


TOOLSETS = ("core", "capture", "history", "assistant", "project", "fragments", "all")


def _no_toolset(names: str) -> str:
    unknown = [name for name in names.split(",") if name.strip().casefold() not in TOOLSETS]
    return f"no list of toolsets; there are {', '.join(TOOLSETS)}" if unknown else ""


def _no_time_zone(name: str) -> str:
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        if name:
            ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return "no time zone; a name such as Europe/Berlin is"
    return ""


@dataclass(frozen=True, slots=True)
class StoreSettings:
    mode: StorageMode = _setting(  # noqa: RUF009
        "local",
        "Where memories live: a file here, PostgreSQL or MongoDB. A project may have another storage mode of its own.",
    )
    path: str = _setting("", "Database file; empty means data/mindhold.db in the home folder.")
    busy_timeout_ms: int = _setting(10_000, "How long to wait for another process's write.", least=0)
    durability: Literal["full", "normal"] = _setting(
        "full", "full survives a power cut; normal is faster and survives a crash of the program."
    )


@dataclass(frozen=True, slots=True)
class PostgresSettings:
    url: str = _setting(
        "",
        "postgresql:// address with all parts in one; it wins over the parts below.",
        secret=True,
    )
    host: str = _setting("", "Host name, or folder of the socket.", aliases=("POSTGRES_HOST", "DB_HOST"))
    port: int = _setting(5432, "Port.", aliases=("POSTGRES_PORT", "DB_PORT"), least=1, most=65535)
    database: str = _setting("mindhold", "Name of the database.", aliases=("POSTGRES_DB", "DB_NAME"))
    user: str = _setting("", "Who connects.", aliases=("POSTGRES_USER", "DB_USER"))
    password: str = _setting(
        "", "The user's password.", aliases=("POSTGRES_PASSWORD", "DB_PASSWORD"), secret=True
    )
    max_connections: int = _setting(
        20, "Most connections of one process.", aliases=("DB_MAX_CONNECTIONS",), least=2, most=1_000
    )
    idle_timeout_ms: int = _setting(
        30_000, "How long an unused connection is kept.", aliases=("DB_IDLE_TIMEOUT_MS",), least=100
    )
    connection_timeout_ms: int = _setting(
        10_000, "How long to wait for a connection.", aliases=("DB_CONN_TIMEOUT_MS",), least=100
    )
    query_timeout_ms: int = _setting(
        30_000, "How long one statement may take.", aliases=("DB_QUERY_TIMEOUT",), least=100
    )


@dataclass(frozen=True, slots=True)
class MongoSettings:
    mode: Literal["auto", "embedded", "external"] = _setting(
        "auto",
        "embedded starts a private mongod; external connects to `uri`; auto is external where there is a `uri`.",
    )
    uri: str = _setting(
        "",
        "Address of an external MongoDB, name and password included; empty means mongodb://localhost:27017 where "
        "mongodb.mode is external.",
        aliases=("MONGODB_URI", "MONGODB_CONNECTION_STRING"),
        secret=True,
    )
    database: str = _setting(
        "",
        "Name of the database; empty means the one that `uri` names, else claude_memory.",
        aliases=("MONGODB_DATABASE",),
    )
    mongod: str = _setting(
        "", "The mongod program of the embedded mode; empty looks on the PATH and for the `mongod` extra."
    )
    timeout_ms: int = _setting(10_000, "How long one call may wait for the server.", least=100)
    max_connections: int = _setting(20, "Most connections of one process.", least=2, most=1_000)


@dataclass(frozen=True, slots=True)
class RedisSettings:
    enabled: bool = _setting(
        False, "Whether a Redis stands beside the store; it is never needed.", aliases=("REDIS_ENABLED",)
    )
    host: str = _setting("localhost", "Host name.", aliases=("REDIS_HOST",))
    port: int = _setting(6379, "Port.", aliases=("REDIS_PORT",), least=1, most=65535)
    username: str = _setting("", "Who connects, where the server has users.", aliases=("REDIS_USERNAME",))
    password: str = _setting("", "Its password.", aliases=("REDIS_PASSWORD",), secret=True)
    database: int = _setting(0, "Number of the database.", aliases=("REDIS_DB",), least=0)
    tls: bool = _setting(False, "Whether the connection is encrypted.", aliases=("REDIS_TLS",))
    sentinel: bool = _setting(
        False, "Whether Sentinels are asked where the master is.", aliases=("REDIS_SENTINEL_ENABLED",)
    )
    master_name: str = _setting("mymaster", "The Sentinels' name of it.", aliases=("REDIS_MASTER_NAME",))
    sentinels: str = _setting(
        "localhost:26379, localhost:26380, localhost:26381",
        "The Sentinels, host:port by commas.",
        aliases=("REDIS_SENTINELS",),
    )
    sentinel_password: str = _setting(
        "",
        "The Sentinels' own password, if they have one.",
        aliases=("REDIS_SENTINEL_PASSWORD",),
        secret=True,
    )
    timeout_ms: int = _setting(500, "How long one call may wait for it.", least=10)
    cache: bool = _setting(True, "Whether answers are cached in it.", aliases=("CACHE_ENABLED",))
    cache_seconds: int = _setting(
        300, "How long a cached answer is kept.", aliases=("CACHE_DB_TTL",), least=1
    )


@dataclass(frozen=True, slots=True)
class EmbeddingSettings:
    provider: Literal["local", "openai", "voyage", "compatible", "hashing", "none"] = _setting(
        "local",
        "local runs a pulled model; openai, voyage and compatible (any server that speaks OpenAI's protocol) send "
        "texts to that service; hashing needs no model but knows no meaning; none is full text only.",
    )
    model: str = _setting(
        "auto",
        "Which model; auto keeps the local one that made the stored vectors, else the best one pulled, and takes a "
        "service's usual one.",
        aliases=("EMBEDDING_MODEL",),
    )
    dimensions: int = _setting(
        0,
        "Length of a service's vectors; 0 is the model's own.",
        aliases=("EMBEDDING_DIMENSIONS",),
        least=0,
        most=4_000,
    )
    openai_key: str = _setting("", "Key to OpenAI.", aliases=("OPENAI_API_KEY",), secret=True)
    voyage_key: str = _setting("", "Key to Voyage.", aliases=("VOYAGE_API_KEY",), secret=True)
    compatible_key: str = _setting("", "Key to the compatible service, if it wants one.", secret=True)
    base_url: str = _setting("", "Address of the service; empty means the provider's own.")
    batch: int = _setting(128, "Most texts in one call of a service.", least=1, most=2_048)
    requests_per_minute: int = _setting(0, "Most calls of a service in a minute; 0 is no limit.", least=0)
    tokens_per_minute: int = _setting(0, "Most tokens sent to a service in a minute; 0 is no limit.", least=0)
    wait_seconds: int = _setting(30, "How long to wait for a service.", least=1, most=600)
    price: float = _setting(
        -1.0, "Dollars for a million tokens of a service; -1 takes the list price known here.", least=-1
    )
    daily_tokens: int = _setting(
        0, "Most tokens that a service may be sent in a day (UTC); 0 is no limit.", least=0
    )
    window_tokens: int = _setting(
        0,
        "Longer texts go to a service in windows of so many tokens; 0 suits the model.",
        least=0,
        most=100_000,
    )
    plain_http: bool = _setting(
        False, "Whether texts and key may go to a service on another machine by http, readable on the way."
    )
    precision: Literal["auto", "int8", "float"] = _setting(
        "auto", "int8 is half again as fast and ranks alike; auto keeps what is pulled."
    )
    threads: int = _setting(0, "Threads for one inference; 0 chooses by the machine.", least=0, most=64)
    device: Literal["cpu", "gpu"] = _setting(
        "cpu",
        "Where a local model runs; gpu needs an ONNX Runtime that offers one, and is the cpu where it doesn't.",
    )
    cache_size: int = _setting(4096, "How many vectors of repeated texts are kept in memory.", least=0)


@dataclass(frozen=True, slots=True)
class IntakeSettings:
    longest: int = _setting(1_000_000, "Most characters that one call may store.", least=100)
    part_length: int = _setting(4_000, "Longer texts are split into linked parts of at most this.", least=200)
    redact: bool = _setting(True, "Replace secrets and personal data before anything is written.")
    noise_gate: bool = _setting(True, "Pass over texts such as 'ok' and 'thanks'.")
    link_threshold: float = _setting(0.7, "Similarity above which memories are linked.", least=0.0, most=1.0)
    near_duplicate: float = _setting(
        0.85, "Similarity above which two texts are compared for saying the same.", least=0.0, most=1.0
    )
    most_links: int = _setting(3, "Most automatic links of one memory.", least=0, most=50)


@dataclass(frozen=True, slots=True)
class RecallSettings:
    limit: int = _setting(10, "How many memories a recall returns unless asked otherwise.", least=1, most=200)
    floor: float = _setting(
        -1.0, "Score below which nothing is returned; -1 takes the measured one.", least=-1, most=1
    )
    longest_hit: int = _setting(2_000, "Most characters of one hit in an answer.", least=80)
    longest_answer: int = _setting(60_000, "Most characters of all hits together.", least=200)
    importance_weight: float = _setting(
        0.6, "How much importance counts where memories answer equally well.", least=0.0, most=1.0
    )
    recency_weight: float = _setting(
        0.4, "How much recency counts there; the two must sum to 1.", least=0.0, most=1.0
    )
    composite_from: int = _setting(
        100, "Memories within reach below which equals simply stand in order of time.", least=0
    )
    most_linked: int = _setting(10, "Most linked memories that come along.", least=0, most=100)


@dataclass(frozen=True, slots=True)
class ServeSettings:
    host: str = _setting(
        "127.0.0.1", "Address that `mindhold serve` listens on; any but loopback needs a key."
    )
    port: int = _setting(
        3333, "Port that `mindhold serve` listens on.", aliases=("PORT",), least=0, most=65535
    )
    public_url: str = _setting("", "The address that clients use, where a proxy stands in front.")
    trusted_proxies: str = _setting(
        "", "Addresses of proxies that are believed for whom they ask (X-Forwarded-For), by commas."
    )
    allowed_hosts: str = _setting("", "Further host names that requests may name, by commas.")
    allowed_origins: str = _setting(
        "", "Web origins that may call, by commas; none by default.", aliases=("ALLOWED_ORIGINS",)
    )
    session_ttl_minutes: int = _setting(
        60, "How long an idle MCP session is kept.", aliases=("SESSION_TTL_MINUTES",), least=1, most=43_200
    )
    most_sessions: int = _setting(10_000, "Most MCP sessions at once.", least=1)
    largest_body: int = _setting(4_194_304, "Most bytes of one request.", least=1_024)
    requests_per_minute: int = _setting(
        6_000, "Most requests of one key in a minute; 0 is no limit.", least=0
    )
    slow_client_seconds: int = _setting(
        30, "How long a client may take to send a request, or to read on.", least=1, most=3_600
    )
    stop_seconds: int = _setting(
        10, "How long requests under way may take when the server stops.", least=0, most=600
    )


@dataclass(frozen=True, slots=True)
class LogSettings:
    level: Literal["debug", "info", "warning", "error"] = _setting(
        "info", "How much is logged; only debug may show what a call was about."
    )
    directory: str = _setting(
        "", "Where logs go; empty means logs/ in the home folder.", aliases=("LOG_DIR",)
    )
    keep_days: int = _setting(14, "How many days of logs are kept.", least=1, most=3_650)
    most_megabytes: int = _setting(
        50, "How large logs may get together; the oldest go first.", least=1, most=100_000
    )


@dataclass(frozen=True, slots=True)
class LifeSettings:
    stale_days_procedure: int = _setting(30, "Days unused until a procedure is stale.", least=1)
    stale_days_fact: int = _setting(60, "Days unused until a fact is stale.", least=1)
    stale_days_decision: int = _setting(90, "Days unused until a decision is stale.", least=1)
    stale_days_note: int = _setting(90, "Days unused until a note is stale.", least=1)
    stale_days_other: int = _setting(
        60, "Days unused until anything else is; preferences and errors never are.", least=1
    )
    hot_days: int = _setting(7, "Days unused until a hot memory is warm.", least=1)
    archive_below: float = _setting(
        0.35, "Only what has faded below this importance is archived.", least=0.0, most=1.0
    )
    keep_archived_days: int = _setting(
        180, "Days in the archive until a memory is removed for good; 0 keeps it.", least=0
    )
    anchor_uses: int = _setting(10, "Uses from which an important memory becomes an anchor.", least=1)
    anchor_importance: float = _setting(0.8, "The importance that it needs for that.", least=0.0, most=1.0)
    consolidate_hours: int = _setting(
        24,
        "Hours between two consolidations; 24 and more: at night, by maintenance; 0: only when asked.",
        least=0,
    )
    batch: int = _setting(500, "Memories that a consolidation takes at a time.", least=1, most=10_000)
    seconds: int = _setting(60, "Seconds that one consolidation may take.", least=1, most=86_400)
    reflect: bool = _setting(True, "Whether conversations that end are reflected upon by themselves.")


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that can be set. `home` is where all of it lives."""

    home: Path = field(default_factory=lambda: Path.home() / ".mindhold")
    agent: str = _setting("default", "Whose memories these are.")
    scope: str = _setting("Global", "The scope that calls are made in.")
    time_zone: str = _setting(
        "",
        "The person's time zone, such as Europe/Berlin; empty means the machine's.",
        doubt=_no_time_zone,
    )
    date_order: Literal["YMD", "MDY", "DMY"] = _setting("MDY", "How 3/4/2024 is read.")
    toolsets: str = _setting(
        "core",
        "Which MCP tools are served, by commas: core, fragments, history, assistant, project, capture, all.",
        doubt=_no_toolset,
    )
    access_key: str = _setting(
        "", "The owner's key to `mindhold serve`.", aliases=("MEMENTO_ACCESS_KEY",), secret=True
    )
    store: StoreSettings = field(default_factory=StoreSettings)
    postgres: PostgresSettings = field(default_factory=PostgresSettings)
    mongodb: MongoSettings = field(default_factory=MongoSettings)
    redis: RedisSettings = field(default_factory=RedisSettings)
    embedding: EmbeddingSettings = field(default_factory=EmbeddingSettings)
    intake: IntakeSettings = field(default_factory=IntakeSettings)
    recall: RecallSettings = field(default_factory=RecallSettings)
    life: LifeSettings = field(default_factory=LifeSettings)
    retention: RetentionSettings = field(default_factory=RetentionSettings)
    maintenance: MaintenanceSettings = field(default_factory=MaintenanceSettings)
    capture: CaptureSettings = field(default_factory=CaptureSettings)
    history: HistorySettings = field(default_factory=HistorySettings)
    rlm: RlmSettings = field(default_factory=RlmSettings)
    serve: ServeSettings = field(default_factory=ServeSettings)
    log: LogSettings = field(default_factory=LogSettings)
    llm: LlmSettings = field(default_factory=LlmSettings)
    nli: NliSettings = field(default_factory=NliSettings)
    remote: RemoteSettings = field(default_factory=RemoteSettings)
    recaps: RecapSettings = field(default_factory=RecapSettings)
    backup: BackupSettings = field(default_factory=BackupSettings)

    @property
    def database(self) -> Path:
        return Path(self.store.path).expanduser() if self.store.path else self.home / "data" / "mindhold.db"

    @property
    def models_dir(self) -> Path:
        return self.home / "models"

    @property
    def logs_dir(self) -> Path:
        return Path(self.log.directory).expanduser() if self.log.directory else self.home / "logs"

    @property
    def export_dir(self) -> Path:
        return self.home / "export"

    @property
    def claude_dir(self) -> Path:
        named = self.history.claude_dir
        return Path(named).expanduser() if named else Path.home() / ".claude"

    @property
    def codex_dir(self) -> Path:
        named = self.history.codex_dir
        return Path(named).expanduser() if named else Path.home() / ".codex"

    @property
    def gemini_dir(self) -> Path:
        named = self.history.gemini_dir
        return Path(named).expanduser() if named else Path.home() / ".gemini"

    @property
    def cursor_dir(self) -> Path | None:
        return Path(self.history.cursor_dir).expanduser() if self.history.cursor_dir else None

    @property
    def history_index(self) -> Path:
        return self.home / "data" / "history.db"

    @property
    def archive_dir(self) -> Path:
        return self.home / "archive"

    @property
    def config_file(self) -> Path:
        return self.home / CONFIG_FILE
