"""Translates a JSON settings file of the assistant contract into our settings."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Values = Mapping[str, Any]  # our keys and their values
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NOT_WORD = re.compile(r"[^a-z0-9]+")
_AROUND = (
    "infinite_memory",
    "infinite_memory_mcp",
    "infinitememorymcp",
    "configuration",
    "config",
    "settings",
    "memory",
)
DEEPEST = 8
SCHEDULE = "backup.schedule"


@dataclass(frozen=True, slots=True)
class TranslatedSetting:
    """One of our settings, its value, and the name that it has in the file."""

    key: str
    value: Any
    name: str


@dataclass(frozen=True, slots=True)
class IgnoredSetting:
    """A name of the file that is understood but not taken over, and why."""

    name: str
    reason: str


@dataclass(slots=True)
class AssistantSettings:
    """The translation of a file; `unknown` are names that match no setting."""

    settings: list[TranslatedSetting] = field(default_factory=list)
    ignored: list[IgnoredSetting] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class TranslationRule:
    """The spellings of one setting, in snake case, and the function that translates its value.

    `read` returns our settings, or a text that says why there are none.
    """

    names: str
    read: Callable[[Any], Values | str]
    also: Mapping[str, str] = field(default_factory=dict)  # a value -> a remark about it


def _as(key: str) -> Callable[[Any], Values]:
    return lambda value: {key: value}


def _instead(why: str) -> Callable[[Any], str]:
    return lambda _value: why


def _chosen(**meant: Values) -> Callable[[Any], Values | str]:
    """Translate by the value in snake case."""

    def read(value: Any) -> Values | str:
        word = "true" if value is True else "false" if value is False else _plain(str(value))
        words = ", ".join(meant).replace("_", "-")
        return meant.get(word, f"{str(value)[:40]!r} is none of {words}")

    return read


def _place(value: Any) -> Values | str:
    """The database file; in a folder it has our name."""
    if not isinstance(value, str) or not value.strip():
        return "it is no path"
    path = value.strip().rstrip("/\\")
    separator = "\\" if "\\" in path and "/" not in path else "/"
    is_file = path.lower().endswith((".db", ".sqlite", ".sqlite3"))
    return {"store.path": path if is_file else f"{path}{separator}mindhold.db"}


def _model(value: Any) -> Values | str:
    if not isinstance(value, str):
        return "it is no name"
    if value.startswith(("/", "~", ".")) or "\\" in value:
        return f"a folder is pulled first: `mindhold models pull {value}`"
    return {"embedding.model": value.rpartition("/")[2]}


def _level(value: Any) -> Values | str:
    meant = {
        "debug": "debug", "verbose": "debug", "trace": "debug", "info": "info", "normal": "info", "warning": "warning",
        "warn": "warning", "minimal": "warning", "error": "error", "critical": "error", "fatal": "error",
    }  # fmt: skip
    level = meant.get(_plain(str(value)))
    return {"log.level": level} if level else f"{str(value)[:40]!r} is none of debug, info, warning, error"


_MONGO = {"store.mode": "mongodb"}
_EMBEDDED = {**_MONGO, "mongodb.mode": "embedded"}
_EXTERNAL = {**_MONGO, "mongodb.mode": "external"}
_ON, _OFF = {SCHEDULE: True}, {SCHEDULE: False}

TRANSLATION_RULES = (
    TranslationRule("database_path db_path data_path data_dir data_directory mongodb_data_path mongodb_path storage_path", _place),
    TranslationRule(
        "mongodb_mode mongo_mode database_mode db_mode mongodb_deployment database_type",
        _chosen(
            embedded=_EMBEDDED,
            external=_EXTERNAL,
            local_process=_EXTERNAL,
            mongodb=_MONGO,
            sqlite={"store.mode": "local"},
            file={"store.mode": "local"},
        ),
    ),
    TranslationRule("use_embedded_mongodb use_embedded_mongo embedded_mongodb mongodb_embedded", _chosen(true=_EMBEDDED, false=_EXTERNAL)),
    TranslationRule(
        "mongodb_uri mongo_uri database_uri db_uri mongodb_connection_uri mongodb_connection_string mongodb_url connection_uri "
        "connection_string uri",
        lambda value: {**_MONGO, "mongodb.uri": value},
    ),
    TranslationRule("mongodb_database mongodb_database_name mongodb_db_name database_name db_name mongodb_name", _as("mongodb.database")),
    TranslationRule("mongodb_binary_path mongodb_binary mongod_path mongod_binary mongod", _as("mongodb.mongod")),
    TranslationRule(
        "mongodb_username mongodb_user mongodb_password database_username database_user database_password mongodb_credentials_username "
        "mongodb_credentials_user mongodb_credentials_password",
        _instead("name and password stand in the address: mongodb://NAME:PASSWORD@HOST"),
    ),
    TranslationRule("max_memory_items max_items memory_limits_max_items limits_max_memory_items limits_max_items "
        "memory_size_limits_max_memory_items memory_limits_max_memory_items", _as("retention.most_items")),
    TranslationRule("max_memory_size_mb max_size_mb max_database_size_mb memory_limits_max_size_mb limits_max_memory_size_mb limits_max_size_mb "
        "memory_size_limits_max_memory_size_mb memory_limits_max_memory_size_mb", _as("retention.most_megabytes")),
    TranslationRule(
        "retention_level retention_policy memory_retention pruning_level retention_mode pruning_mode",
        _chosen(
            keep_all={"retention.level": "keep-all"},
            moderate={"retention.level": "moderate"},
            aggressive={"retention.level": "aggressive"},
            aggressive_pruning={"retention.level": "aggressive"},
        ),
    ),
    TranslationRule("retention_months retention_keep_months keep_months pruning_months", _as("retention.keep_months")),
    TranslationRule(
        "backup_enabled backups_enabled auto_backup automatic_backups enable_backups backup_auto backup_schedule_enabled "
        "backup_automatic",
        _chosen(true=_ON, false=_OFF),
    ),
    TranslationRule(
        "backup_schedule backup_frequency backup_interval backup_schedule_frequency backups_frequency backups_schedule",
        _chosen(daily=_ON, weekly=_ON, true=_ON, off=_OFF, none=_OFF, never=_OFF, disabled=_OFF, false=_OFF),
        also={"weekly": "backups are made daily; backup.keep_weekly says how many weeks of them stay"},
    ),
    TranslationRule("backup_keep_daily backup_retention_daily backups_to_keep_daily backup_daily keep_daily_backups daily_backups_to_keep "
        "backup_daily_retention backup_keep_last backup_keep backup_retention backup_retention_count max_backups", _as("backup.keep_daily")),
    TranslationRule("backup_keep_weekly backup_retention_weekly backups_to_keep_weekly backup_weekly keep_weekly_backups weekly_backups_to_keep "
        "backup_weekly_retention", _as("backup.keep_weekly")),
    TranslationRule("backup_encryption backup_encrypt backup_encrypted encrypt_backups backup_encryption_enabled encryption encryption_enabled",
        _chosen(true={"backup.encrypt": True}, false={"backup.encrypt": False}, on={"backup.encrypt": True}, off={"backup.encrypt": False})),
    TranslationRule(
        "backup_passphrase backup_password backup_encryption_passphrase backup_encryption_password backup_encryption_key "
        "encryption_passphrase encryption_key passphrase",
        _instead("a passphrase is never kept in a file: it is asked for"),
    ),
    TranslationRule("maintenance_hour maintenance_time maintenance_schedule maintenance_at", _as("maintenance.hour")),
    TranslationRule("embedding_model embedding_model_name embeddings_model embedding_name model_name", _model),
    TranslationRule("embedding_model_path embedding_path embeddings_path", _instead("a folder is pulled: `mindhold models pull FOLDER`")),
    TranslationRule(
        "embedding_device embeddings_device device embedding_model_device",
        _chosen(cpu={}, auto={}),
    ),
    TranslationRule("use_gpu embedding_use_gpu embeddings_use_gpu gpu", _chosen(false={})),
    TranslationRule("embedding_dimensions embedding_dimension", _as("embedding.dimensions")),
    TranslationRule("default_scope scope active_scope default_active_scope scopes_default scopes_default_scope memory_scopes_default "
        "memory_scopes_default_scope scope_default", _as("scope")),
    TranslationRule("log_level logging_level logging verbosity log_verbosity logging_verbosity", _level),
    TranslationRule("verbose verbose_logging debug logging_verbose", _chosen(true={"log.level": "debug"}, false={})),
    TranslationRule("log_path logs_path log_dir logs_dir log_directory logs_directory logging_path logging_directory", _as("log.directory")),
    TranslationRule("time_zone timezone", _as("time_zone")),
)  # fmt: skip
_RULES = {name: rule for rule in TRANSLATION_RULES for name in rule.names.split()}


def translate(document: Mapping[str, Any]) -> AssistantSettings:
    """Translate a file. Of two names for one setting the later wins, and the earlier is listed as ignored."""
    translation = AssistantSettings()
    settings: dict[str, TranslatedSetting] = {}
    for name, value in _values(document):
        rule = _rule(name)
        if rule is None:
            translation.unknown.append(name)
            continue
        values = "it is null" if value is None else rule.read(value)
        if isinstance(values, str):
            translation.ignored.append(IgnoredSetting(name, values))
            continue
        if remark := rule.also.get(_plain(str(value))):
            translation.ignored.append(IgnoredSetting(name, remark))
        for key, ours in values.items():
            earlier = settings.get(key)
            if key == SCHEDULE and earlier is not None and not earlier.value:  # off wins over a frequency
                continue
            if earlier is not None and earlier.value != ours:
                translation.ignored.append(IgnoredSetting(earlier.name, f"{name} says otherwise of {key}"))
            settings[key] = TranslatedSetting(key, ours, name)
        if not values:
            translation.ignored.append(IgnoredSetting(name, "that is how it is anyway"))
    mode, path = settings.get("store.mode"), settings.get("store.path")
    if path is not None and mode is not None and mode.value == "mongodb":
        del settings["store.path"]
        reason = "MongoDB's own files lie in the home folder, which MINDHOLD_HOME names"
        translation.ignored.append(IgnoredSetting(path.name, reason))
    translation.settings = list(settings.values())
    return translation


def _values(document: Mapping[str, Any], above: str = "", level: int = 1) -> list[tuple[str, Any]]:
    """Every value of the document with its dotted name."""
    values: list[tuple[str, Any]] = []
    for key, value in document.items():
        name = f"{above}.{key}" if above else str(key)
        if isinstance(value, Mapping) and level < DEEPEST:
            values += _values(value, name, level + 1)
        else:
            values.append((name, value))
    return values


def _rule(dotted: str) -> TranslationRule | None:
    """The rule for a name, which may begin with the name of a section around all settings."""
    name = "_".join(_plain(part) for part in dotted.split("."))
    for section in ("", *_AROUND):
        inner = name.removeprefix(f"{section}_") if section else name
        if (inner != name or not section) and inner in _RULES:
            return _RULES[inner]
    return None


def _plain(word: str) -> str:
    """The word in snake case."""
    return _NOT_WORD.sub("_", _CAMEL.sub("_", word).lower()).strip("_")
