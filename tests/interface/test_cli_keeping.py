"""Scopes, settings, models, jobs, health, export and import."""

from __future__ import annotations

import json
import sqlite3
import stat
import sys
from contextlib import closing
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
    assert settings["embedding.provider"]["source"] == "MINDHOLD_EMBEDDING_PROVIDER"
    assert settings["agent"]["source"] == "default"
    assert all(one["description"] for one in settings.values())
    one_call = shell.fine("config", "show", "--json", "-o", "recall.limit=7").json["settings"]
    assert {one["key"]: one["source"] for one in one_call}["recall.limit"] == "argument"
    assert "How many memories a recall returns" in shell.fine("config", "show").out


def test_config_show_can_be_narrowed(shell: Shell) -> None:
    shell.fine("config", "set", "recall.limit", "5")
    keys = [one["key"] for one in shell.fine("config", "show", "mongodb", "--json").json["settings"]]
    assert keys
    assert all(key.startswith("mongodb.") for key in keys)
    changed = [
        one["key"] for one in shell.fine("config", "show", "recall", "--changed", "--json").json["settings"]
    ]
    assert changed == ["recall.limit"]
    assert "recall.limit = 5  (config.toml)" in shell.fine("config", "show", "--changed").out
    assert shell("config", "show", "nothing.such").status == 6


def test_changing_the_store_tells_what_the_file_keeps(shell: Shell) -> None:
    assert "export" not in shell.fine("config", "set", "store.mode", "postgres").err  # nothing is there
    shell.fine("config", "set", "store.mode", "local")
    shell.remember("The ferry leaves at nine.")
    told = shell.fine("config", "set", "store.mode", "mongodb").err
    assert "keeps its 1 memory" in told
    assert "mindhold -o store.mode=local export FILE" in told


def test_importing_plain_lines_points_to_the_batch(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "lines.jsonl").write_text('{"content": "The ferry leaves at nine."}\n')
    refused = shell("import", str(tmp_path / "lines.jsonl"))
    assert refused.status == 2
    assert "remember --batch" in refused.err


def test_config_set_refuses_what_is_no_address(shell: Shell) -> None:
    for wrong in ("notaurl", "ftp://example.org", "http://", "http://example.org/v1"):
        answer = shell("config", "set", "llm.base_url", wrong)
        assert (answer.status, "llm.base_url" in answer.err) == (6, True), wrong
    assert shell.fine("config", "get", "llm.base_url").out == "\n"
    for right in ("https://example.org/v1", "http://127.0.0.1:11434/v1", ""):
        shell.fine("config", "set", "llm.base_url", right)
    shell.fine("config", "set", "llm.plain_http", "true")
    shell.fine("config", "set", "llm.base_url", "http://example.org/v1")


def test_config_set_takes_negative_numbers_and_says_where_to_look(shell: Shell) -> None:
    assert "at least" in shell("config", "set", "life.anchor_uses", "-3").err
    shell.fine("config", "set", "recall.floor", "-0.5", "--json")
    assert shell.fine("config", "get", "recall.floor").out.strip() == "-0.5"
    unknown = shell("config", "set", "life.bogus", "3").err
    assert "Did you mean" not in unknown
    assert "config show life" in unknown
    assert "Did you mean recall.limit?" in shell("config", "set", "life.limit", "3").err


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
        ("time_zone", "Mars/Olympus", "time_zone in the command line"),
    ],
)
def test_config_set_refuses_what_is_wrong(shell: Shell, key: str, value: str, told: str) -> None:
    answer = shell("config", "set", key, value)
    assert answer.status == 6
    assert told in answer.err
    assert not (shell.home / "config.toml").exists()


def test_a_secret_needs_not_stand_in_the_command(shell: Shell) -> None:
    answer = shell.fine("config", "set", "embedding.openai_key", "-", stdin="swordfish\n")
    assert "swordfish" not in answer.out + answer.err
    assert 'openai_key = "swordfish"' in (shell.home / "config.toml").read_text(encoding="utf-8")
    assert "hidden" in shell.fine("config", "get", "embedding.openai_key").out
    for key, told in (("embedding.openai_key", "reads it from stdin"), ("recall.limit", "needs a value")):
        refused = shell("config", "set", key)
        assert (refused.status, told in refused.err) == (2, True), refused.err


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
    shell.patch.setenv("MINDHOLD_RECALL_LIMIT", "lots")
    answer = shell("config", "show")
    assert (answer.status, "MINDHOLD_RECALL_LIMIT" in answer.err) == (6, True)
    shell.patch.delenv("MINDHOLD_RECALL_LIMIT")
    assert shell("-o", "recall.limit=lots", "status").status == 6
    assert shell("-o", "nonsense", "status").status == 2


