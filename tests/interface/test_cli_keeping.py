"""Scopes, settings, models, jobs, health, export and import."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import pytest
from cli_shell import Shell


def test_the_life_of_a_scope(shell: Shell, tmp_path: Path) -> None:
    shell.fine("scopes", "create", "work", "--description", "The day job", "--kind", "project")
    shell.fine("scopes", "create", "api")
    shell.fine("scopes", "nest", "api", "work")
    shell.fine("scopes", "describe", "api", "All", "endpoints")
    shell.fine("scopes", "rename", "api", "rest")
    shown = shell.fine("scopes", "show", "rest", "--json").json
    assert shown["parent"] == "work"
    assert shown["description"] == "All endpoints"
    assert shown["sees"] == ["rest", "work", "Global"]
    assert "holds        rest" in shell.fine("scopes", "show", "work").out
    shell.remember("Endpoints answer in JSON", "--scope", "rest")
    assert shell.found("endpoints", "--scope", "work") == []
    assert shell.found("endpoints", "--everywhere") == ["Endpoints answer in JSON"]
    on_root = shell.fine("--scope", "rest", "recall", "endpoints", "--json").json
    assert [hit["scope"] for hit in on_root["hits"]] == ["rest"]
    shell.fine("scopes", "deactivate", "rest")
    assert shell.fine("scopes", "show", "rest", "--json").json["active"] is False
    shell.fine("scopes", "activate", "rest")
    assert shell("scopes", "delete", "rest").status == 5
    assert shell("scopes", "delete", "work", "--yes").status == 4
    saved = tmp_path / "rest.jsonl"
    gone = shell.fine("scopes", "delete", "rest", "--export", str(saved), "--yes")
    assert "Nothing is left." in gone.out
    assert "Endpoints answer in JSON" in saved.read_text(encoding="utf-8")
    assert "rest" not in {scope["name"] for scope in shell.fine("scopes", "list", "--json").json["scopes"]}
    assert shell("scopes", "show", "rest").status == 3


def test_config_show_names_values_and_sources(shell: Shell) -> None:
    shell.fine("config", "set", "recall.limit", "5")
    settings = {one["key"]: one for one in shell.fine("config", "show", "--json").json["settings"]}
    assert settings["recall.limit"]["value"] == 5
    assert settings["recall.limit"]["source"] == str(shell.home / "config.toml")
    assert settings["embedding.provider"]["source"] == "RECOLLECT_EMBEDDING_PROVIDER"
    assert settings["agent"]["source"] == "default"
    assert all(one["description"] for one in settings.values())
    one_call = shell.fine("config", "show", "--json", "-o", "recall.limit=7").json["settings"]
    assert {one["key"]: one["source"] for one in one_call}["recall.limit"] == "argument"
    assert "How many memories a recall returns" in shell.fine("config", "show").out


def test_config_set_keeps_what_else_is_in_the_file(shell: Shell) -> None:
    path = shell.home / "config.toml"
    assert shell.fine("config", "path").out.strip() == str(path)
    path.parent.mkdir()
    path.write_text("# mine\n[recall]\nlimit = 3 # few\n", encoding="utf-8")
    shell.fine("config", "set", "recall.limit", "4")
    shell.fine("config", "set", "agent", "robot")
    shell.fine("config", "set", "intake.redact", "no")
    text = path.read_text(encoding="utf-8")
    assert "# mine" in text
    assert "limit = 4 # few" in text
    assert shell.fine("config", "get", "agent").out.strip() == "robot"
    assert shell.fine("config", "get", "intake.redact").out.strip() == "false"
    assert "Removed" in shell.fine("config", "unset", "recall.limit").out
    assert "no recall.limit" in shell.fine("config", "unset", "recall.limit").out
    assert shell.fine("config", "get", "recall.limit").out.strip() == "10"
    if sys.platform != "win32":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("recal.limit", "5", "Did you mean recall.limit?"),
        ("recall.limit", "many", "recall.limit"),
        ("recall.limit", "0", "between 1 and 200"),
        ("date_order", "XYZ", "YMD"),
    ],
)
def test_config_set_refuses_what_is_wrong(shell: Shell, key: str, value: str, told: str) -> None:
    answer = shell("config", "set", key, value)
    assert answer.status == 6
    assert told in answer.err
    assert not (shell.home / "config.toml").exists()


def test_wrong_settings_name_key_and_place(shell: Shell) -> None:
    path = shell.home / "config.toml"
    path.parent.mkdir()
    for text, told in (
        ("[recall]\nlimt = 3\n", "recall.limt"),
        ("[recall]\nlimit = 'x'\n", "recall.limit"),
        ("not toml\n", "not valid TOML"),
    ):
        path.write_text(text, encoding="utf-8")
        for argv in (["recall", "x"], ["config", "show"], ["status"]):
            answer = shell(*argv)
            assert answer.status == 6, argv
            assert told in answer.err
            assert str(path) in answer.err
    path.write_text("[recall]\nlimt = 3\n", encoding="utf-8")
    shell.fine("config", "unset", "recall.limt")
    shell.fine("config", "show")
    shell.patch.setenv("RECOLLECT_RECALL_LIMIT", "lots")
    answer = shell("config", "show")
    assert (answer.status, "RECOLLECT_RECALL_LIMIT" in answer.err) == (6, True)
    shell.patch.delenv("RECOLLECT_RECALL_LIMIT")
    assert shell("-o", "recall.limit=lots", "status").status == 6
    assert shell("-o", "nonsense", "status").status == 2


def test_a_setting_that_the_environment_overrides_is_told(shell: Shell) -> None:
    answer = shell.fine("config", "set", "embedding.provider", "none")
    assert "RECOLLECT_EMBEDDING_PROVIDER" in answer.err


def test_home_by_option_wins_over_the_environment(shell: Shell, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shell.fine("--home", str(other), "remember", "Kept elsewhere, in another home")
    shell.fine("remember", "--home", str(other), "Kept elsewhere as well, by the option at the end")
    assert shell.fine("list", "--json").json["total"] == 0
    assert shell.fine("list", "--json", "--home", str(other)).json["total"] == 2
    assert shell.fine("--home", str(other), "config", "path").out.strip() == str(other / "config.toml")


def test_agents_do_not_see_each_other(shell: Shell) -> None:
    shell.fine("--agent", "scout", "remember", "The scout saw a bridge")
    assert shell.fine("list", "--json").json["total"] == 0
    assert shell.fine("list", "--json", "--agent", "scout").json["total"] == 1


def test_status_and_doctor(shell: Shell) -> None:
    shell.remember("The harbour closes at nine")
    told = shell.fine("status").out
    assert "1 active" in told
    assert str(shell.home) in told
    seen = shell("doctor", "--json")
    wrong = {one["name"] for one in seen.json["findings"] if not one["healthy"]}
    assert seen.status == (1 if wrong else 0)
    assert wrong <= {"models"}
    mended = shell("doctor", "--repair", "--scrub", "--phrase", "words that were never stored")
    assert "Nothing is left." in mended.out
    assert shell("doctor", "--phrase", "x").status == 2


def test_doctor_looks_at_a_database_that_cannot_be_opened(shell: Shell) -> None:
    shell.remember("The harbour closes at nine")
    database = shell.home / "data" / "recollect.db"
    for side in database.parent.glob("recollect.db-*"):
        side.unlink()
    database.write_bytes(b"this is no database at all" * 400)
    assert shell("recall", "harbour").status == 7
    seen = shell("doctor", "--json")
    assert seen.status == 1
    assert seen.json["healthy"] is False
    assert seen.json["opening"]["code"] == "STORE_DAMAGED"
    assert "could not be opened" in shell("doctor").err


def test_jobs(shell: Shell) -> None:
    shell.fine("-o", "embedding.provider=none", "remember", "The ferry leaves at dawn")
    shell.fine("status")
    listed = shell.fine("jobs", "list", "--json").json
    assert set(listed) == {"jobs", "tally", "schedule"}
    ran = shell.fine("jobs", "run", "--json").json["ran"]
    assert all(job["state"] == "done" for job in ran)
    assert shell.fine("status", "--json").json["embedded"] == 1
    assert shell("jobs", "retry", "nosuchjob").status == 3
    assert shell("jobs", "cancel", "nosuchjob").status == 3
    assert shell("jobs", "list", "--state", "sleeping").status == 2


def test_models_without_any(shell: Shell) -> None:
    listed = shell.fine("models", "list", "--json").json["models"]
    assert listed
    assert not any(model["installed"] for model in listed)
    assert "can be pulled" in shell.fine("models", "list").out
    assert shell("models", "use", "no-such-model").status == 8
    assert shell("models", "remove", "no-such-model").status == 8
    assert shell("models", "pull", "./no-such-folder").status == 8


def test_export_and_import_lose_nothing(shell: Shell, tmp_path: Path) -> None:
    shell.fine("scopes", "create", "work")
    one = shell.remember("The lift is out of order", "--scope", "work", "--tag", "lift", "--meta", "floor=3")
    two = shell.remember("The spare part arrives on Friday")
    shell.fine("amend", one, "--content", "The lift works again")
    shell.fine("link", one, two, "--relation", "resolved_by")
    first = tmp_path / "first.jsonl"
    told = shell.fine("export", str(first))
    assert "Exported 2 memories" in told.out
    other = ["--home", str(tmp_path / "other")]
    assert "Imported 2 memories" in shell.fine("import", str(first), *other).out
    assert "2 were here already" in shell.fine("import", "-", *other, stdin=first.read_bytes()).out
    piped = shell.fine("export", "-", *other)
    # Each home has a Global of its own.
    came, went = (
        {line for line in text.splitlines() if '"name":"Global"' not in line}
        for text in (piped.out, first.read_text(encoding="utf-8"))
    )
    assert came == went
    assert (
        shell.fine("show", one, "--json", *other).json["versions"][0]["content"] == "The lift is out of order"
    )
    assert len(shell.fine("export", "-", "--scope", "work").out.splitlines()) < len(piped.out.splitlines())
    assert Path(shell.fine("export", "--json").json["path"]).parent == shell.home / "export"
    assert shell("import", str(tmp_path / "none")).status == 2
    assert shell("import", "-", stdin="rubbish").status == 2


def test_the_tour_needs_no_model_and_leaves_nothing(shell: Shell) -> None:
    told = shell.fine("demo").out
    assert "Stored 10 memories" in told
    assert "[redacted:" in told
    assert "recall no longer finds it" in told
    assert str(shell.home) in told
    steps = shell.fine("demo", "--json").json["steps"]
    assert {step["step"] for step in steps} == {
        "remember",
        "recall",
        "duplicate",
        "redaction",
        "time",
        "forget",
    }
    assert shell.fine("list", "--json").json["total"] == 0
