"""A JSON file of settings in the assistant contract's words, as settings of ours."""

from __future__ import annotations

from typing import Any

import pytest

from mindhold.settings.assistant_file import TRANSLATION_RULES, translate


def taken(document: dict[str, Any]) -> dict[str, Any]:
    return {one.key: one.value for one in translate(document).settings}


def left(document: dict[str, Any]) -> set[str]:
    return {one.name for one in translate(document).ignored}


MEANT: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"database_path": "~/ClaudeMemory"}, {"store.path": "~/ClaudeMemory/mindhold.db"}),
    ({"database": {"path": "D:\\Memory\\"}}, {"store.path": "D:\\Memory\\mindhold.db"}),
    ({"databasePath": "/data/mine.db"}, {"store.path": "/data/mine.db"}),
    ({"mongodb": {"mode": "embedded"}}, {"store.mode": "mongodb", "mongodb.mode": "embedded"}),
    ({"mongodb_mode": "External"}, {"store.mode": "mongodb", "mongodb.mode": "external"}),
    ({"use_embedded_mongodb": False}, {"store.mode": "mongodb", "mongodb.mode": "external"}),
    ({"mongodb": {"uri": "mongodb://h/d"}}, {"store.mode": "mongodb", "mongodb.uri": "mongodb://h/d"}),
    ({"database": {"name": "claude_memory"}}, {"mongodb.database": "claude_memory"}),
    ({"mongodb": {"binary_path": "/opt/mongod"}}, {"mongodb.mongod": "/opt/mongod"}),
    (
        {"max_memory_items": 100000, "max_memory_size_mb": 500},
        {"retention.most_items": 100000, "retention.most_megabytes": 500},
    ),
    ({"memory_limits": {"maxMemoryItems": 9}}, {"retention.most_items": 9}),
    ({"memory": {"max_items": 9}}, {"retention.most_items": 9}),
    ({"retention_level": "Keep all"}, {"retention.level": "keep-all"}),
    ({"memory-retention": "aggressive"}, {"retention.level": "aggressive"}),
    ({"backup": {"enabled": True, "frequency": "daily"}}, {"backup.schedule": True}),
    ({"backup": {"enabled": False, "frequency": "daily"}}, {"backup.schedule": False}),
    ({"backup": {"frequency": "daily", "enabled": False}}, {"backup.schedule": False}),
    ({"backup_schedule": "off"}, {"backup.schedule": False}),
    (
        {"backup": {"retention": {"daily": 7, "weekly": 4}}},
        {"backup.keep_daily": 7, "backup.keep_weekly": 4},
    ),
    ({"backup": {"encryption": {"enabled": True}}}, {"backup.encrypt": True}),
    ({"encrypt_backups": False}, {"backup.encrypt": False}),
    ({"maintenance": {"hour": "03:00"}}, {"maintenance.hour": "03:00"}),
    (
        {"embedding": {"model": "sentence-transformers/all-MiniLM-L6-v2"}},
        {"embedding.model": "all-MiniLM-L6-v2"},
    ),
    ({"embedding_model": "all-MiniLM-L6-v2"}, {"embedding.model": "all-MiniLM-L6-v2"}),
    ({"scopes": {"default": "Work"}}, {"scope": "Work"}),
    ({"default_scope": "Global"}, {"scope": "Global"}),
    ({"logging": {"level": "WARN"}}, {"log.level": "warning"}),
    ({"logLevel": "verbose"}, {"log.level": "debug"}),
    ({"infinite_memory": {"logging": {"level": "info"}}}, {"log.level": "info"}),
]


@pytest.mark.parametrize(("document", "settings"), MEANT)
def test_a_word_is_a_setting(document: dict[str, Any], settings: dict[str, Any]) -> None:
    found = translate(document)
    assert {one.key: one.value for one in found.settings} == settings
    assert found.unknown == []


@pytest.mark.parametrize(
    "document",
    [
        {"wibble": 1},
        {"database": {"colour": "red"}},
        {"mode": "embedded"},
        {"path": "/x"},
        {"scopes": {"auto_create": True}},
        {"mongodb": {"version": "6.0"}},
        {"list": [1, 2]},
        {"": {"": 3}},
    ],
)
def test_what_is_not_known_is_named_and_never_guessed(document: dict[str, Any]) -> None:
    found = translate(document)
    assert (found.settings, found.ignored, len(found.unknown)) == ([], [], 1)


@pytest.mark.parametrize(
    "document",
    [
        {"backup_passphrase": "sesame"},
        {"mongodb": {"password": "sesame"}},
        {"mongodb_mode": "sideways"},
        {"embedding": {"device": "cuda"}},
        {"embedding": {"model": "/models/mine"}},
        {"log_level": "loud"},
        {"database_path": 7},
        {"max_memory_items": None},
        {"use_gpu": False},
    ],
)
def test_what_comes_to_nothing_is_told_with_its_reason(document: dict[str, Any]) -> None:
    found = translate(document)
    assert (found.settings, found.unknown) == ([], [])
    assert [bool(one.reason) for one in found.ignored] == [True]
    assert "sesame" not in repr(found)


def test_a_folder_is_nothing_to_mongodb() -> None:
    document = {"database_path": "~/ClaudeMemory", "mongodb_mode": "embedded"}
    assert taken(document) == {"store.mode": "mongodb", "mongodb.mode": "embedded"}
    assert left(document) == {"database_path"}


def test_of_two_words_for_one_setting_the_later_counts() -> None:
    document = {"log_level": "debug", "logging": {"level": "error"}}
    assert taken(document) == {"log.level": "error"}
    assert left(document) == {"log_level"}


def test_what_is_done_otherwise_is_said() -> None:
    document = {"backup": {"frequency": "weekly"}}
    assert taken(document) == {"backup.schedule": True}
    assert left(document) == {"backup.frequency"}


def test_no_word_means_two_things() -> None:
    names = [name for row in TRANSLATION_RULES for name in row.names.split()]
    assert len(names) == len(set(names))
