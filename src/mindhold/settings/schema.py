"""All settings: each is declared once, with its type, default, limits and description."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from mindhold.model.scope import StorageMode
from mindhold.settings.sections import (
    BackupSettings,
    CaptureSettings,
    HistorySettings,
    LifeSettings,
    LlmSettings,
    MaintenanceSettings,
    NliSettings,
    RecapSettings,
    RemoteSettings,
    RetentionSettings,
    RlmSettings,
    comma_list,
    setting,
)

if TYPE_CHECKING:
    from mindhold.model.lifecycle import LifecycleRules


CONFIG_FILE = "config.toml"


TOOLSETS = ("core", "capture", "history", "assistant", "project", "fragments", "all")


def _path(text: str) -> Path | None:
    return Path(text).expanduser() if text else None


def _toolsets_problem(names: str) -> str:
    unknown = [name for name in names.split(",") if name.strip().casefold() not in TOOLSETS]
    return f"no list of toolsets; there are {', '.join(TOOLSETS)}" if unknown else ""


def _time_zone_problem(name: str) -> str:
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        if name:
            ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return "no time zone; a name such as Europe/Berlin is"
    return ""


@dataclass(frozen=True, slots=True)
class StoreSettings:
    mode: StorageMode = setting(  # noqa: RUF009
        "local",
        "Where memories live: a file here, PostgreSQL or MongoDB. A project may have another storage mode of its own.",
    )
    path: str = setting("", "Database file; empty means data/mindhold.db in the home folder.")
    busy_timeout_ms: int = setting(10_000, "How long to wait for another process's write.", least=0)
    durability: Literal["full", "normal"] = setting(
        "full", "full survives a power cut; normal is faster and survives a crash of the program."
    )


@dataclass(frozen=True, slots=True)
class PostgresSettings:
    url: str = setting(
        "",
        "postgresql:// address with all parts in one; it wins over the parts below.",
        secret=True,
    )
    host: str = setting("", "Host name, or folder of the socket.", aliases=("POSTGRES_HOST", "DB_HOST"))
    port: int = setting(5432, "Port.", aliases=("POSTGRES_PORT", "DB_PORT"), least=1, most=65535)
    database: str = setting("mindhold", "Name of the database.", aliases=("POSTGRES_DB", "DB_NAME"))
    user: str = setting("", "Who connects.", aliases=("POSTGRES_USER", "DB_USER"))
    password: str = setting(
        "", "The user's password.", aliases=("POSTGRES_PASSWORD", "DB_PASSWORD"), secret=True
    )
    max_connections: int = setting(
        20, "Most connections of one process.", aliases=("DB_MAX_CONNECTIONS",), least=2, most=1_000
    )
    idle_timeout_ms: int = setting(
        30_000, "How long an unused connection is kept.", aliases=("DB_IDLE_TIMEOUT_MS",), least=100
    )
    connection_timeout_ms: int = setting(
        10_000, "How long to wait for a connection.", aliases=("DB_CONN_TIMEOUT_MS",), least=100
    )
    query_timeout_ms: int = setting(
        30_000, "How long one statement may take.", aliases=("DB_QUERY_TIMEOUT",), least=100
    )


@dataclass(frozen=True, slots=True)
class MongoSettings:
    mode: Literal["auto", "embedded", "external"] = setting(
        "auto",
        "embedded starts a private mongod; external connects to `uri`; auto is external where there is a `uri`.",
    )
    uri: str = setting(
        "",
        "Address of an external MongoDB, name and password included; empty means mongodb://localhost:27017 where "
        "mongodb.mode is external.",
        aliases=("MONGODB_URI", "MONGODB_CONNECTION_STRING"),
        secret=True,
    )
    database: str = setting(
        "",
        "Name of the database; empty means the one that `uri` names, else claude_memory.",
        aliases=("MONGODB_DATABASE",),
    )
    mongod: str = setting(
        "", "The mongod program of the embedded mode; empty looks on the PATH and for the `mongod` extra."
    )
    timeout_ms: int = setting(10_000, "How long one call may wait for the server.", least=100)
    max_connections: int = setting(20, "Most connections of one process.", least=2, most=1_000)


@dataclass(frozen=True, slots=True)
class RedisSettings:
    enabled: bool = setting(
        False, "Whether a Redis stands beside the store; it is never needed.", aliases=("REDIS_ENABLED",)
    )
    host: str = setting("localhost", "Host name.", aliases=("REDIS_HOST",))
    port: int = setting(6379, "Port.", aliases=("REDIS_PORT",), least=1, most=65535)
    username: str = setting("", "Who connects, where the server has users.", aliases=("REDIS_USERNAME",))
    password: str = setting("", "Its password.", aliases=("REDIS_PASSWORD",), secret=True)
    database: int = setting(0, "Number of the database.", aliases=("REDIS_DB",), least=0)
    tls: bool = setting(False, "Whether the connection is encrypted.", aliases=("REDIS_TLS",))
    sentinel: bool = setting(
        False, "Whether Sentinels are asked where the master is.", aliases=("REDIS_SENTINEL_ENABLED",)
    )
    master_name: str = setting("mymaster", "The Sentinels' name of it.", aliases=("REDIS_MASTER_NAME",))
    sentinels: str = setting(
        "localhost:26379, localhost:26380, localhost:26381",
        "The Sentinels, host:port by commas.",
        aliases=("REDIS_SENTINELS",),
    )
    sentinel_password: str = setting(
        "",
        "The Sentinels' own password, if they have one.",
        aliases=("REDIS_SENTINEL_PASSWORD",),
        secret=True,
    )
    timeout_ms: int = setting(500, "How long one call may wait for it.", least=10)
    cache: bool = setting(True, "Whether answers are cached in it.", aliases=("CACHE_ENABLED",))
    cache_seconds: int = setting(300, "How long a cached answer is kept.", aliases=("CACHE_DB_TTL",), least=1)


@dataclass(frozen=True, slots=True)
class EmbeddingSettings:
    provider: Literal["local", "openai", "voyage", "compatible", "hashing", "none"] = setting(
        "local",
        "local runs a pulled model; openai, voyage and compatible (any server that speaks OpenAI's protocol) send "
        "texts to that service; hashing needs no model but knows no meaning; none is full text only.",
    )
    model: str = setting(
        "auto",
        "Which model; auto keeps the local one that made the stored vectors, else the best one pulled (the multilingual "
        "one if most of what is stored isn't English), and takes a service's usual one.",
        aliases=("EMBEDDING_MODEL",),
    )
    dimensions: int = setting(
        0,
        "Length of a service's vectors; 0 is the model's own.",
        aliases=("EMBEDDING_DIMENSIONS",),
        least=0,
        most=4_000,
    )
    openai_key: str = setting("", "Key to OpenAI.", aliases=("OPENAI_API_KEY",), secret=True)
    voyage_key: str = setting("", "Key to Voyage.", aliases=("VOYAGE_API_KEY",), secret=True)
    compatible_key: str = setting("", "Key to the compatible service, if it wants one.", secret=True)
    base_url: str = setting("", "Address of the service; empty means the provider's own.")
    batch: int = setting(128, "Most texts in one call of a service.", least=1, most=2_048)
    requests_per_minute: int = setting(0, "Most calls of a service in a minute; 0 is no limit.", least=0)
    tokens_per_minute: int = setting(0, "Most tokens sent to a service in a minute; 0 is no limit.", least=0)
    wait_seconds: int = setting(30, "How long to wait for a service.", least=1, most=600)
    price: float = setting(
        -1.0, "Dollars for a million tokens of a service; -1 takes the list price known here.", least=-1
    )
    daily_tokens: int = setting(
        0, "Most tokens that a service may be sent in a day (UTC); 0 is no limit.", least=0
    )
    window_tokens: int = setting(
        0,
        "Longer texts go to a service in windows of so many tokens; 0 suits the model.",
        least=0,
        most=100_000,
    )
    plain_http: bool = setting(
        False, "Whether texts and key may go to a service on another machine by http, readable on the way."
    )
    precision: Literal["auto", "int8", "float"] = setting(
        "auto", "int8 is half again as fast and ranks alike; auto keeps what is pulled."
    )
    threads: int = setting(0, "Threads for one inference; 0 chooses by the machine.", least=0, most=64)
    device: Literal["cpu", "gpu"] = setting(
        "cpu",
        "Where a local model runs; gpu needs an ONNX Runtime that offers one, and is the cpu where it doesn't.",
    )
    cache_size: int = setting(4096, "How many vectors of repeated texts are kept in memory.", least=0)


@dataclass(frozen=True, slots=True)
class IntakeSettings:
    longest: int = setting(1_000_000, "Most characters that one call may store.", least=100)
    part_length: int = setting(4_000, "Longer texts are split into linked parts of at most this.", least=200)
    redact: bool = setting(True, "Replace secrets and personal data before anything is written.")
    noise_gate: bool = setting(True, "Pass over texts such as 'ok' and 'thanks'.")
    link_threshold: float = setting(0.7, "Similarity above which memories are linked.", least=0.0, most=1.0)
    near_duplicate: float = setting(
        0.85, "Similarity above which two texts are compared for saying the same.", least=0.0, most=1.0
    )
    most_links: int = setting(3, "Most automatic links of one memory.", least=0, most=50)


@dataclass(frozen=True, slots=True)
class RecallSettings:
    limit: int = setting(10, "How many memories a recall returns unless asked otherwise.", least=1, most=200)
    floor: float = setting(
        -1.0, "Score below which nothing is returned; -1 takes the measured one.", least=-1, most=1
    )
    longest_hit: int = setting(2_000, "Most characters of one hit in an answer.", least=80)
    longest_answer: int = setting(60_000, "Most characters of all hits together.", least=200)
    importance_weight: float = setting(
        0.6, "How much importance counts where memories answer equally well.", least=0.0, most=1.0
    )
    recency_weight: float = setting(
        0.4, "How much recency counts there; the two must sum to 1.", least=0.0, most=1.0
    )
    composite_from: int = setting(
        100, "Memories within reach below which equals simply stand in order of time.", least=0
    )
    most_linked: int = setting(10, "Most linked memories that come along.", least=0, most=100)


@dataclass(frozen=True, slots=True)
class ServeSettings:
    host: str = setting(
        "127.0.0.1", "Address that `mindhold serve` listens on; any but loopback needs a key."
    )
    port: int = setting(
        3333, "Port that `mindhold serve` listens on.", aliases=("PORT",), least=0, most=65535
    )
    public_url: str = setting("", "The address that clients use, where a proxy stands in front.")
    trusted_proxies: str = setting(
        "", "Addresses of proxies that are believed for whom they ask (X-Forwarded-For), by commas."
    )
    allowed_hosts: str = setting("", "Further host names that requests may name, by commas.")
    allowed_origins: str = setting(
        "", "Web origins that may call, by commas; none by default.", aliases=("ALLOWED_ORIGINS",)
    )
    session_ttl_minutes: int = setting(
        60, "How long an idle MCP session is kept.", aliases=("SESSION_TTL_MINUTES",), least=1, most=43_200
    )
    most_sessions: int = setting(10_000, "Most MCP sessions at once.", least=1)
    largest_body: int = setting(4_194_304, "Most bytes of one request.", least=1_024)
    requests_per_minute: int = setting(6_000, "Most requests of one key in a minute; 0 is no limit.", least=0)
    slow_client_seconds: int = setting(
        30, "How long a client may take to send a request, or to read on.", least=1, most=3_600
    )
    stop_seconds: int = setting(
        10, "How long requests under way may take when the server stops.", least=0, most=600
    )

    @property
    def session_ttl(self) -> timedelta:
        """The time without a call after which a conversation is over."""
        return timedelta(minutes=self.session_ttl_minutes)


@dataclass(frozen=True, slots=True)
class LogSettings:
    level: Literal["debug", "info", "warning", "error"] = setting(
        "info", "How much is logged; only debug may show what a call was about."
    )
    directory: str = setting("", "Where logs go; empty means logs/ in the home folder.", aliases=("LOG_DIR",))
    keep_days: int = setting(14, "How many days of logs are kept.", least=1, most=3_650)
    most_megabytes: int = setting(
        50, "How large logs may get together; the oldest go first.", least=1, most=100_000
    )


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings by section. `home` is the folder of all files."""

    home: Path = field(default_factory=lambda: Path.home() / ".mindhold")
    agent: str = setting("default", "Whose memories these are.")
    scope: str = setting("Global", "The scope that calls are made in.")
    time_zone: str = setting(
        "",
        "The person's time zone, such as Europe/Berlin; empty means the machine's.",
        problem=_time_zone_problem,
    )
    date_order: Literal["YMD", "MDY", "DMY"] = setting("MDY", "How 3/4/2024 is read.")
    toolsets: str = setting(
        "core",
        "Which MCP tools are served, by commas: core, fragments, history, assistant, project, capture, all.",
        problem=_toolsets_problem,
    )
    access_key: str = setting(
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
    def lifecycle_rules(self) -> LifecycleRules:
        return self.life.rules(self.retention)

    @property
    def history_excluded(self) -> tuple[str, ...]:
        return (*comma_list(self.history.exclude), *self.capture.excluded)

    @property
    def database(self) -> Path:
        return _path(self.store.path) or self.home / "data" / "mindhold.db"

    @property
    def models_dir(self) -> Path:
        return self.home / "models"

    @property
    def logs_dir(self) -> Path:
        return _path(self.log.directory) or self.home / "logs"

    @property
    def export_dir(self) -> Path:
        return self.home / "export"

    @property
    def claude_dir(self) -> Path:
        return _path(self.history.claude_dir) or Path.home() / ".claude"

    @property
    def codex_dir(self) -> Path:
        return _path(self.history.codex_dir) or Path.home() / ".codex"

    @property
    def gemini_dir(self) -> Path:
        return _path(self.history.gemini_dir) or Path.home() / ".gemini"

    @property
    def cursor_dir(self) -> Path | None:
        return _path(self.history.cursor_dir)

    @property
    def history_index(self) -> Path:
        return self.home / "data" / "history.db"

    @property
    def archive_dir(self) -> Path:
        return self.home / "archive"

    @property
    def config_file(self) -> Path:
        return self.home / CONFIG_FILE