def test_a_setting_that_the_environment_overrides_is_told(shell: Shell) -> None:
    answer = shell.fine("config", "set", "embedding.provider", "none")
    assert "MINDHOLD_EMBEDDING_PROVIDER" in answer.err


@pytest.mark.local_file
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


@pytest.mark.local_file
def test_doctor_looks_at_a_database_that_cannot_be_opened(shell: Shell) -> None:
    shell.remember("The harbour closes at nine")
    database = shell.home / "data" / "mindhold.db"
    for side in database.parent.glob("mindhold.db-*"):
        side.unlink()
    database.write_bytes(b"this is no database at all" * 400)
    assert shell("recall", "harbour").status == 7
    seen = shell("doctor", "--json")
    assert seen.status == 1
    assert seen.json["healthy"] is False
    assert seen.json["opening"]["code"] == "STORE_DAMAGED"
    assert "WRONG opening: STORE_DAMAGED" in shell("doctor").out


@pytest.mark.local_file
def test_doctor_repair_saves_what_a_damaged_database_holds(shell: Shell) -> None:
    shell.remember("The harbour closes at nine")
    database = shell.home / "data" / "mindhold.db"
    content = bytearray(database.read_bytes())
    size = int.from_bytes(content[16:18], "big")
    content[28:32] = (len(content) // size + 1).to_bytes(4, "big")  # one page more, which nothing leads to
    database.write_bytes(bytes(content) + bytes(size))
    seen = shell("doctor", "--json")
    assert "file" in {one["name"] for one in seen.json["findings"] if not one["healthy"]}
    mended = shell("doctor", "--repair", "--json")
    assert (mended.status, mended.json["healthy"]) == (0, True)
    assert mended.json["opening"]["code"] == "STORE_DAMAGED"
    assert any("saved 1 memories" in done for done in mended.json["repaired"])
    assert shell.found("harbour") == ["The harbour closes at nine"]
    names = [file.name for file in database.parent.glob("*.db")]
    assert sorted(name.partition("-")[0] for name in names) == ["mindhold.damaged", "mindhold.db"]


@pytest.mark.local_file
def test_doctor_repair_mends_a_broken_index_page(shell: Shell) -> None:
    shell.remember("The harbour closes at nine")
    database = shell.home / "data" / "mindhold.db"
    with closing(sqlite3.connect(database)) as connection:
        query = "SELECT rootpage FROM sqlite_schema WHERE name = 'memory_time'"
        page = connection.execute(query).fetchone()[0]
    content = bytearray(database.read_bytes())
    size = int.from_bytes(content[16:18], "big")
    content[(page - 1) * size : page * size] = b"\xa5" * size
    database.write_bytes(content)
    assert shell("doctor").status == 1
    assert shell("doctor", "--repair").status == 0
    assert shell.found("harbour") == ["The harbour closes at nine"]
    assert shell.fine("list", "--json").json["total"] == 1


@pytest.mark.local_file
@pytest.mark.parametrize(
    ("tampering", "code"),
    [
        (["PRAGMA user_version = 9999"], "SCHEMA_TOO_NEW"),
        (["DROP TABLE cursor", "PRAGMA user_version = 0"], "STORE_ERROR"),
    ],
)
def test_doctor_repair_leaves_alone_what_is_not_damaged(
    shell: Shell, tampering: list[str], code: str
) -> None:
    shell.remember("The harbour closes at nine")
    database = shell.home / "data" / "mindhold.db"
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        for statement in tampering:
            connection.execute(statement)
    before = database.read_bytes()
    answer = shell("doctor", "--repair", "--json")
    assert answer.status == 1
    assert (answer.json["opening"]["code"], answer.json["repaired"]) == (code, [])
    assert database.read_bytes() == before
    assert [file.name for file in database.parent.iterdir()] == ["mindhold.db"]


@pytest.mark.local_file
def test_doctor_repair_moves_nothing_while_others_have_the_file(shell: Shell) -> None:
    shell.remember("The harbour closes at nine")
    database = shell.home / "data" / "mindhold.db"
    with closing(sqlite3.connect(database)) as other:
        other.execute("SELECT count(*) FROM memory").fetchone()
        for statement in (
            "PRAGMA writable_schema = on",
            "DELETE FROM sqlite_schema WHERE name = 'memory_time'",
        ):
            other.execute(statement)
        other.commit()
        answer = shell("doctor", "--repair", "--json")
        assert (answer.status, answer.json["error"]["code"]) == (7, "STORE_BUSY")
        assert "nothing was changed" in answer.err
        assert {file.name.partition("-")[0] for file in database.parent.iterdir()} == {"mindhold.db"}
    assert shell("doctor", "--repair").status == 0
    assert shell.found("harbour") == ["The harbour closes at nine"]


def test_deleting_a_scope_asks_with_everything_that_goes(shell: Shell) -> None:
    shell.fine("scopes", "create", "quay")
    for text in ("The crane is red", "The crane squeaks in the wind"):
        shell.remember(text, "--scope", "quay", "--tag", "crane")
    shell.fine("forget", "--tag", "crane", "--yes")
    shell.remember("The crane was oiled on Monday", "--scope", "quay")
    asked = shell("scopes", "delete", "quay", stdin="n\n", terminal=True)
    assert (asked.status, "3 memories" in asked.err) == (5, True)
    gone = shell.fine("scopes", "delete", "quay", "--yes", "--json").json
    assert gone["memories"] == 3


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


def test_models_are_listed_with_what_they_cost(shell: Shell) -> None:
    [row] = [line for line in shell.fine("models").out.splitlines() if "(multilingual)" in line]
    for part in ("multilingual-e5-small", "can be pulled", "100 languages", "384", "124 MB", "2 x"):
        assert part in row
    listed = {each["name"]: each for each in shell.fine("models", "--json").json["models"]}
    assert listed["all-MiniLM-L6-v2"]["relative_time"] == 1
    assert all(each["languages"] and each["bytes_used"] for each in listed.values())


def test_models_without_any(shell: Shell) -> None:
    listed = shell.fine("models", "list", "--json").json["models"]
    assert listed
    assert not any(model["installed"] for model in listed)
    assert "can be pulled" in shell.fine("models", "list").out
    assert shell("models", "use", "no-such-model").status == 8
    assert "`mindhold models pull multilingual-e5-small`" in shell("models", "use", "multilingual").err
    assert shell("models", "remove", "no-such-model").status == 8
    assert shell("models", "pull", "./no-such-folder").status == 8


def test_a_state_file_comes_in_and_goes_out(shell: Shell, tmp_path: Path) -> None:
    folder = tmp_path / "shop"
    state = folder / ".memory" / "state.json"
    state.parent.mkdir(parents=True)
    entry = {"id": "mem_1769504400000_a1b2c3", "type": "gotcha", "content": "Webhooks need the raw body."}
    state.write_text(json.dumps({"version": 1, "memories": [entry]}), encoding="utf-8")
    shell.patch.chdir(folder)
    assert "Imported 1 memory" in shell.fine("import", ".memory/state.json").out
    assert "1 were here already" in shell.fine("import", ".memory/state.json").out
    shell.remember("We use Stripe Checkout", "--kind", "decision")
    assert "Exported 2 memories" in shell.fine("export", "--memory-mcp").out
    written = json.loads(state.read_text(encoding="utf-8"))["memories"]
    assert (written[0]["id"], written[0]["type"]) == ("mem_1769504400000_a1b2c3", "gotcha")
    piped = shell.fine("export", "-", "--memory-mcp", "--scope", "shop").out
    assert [each["content"] for each in json.loads(piped)["memories"]] == [e["content"] for e in written]
    shell.fine("scopes", "create", "work")
    assert "Imported 2 memories" in shell.fine("import", "-", "--scope", "work", stdin=piped).out
    shell.fine("scopes", "create", "play")
    assert "Imported 2 memories" in shell.fine("-o", "scope=play", "import", ".memory/state.json").out
    broken = shell("import", "-", "--memory-mcp", stdin='{"memories": [}')
    assert broken.status == 2
    assert "Line 1" in broken.err


@pytest.mark.local_file
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
