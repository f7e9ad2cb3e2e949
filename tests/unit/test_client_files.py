"""What is put into the files of other programs, and taken out again: hooks, servers, tables, markers."""

from __future__ import annotations

import json
import os
import subprocess
import tomllib
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mindhold.installers.claude import (
    EVENTS,
    foreign_hook_commands,
    hook_groups,
    markers_change,
    settings_change,
    without_markers,
)
from mindhold.installers.config_text import render
from mindhold.installers.files import FileChange
from mindhold.installers.manifest import (
    DOCUMENT_UNDO,
    EMPTY_BLOCK_UNDO,
    SETTINGS_UNDO,
    InstalledFile,
    drop_project,
    install,
    plan_removal,
    read_manifest,
    remove_ours,
    server_undo,
    table_undo,
    uninstall,
)
from mindhold.installers.mcp_clients import (
    MCP_CLIENTS,
    StartCommand,
    find_start_command,
    is_our_server,
    json_change,
    parse_call,
    server_entry,
    toml_change,
    without_table,
)
from mindhold.model.errors import Conflict, InvalidInput, MarkersWrong, MindholdError, Refused
from mindhold.model.markers import replace_block
from mindhold.settings.loader import client_places, load_settings

ROOT = Path(__file__).parents[2]
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
PLAIN = StartCommand("mindhold")
MOVED = StartCommand("/opt/a b/mindhold", portable=False)
KEYS = ("mcpServers", "mindhold")
ENTRY = server_entry(PLAIN, toolsets="core,capture")
OTHERS = """{
\t"hooks": {
\t\t"Stop": [
\t\t\t{ "hooks": [ { "type": "command",   "command": "say done" } ] }
\t\t],
\t\t"Notification": []
\t},
\t"permissions": {"allow": ["Bash(ls:*)"]}
}
"""


def written(path: Path, text: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def put(home: Path, *changes: FileChange, place: str = "", client: str = "claude") -> Path | None:
    return install(home, changes, place=place, client=client, now=NOW)


def taken(home: Path, place: str = "") -> None:
    uninstall(home, plan_removal(home, read_manifest(home).at(place)))


def hooks_of(path: Path, program: StartCommand = PLAIN, **given: Any) -> FileChange:
    return settings_change(path, program, **{"home": None, "status_line": False, **given})


def test_hooks_join_those_of_others_which_stay_as_they_are(tmp_path: Path) -> None:
    path = written(tmp_path / "settings.json", OTHERS)
    change = hooks_of(path)
    assert change.after is not None
    merged = json.loads(change.after)
    assert set(merged["hooks"]) == {event for event, _, _ in EVENTS} | {"Notification"}
    assert [group["hooks"][0]["command"] for group in merged["hooks"]["Stop"]] == [
        "say done",
        "mindhold hook Stop",
    ]
    assert merged["hooks"]["SessionEnd"][0]["hooks"][0]["timeout"] == 5
    assert merged["hooks"]["PostToolUse"][0]["matcher"] == "Bash"
    for line in OTHERS.splitlines():
        assert line.rstrip(",").encode() in change.after
    put(tmp_path / "home", change)
    assert not hooks_of(path).changes
    taken(tmp_path / "home")
    assert path.read_text() == OTHERS


def test_a_moved_program_is_put_right_and_nothing_else_is(tmp_path: Path) -> None:
    path = written(tmp_path / "settings.json", "{}")
    put(tmp_path / "home", hooks_of(path))
    changed = path.read_text().replace('"timeout": 10', '"timeout": 20')
    path.write_text(changed)
    again = hooks_of(path, MOVED)
    assert again.after is not None
    assert again.after.decode() == changed.replace('"mindhold hook', '"\\"/opt/a b/mindhold\\" hook')
    put(tmp_path / "home", again)
    taken(tmp_path / "home")
    assert path.read_text() == "{}"


def test_of_a_file_that_others_changed_only_ours_goes(tmp_path: Path) -> None:
    path = written(tmp_path / "settings.json", '{"model":"opus"}')
    put(tmp_path / "home", hooks_of(path, status_line=True, home="/some/where"))
    settings = json.loads(path.read_text())
    assert settings["env"] == {"MINDHOLD_HOME": "/some/where"}
    settings["hooks"]["Stop"][0]["hooks"].append({"type": "command", "command": "theirs"})
    settings["hooks"]["PreCompact"].append({"hooks": [{"type": "command", "command": "theirs too"}]})
    settings["more"] = 1
    path.write_text(json.dumps(settings, indent=4))
    taken(tmp_path / "home")
    assert json.loads(path.read_text()) == {
        "model": "opus",
        "hooks": {
            "Stop": [{"hooks": [{"type": "command", "command": "theirs"}]}],
            "PreCompact": [{"hooks": [{"type": "command", "command": "theirs too"}]}],
        },
        "more": 1,
    }


def test_without_notes_ours_is_known_by_its_looks() -> None:
    groups = hook_groups(MOVED)
    settings = {"hooks": {event: [group] for event, group in groups.items()}, "a": 1}
    settings["statusLine"] = {"type": "command", "command": MOVED.line("statusline")}
    assert json.loads(remove_ours(Path("x"), json.dumps(settings).encode(), SETTINGS_UNDO)) == {"a": 1}
    servers = {"mcpServers": {"mindhold": ENTRY, "other": {"command": "mindhold-other", "args": ["mcp"]}}}
    left = json.loads(remove_ours(Path("x"), json.dumps(servers).encode(), server_undo(*KEYS)))
    assert list(left["mcpServers"]) == ["other"]


def test_a_status_line_or_home_of_others_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "settings.json", '{"statusLine": {"type": "command", "command": "date"}}')
    with pytest.raises(Conflict, match="status line"):
        hooks_of(path, status_line=True)
    path = written(path, '{"env": {"MINDHOLD_HOME": "/a"}}')
    with pytest.raises(Conflict, match="MINDHOLD_HOME"):
        hooks_of(path, home="/b")


@pytest.mark.parametrize(
    ("command", "arguments", "expected"),
    [
        ("mindhold", ["hook", "Stop"], ["hook", "Stop"]),
        ("/a b/bin/mindhold", ["mcp"], ["mcp"]),
        ("C:\\Tools\\Mindhold.EXE", ["mcp"], ["mcp"]),
        ("/usr/bin/python3", ["-m", "mindhold", "hook", "Stop"], ["hook", "Stop"]),
        ("mindhold", ["--home", "/x", "mcp"], ["mcp"]),
        ("mindhold hook Stop", None, ["hook", "Stop"]),
        ('"/a b/mindhold" statusline', None, ["statusline"]),
        ("mindhold --home=/x hook Stop", None, ["hook", "Stop"]),
        ("mindhold", ["-v", "--scope", "x", "mcp"], ["mcp"]),
        ("uvx", ["mindhold", "hook", "Stop"], ["hook", "Stop"]),
        ("uvx mindhold@latest hook Stop", None, ["hook", "Stop"]),
        ("C:\\Users\\me\\mindhold.exe statusline", None, ["statusline"]),
        ("tee -a log | mindhold hook Stop", None, None),
        ("mindhold hook Stop; ./notify.sh", None, None),
        ("mindhold hook Stop && date", None, None),
        ("mindhold hook Stop&", None, None),
        ("mindhold hook Stop >log", None, None),
        ("mindhold hook Stop\ndate", None, None),
        ("mindhold hook $(date)", None, None),
        ("mindhold hook `date`", None, None),
        ('echo "mindhold hook ran"', None, None),
        ("git -C ~/src/mindhold hook run pre-commit", None, None),
        ("uvx", ["other", "mindhold", "hook", "Stop"], None),
        ("docker", ["-m", "mindhold", "hook", "Stop"], None),
        ("mindhold", ["hook", 3], None),
        ("mindhold 'hook", None, None),
        ("/usr/bin/python3", ["mindhold.py"], None),
        ("mindholder", ["mcp"], None),
        ("say mindholder mcp", None, None),
        (3, ["mcp"], None),
    ],
)
def test_whose_program_it_is(command: Any, arguments: Any, expected: list[str] | None) -> None:
    call = parse_call(command, arguments)
    assert (None if call is None else list(call.words)) == expected


@pytest.mark.parametrize(
    "command",
    [
        "tee -a ~/events.log | mindhold hook Stop; ./scripts/notify-team.sh",
        "mindhold hook Stop Stop",
        "mindhold hook run-all",
        "mindhold hook",
        "mindhold hook Stop # mine",
    ],
)
def test_hooks_of_others_that_name_mindhold_are_theirs(tmp_path: Path, command: str) -> None:
    source = json.dumps({"hooks": {"Stop": [{"hooks": [{"type": "command", "command": command}]}]}}, indent=2)
    path = written(tmp_path / "settings.json", source)
    assert remove_ours(path, source.encode(), SETTINGS_UNDO) == source.encode()
    change = hooks_of(path)
    assert [one["hooks"][0]["command"] for one in json.loads(change.after or b"")["hooks"]["Stop"]] == [
        command,
        "mindhold hook Stop",
    ]
    put(tmp_path / "home", change)
    path.write_bytes(path.read_bytes() + b"\n")
    taken(tmp_path / "home")
    assert json.loads(path.read_bytes()) == json.loads(source)
    line = json.dumps({"statusLine": {"type": "command", "command": "echo x | mindhold statusline"}})
    with pytest.raises(Conflict):
        hooks_of(written(path, line), status_line=True)
    assert remove_ours(path, line.encode(), SETTINGS_UNDO) == line.encode()


def test_others_that_call_it_too_can_be_told_of() -> None:
    lines = ["tee x | mindhold hook Stop", "mindhold hook Stop", 'notify-send "mindhold hook has news"']
    groups = [{"hooks": [{"type": "command", "command": line}]} for line in lines]
    assert foreign_hook_commands({"hooks": {"Stop": groups}}) == (lines[0],)
    assert foreign_hook_commands({"hooks": groups}) == ()


def test_a_call_of_ours_keeps_its_options_and_its_runner(tmp_path: Path) -> None:
    handlers = [
        {"type": "command", "command": "/old/mindhold --home=/x hook Stop"},
        {"type": "command", "command": "uvx", "args": ["mindhold", "-v", "hook", "Stop"]},
        {"type": "command", "command": "mindhold", "args": ["--home", "/a b", "hook", "Stop"], "timeout": 3},
        {"type": "command", "command": "'mindhold'  hook 'Stop'"},
    ]
    path = written(tmp_path / "settings.json", json.dumps({"hooks": {"Stop": [{"hooks": handlers}]}}))
    change = hooks_of(path)
    assert json.loads(change.after or b"")["hooks"]["Stop"][0]["hooks"] == [
        {"type": "command", "command": "mindhold --home=/x hook Stop"},
        {"type": "command", "command": "uvx mindhold -v hook Stop"},
        {"type": "command", "command": 'mindhold --home "/a b" hook Stop', "timeout": 3},
        {"type": "command", "command": "'mindhold'  hook 'Stop'"},
    ]
    path.write_bytes(change.after or b"")
    assert not hooks_of(path).changes
    server = {"command": "/old/mindhold", "args": ["--scope", "x", "mcp"], "env": {"A": "b"}}
    path = written(tmp_path / "mcp.json", json.dumps({"mcpServers": {"mindhold": server}}))
    change = json_change(path, KEYS, server_entry(PLAIN, toolsets="core", home="/h"))
    new = json.loads(change.after or b"")["mcpServers"]["mindhold"]
    assert (new["args"], new["env"]) == (
        ["--scope", "x", "mcp", "--toolsets", "core"],
        {"A": "b", "MINDHOLD_HOME": "/h"},
    )
    put(tmp_path / "home", change)
    assert not json_change(path, KEYS, server_entry(PLAIN, toolsets="core", home="/h")).changes


def test_lines_for_the_shells_of_windows() -> None:
    program = StartCommand("C:\\Users\\me\\Scripts\\mindhold.exe", portable=False)
    line = program.line("statusline", windows=True)
    assert line == "C:/Users/me/Scripts/mindhold.exe statusline"
    call = parse_call(line, None)
    assert call is not None
    assert call.words == ("statusline",)
    assert program.hook("Stop", windows=True) == {"command": "C:/Users/me/Scripts/mindhold.exe hook Stop"}
    short = StartCommand("C:\\MYTOOL~1\\mindhold.exe").hook("Stop", windows=True)
    assert short == {"command": "C:/MYTOOL~1/mindhold.exe hook Stop"}
    assert parse_call(short["command"], None) is not None
    blank = StartCommand("C:\\My Tools\\mindhold.exe")
    with pytest.raises(Refused, match="Git Bash"):
        blank.line("statusline", windows=True)
    assert blank.hook("Stop", windows=True) == {"command": blank.command, "args": ["hook", "Stop"]}


def test_lines_for_other_shells_are_what_they_read() -> None:
    if os.name == "nt":
        pytest.skip("for sh")
    for folder in (
        "/opt/a b",
        "/opt/it's",
        '/opt/a "b"',
        "/opt/$HOME",
        "/opt/a\\b",
        "/opt/`date`",
        "/opt/고양이",
    ):
        program = StartCommand(f"{folder}/mindhold", portable=False)
        [line] = program.hook("Stop").values()
        shown = subprocess.run(["sh", "-c", f"printf '%s\n' {line}"], capture_output=True, check=True)
        assert shown.stdout.decode().splitlines() == [program.command, "hook", "Stop"]


def test_the_program_is_named_where_the_name_leads_to_it(tmp_path: Path) -> None:
    script = written(tmp_path / "env" / "mindhold", "one")
    other = written(tmp_path / "other" / "mindhold", "two")
    link = tmp_path / "bin" / "mindhold"
    link.parent.mkdir()
    link.symlink_to(script)
    here = {"executable": "/python", "scripts": [script]}
    assert find_start_command(**here, on_path=str(link)) == StartCommand("mindhold")
    assert find_start_command(**here, on_path=str(link), absolute=True) == StartCommand(
        str(link), portable=False
    )
    assert find_start_command(**here, on_path=str(other)) == StartCommand(str(script), portable=False)
    assert find_start_command(**here, on_path=None).command == str(script)
    bare = find_start_command(executable="/python", scripts=[], on_path=str(other))
    assert (bare.command, bare.arguments_for("mcp"), bare.portable) == (
        "/python",
        ["-m", "mindhold", "mcp"],
        False,
    )


def test_a_server_joins_others_and_keeps_what_they_added(tmp_path: Path) -> None:
    path = written(tmp_path / "mcp.json", "\ufeff// mine\r\n{\r\n  // a\r\n}\r\n")
    with pytest.raises(InvalidInput, match=r"mcp\.json, line 1, column 1: comments"):
        json_change(path, KEYS, ENTRY)
    change = json_change(path, KEYS, ENTRY, comments=True)
    put(tmp_path / "home", change)
    assert path.read_bytes().startswith('\ufeff// mine\r\n{\r\n  // a\r\n  "mcpServers": {\r\n'.encode())
    path.write_bytes(path.read_bytes().replace(b'"type": "stdio"', b'"env": {"A": "b"}, "type": "stdio"'))
    assert not is_our_server({"command": "x"})
    moved = json_change(path, KEYS, server_entry(MOVED, toolsets=None), comments=True)
    assert b'"env": {"A": "b"}, "type": "stdio"' in (moved.after or b"")
    assert b'"args": ["mcp"]' in (moved.after or b"")
    taken(tmp_path / "home")
    assert path.read_text("utf-8") == "\ufeff// mine\n{\n  // a\n}\n"
    written(path, '{"mcpServers": {"mindhold": {"command": "theirs"}}}')
    with pytest.raises(Conflict):
        json_change(path, KEYS, ENTRY)


@pytest.mark.parametrize(
    "text",
    [
        "",
        'model = "o3"\n',
        'model = "o3"',
        '# top\r\n[mcp_servers.other]\r\ncommand = "x"\r\n\r\n',
        '[mcp_servers]\n[mcp_servers."a b"]\ncommand = """\n[mcp_servers.mindhold]\n"""\n',
        "[[list]]\na = 1 # c\n\n\n",
    ],
)
def test_a_table_goes_in_and_out_without_a_trace(tmp_path: Path, text: str) -> None:
    path = written(tmp_path / "config.toml", text)
    table = ("mcp_servers", "mindhold")
    entry = server_entry(PLAIN, toolsets=None, home='C:\\a "b"', typed=False)
    change = toml_change(path, table, entry)
    assert change.after is not None
    assert tomllib.loads(change.after.decode())["mcp_servers"]["mindhold"] == entry
    assert change.after.startswith(text.encode())
    assert without_table(path, change.after.decode(), table, lead=change.undo[0]["lead"]) == text
    put(tmp_path / "home", change)
    assert not toml_change(path, table, entry).changes
    more = b'\n# theirs\n[profiles.x]\nmodel = "y"\n'
    path.write_bytes(path.read_bytes() + more)
    taken(tmp_path / "home")
    left = path.read_bytes()
    assert left.startswith(text.encode())
    assert left.endswith(more.lstrip(b"\n"))
    assert "mindhold" not in tomllib.loads(left.decode()).get("mcp_servers", {})


def test_a_table_of_ours_is_brought_up_to_date_where_it_stands(tmp_path: Path) -> None:
    source = (
        '\ufeff[mcp_servers.mindhold] # mine\n# keep me\ncommand = "/old/mindhold" # the old one\nargs = [\n  "mcp",\n]\n'
        'startup_timeout_sec = 20 # twenty\nsince = 2026-01-02\nenv = { A = "b" }\n\n[mcp_servers.mindhold.tools.x]\n'
        'on = true\n\n[last]\na = """\n[mcp_servers.mindhold]\n"""\n'
    )
    path = written(tmp_path / "config.toml", source)
    table = ("mcp_servers", "mindhold")
    entry = server_entry(PLAIN, toolsets="core", home="/h", typed=False)
    change = toml_change(path, table, entry)
    assert (change.after or b"").decode() == source.replace("/old/mindhold", "mindhold").replace(
        '[\n  "mcp",\n]', '["mcp", "--toolsets", "core"]'
    ).replace('{ A = "b" }', '{ A = "b", MINDHOLD_HOME = "/h" }')
    put(tmp_path / "home", change)
    assert not toml_change(path, table, entry).changes
    path.write_bytes(path.read_bytes() + b"b = 1\n")
    taken(tmp_path / "home")
    assert path.read_text("utf-8") == "\ufeff" + source[source.index("[last]") :] + "b = 1\n"


def test_a_table_of_others_and_what_is_none_are_told_apart(tmp_path: Path) -> None:
    path, table = tmp_path / "config.toml", ("mcp_servers", "mindhold")
    with pytest.raises(Conflict, match="doesn't start `mindhold mcp`"):
        toml_change(written(path, '[mcp_servers.mindhold]\nurl = "http://127.0.0.1/mcp"\n'), table, ENTRY)
    with pytest.raises(InvalidInput, match="should be a table"):
        toml_change(written(path, "mcp_servers = 5\n"), table, ENTRY)
    with pytest.raises(InvalidInput, match="not valid TOML"):
        remove_ours(path, b"a = = 1", table_undo(*table))


def test_toml_that_cannot_be_added_to_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "config.toml", 'mcp_servers = { other = { command = "x" } }\n')
    with pytest.raises(InvalidInput, match="can't be added to"):
        toml_change(path, ("mcp_servers", "mindhold"), ENTRY)
    with pytest.raises(InvalidInput, match="line 1"):
        toml_change(written(path, "a = = 1\n"), ("mcp_servers", "mindhold"), ENTRY)


@settings(deadline=None)
@given(
    st.lists(st.sampled_from(["# Shop", "", "text", "- *x*", "```\ncode\n```"]), max_size=5),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
    st.sampled_from(["", "\n", "\n\n"]),
)
def test_markers_go_in_and_out_without_a_trace(lines: list[str], eol: str, mark: bool, end: str) -> None:
    source = (("\ufeff" if mark else "") + ("\n".join(lines) + end).replace("\n", eol)).encode()
    path = Path(os.devnull).with_name("CLAUDE.md")
    lead = _marked(source)
    filled = replace_block(lead[0], "One\nTwo\n")
    assert without_markers(path, filled, lead[1]) == source
    assert without_markers(path, filled + b"\nbelow", lead[1]).endswith(b"below")
    assert filled.startswith(source)


def _marked(source: bytes) -> tuple[bytes, dict[str, Any]]:
    """By way of a file."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "CLAUDE.md"
        path.write_bytes(source)
        change = markers_change(path)
    assert change.after is not None
    return change.after, change.undo[0]


def test_markers_that_are_there_or_wrong_are_left_alone(tmp_path: Path) -> None:
    path = written(tmp_path / "CLAUDE.md", "a\n<!-- MEMORY:START -->\n<!-- MEMORY:END -->\nb\n")
    assert not markers_change(path).changes
    for wrong in (b"<!-- MEMORY:START -->\n", b"<!-- MEMORY:END -->", "a".encode("utf-16")):
        with pytest.raises(MarkersWrong):
            markers_change(written(path, wrong))
    assert without_markers(path, b"a\n\n<!-- MEMORY:START -->\nx\n<!-- MEMORY:END -->\n", {}) == b"a\n"


def test_links_are_followed_and_modes_kept(tmp_path: Path) -> None:
    real = written(tmp_path / "dotfiles" / "settings.json", "{}\n")
    real.chmod(0o640)
    link = tmp_path / "settings.json"
    link.symlink_to(real)
    put(tmp_path / "home", hooks_of(link))
    assert link.is_symlink()
    assert "hooks" in json.loads(real.read_text())
    assert real.stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "home" / "installed.json").stat().st_mode & 0o777 == 0o600
    taken(tmp_path / "home")
    assert real.read_text() == "{}\n"
    assert not (tmp_path / "home" / "installed.json").exists()


def test_files_and_folders_made_for_us_go_unless_others_use_them(tmp_path: Path) -> None:
    home, path = tmp_path / "home", tmp_path / "a" / "b" / "mcp.json"
    put(home, json_change(path, KEYS, ENTRY))
    taken(home)
    assert not (tmp_path / "a").exists()
    put(home, json_change(path, KEYS, ENTRY))
    written(path.parent / "theirs", "x")
    put(home, json_change(path, ("projects", "/x", *KEYS), ENTRY), place="/x")
    taken(home)
    assert json.loads(path.read_text()) == {"projects": {"/x": {"mcpServers": {"mindhold": ENTRY}}}}
    taken(home, "/x")
    assert not path.exists()
    assert (path.parent / "theirs").exists()


def test_all_or_nothing(tmp_path: Path) -> None:
    home = tmp_path / "home"
    first = written(tmp_path / "one.json", "{}\n")
    blocked = written(tmp_path / "file", "x") / "below" / "mcp.json"
    changes = [json_change(first, KEYS, ENTRY), json_change(blocked, KEYS, ENTRY)]
    with pytest.raises(Refused, match="no folder"):
        put(home, *changes)
    assert first.read_text() == "{}\n"
    assert not home.exists()
    change = json_change(first, KEYS, ENTRY)
    first.write_text("{ }")
    with pytest.raises(Conflict, match="meanwhile"):
        put(home, change)
    assert first.read_text() == "{ }"


def test_notes_of_many_at_once_are_all_kept(tmp_path: Path) -> None:
    home = tmp_path / "home"
    folders = [tmp_path / f"p{number}" for number in range(12)]

    def one(folder: Path) -> None:
        change = json_change(folder / "mcp.json", KEYS, ENTRY)
        install(home, [change], place=str(folder), client="claude", now=NOW, project=folder.name)

    with ThreadPoolExecutor(len(folders)) as threads:
        list(threads.map(one, folders))
    noted = read_manifest(home)
    assert {record.place for record in noted.records} == {str(folder) for folder in folders}
    assert set(noted.projects) == {(folder.name, str(folder)) for folder in folders}
    with ThreadPoolExecutor(len(folders)) as threads:
        list(threads.map(lambda folder: taken(home, str(folder)), folders))
        list(threads.map(lambda folder: drop_project(home, folder.name), folders))
    assert not any(folder.exists() for folder in folders)
    assert not (home / "installed.json").exists()


def test_what_a_killed_run_left_beside_a_file_goes(tmp_path: Path) -> None:
    home, folder = tmp_path / "home", tmp_path / ".claude"
    left = written(folder / ".settings.json.123.tmp", "half")
    theirs = written(folder / ".settings.json.tmp", "x")
    put(home, hooks_of(folder / "settings.json"))
    assert not left.exists()
    written(left, "half")
    taken(home)
    assert sorted(folder.iterdir()) == [theirs]


def test_an_empty_file_that_others_put_in_place_of_ours_is_theirs(tmp_path: Path) -> None:
    home, path = tmp_path / "home", tmp_path / "mcp.json"
    for content in ("{}", ""):
        put(home, json_change(path, KEYS, ENTRY))
        written(path, content)
        taken(home)
        assert path.read_text() == content
        path.unlink()


def test_without_notes_files_that_are_only_ours_go(tmp_path: Path) -> None:
    """The notes are lost, or the folder was moved."""
    folder = tmp_path / "p"
    put(
        tmp_path / "lost",
        hooks_of(folder / ".claude" / "settings.json", home="/x", status_line=True),
        json_change(folder / ".mcp.json", KEYS, server_entry(PLAIN, toolsets=None, home="/x")),
        MCP_CLIENTS["codex"].change(folder / ".codex" / "config.toml", server_entry(PLAIN, toolsets=None)),
        markers_change(folder / "CLAUDE.md"),
        markers_change(written(folder / "AGENTS.md", "mine\n")),
    )
    found = {
        ".claude/settings.json": SETTINGS_UNDO,
        ".mcp.json": server_undo(*KEYS),
        ".codex/config.toml": table_undo("mcp_servers", "mindhold"),
        "CLAUDE.md": EMPTY_BLOCK_UNDO,
        "AGENTS.md": DOCUMENT_UNDO,
    }
    records = [InstalledFile(str(folder / name), str(folder), "x", undo=undo) for name, undo in found.items()]
    uninstall(tmp_path / "home", plan_removal(tmp_path / "home", records))
    assert sorted(folder.iterdir()) == [folder / "AGENTS.md"]
    assert (folder / "AGENTS.md").read_text() == "mine\n"
    assert not (tmp_path / "home").exists()


def test_the_variable_of_the_home_goes_by_its_looks_only_with_hooks() -> None:
    source = b'{"env": {"MINDHOLD_HOME": "/x"}, "a": 1}'
    assert remove_ours(Path("x"), source, SETTINGS_UNDO) == source


def test_what_cannot_be_read_is_passed_over_if_asked(tmp_path: Path) -> None:
    broken, fine = written(tmp_path / "a.json", "{"), tmp_path / "b.json"
    put(tmp_path / "home", json_change(fine, KEYS, ENTRY))
    records = [
        InstalledFile(str(broken), "", "claude", undo=server_undo(*KEYS)),
        *read_manifest(tmp_path / "home").records,
    ]
    with pytest.raises(InvalidInput):
        plan_removal(tmp_path / "home", records)
    passed: list[MindholdError] = []
    planned = plan_removal(tmp_path / "home", records, passed_over=passed)
    assert ([change.path for _, change in planned], len(passed)) == ([fine], 1)


def test_markers_that_were_there_before_stay_when_emptied() -> None:
    source = b"a\n<!-- MEMORY:START -->\nOne\n<!-- MEMORY:END -->\nb\n"
    assert remove_ours(Path("x"), source, EMPTY_BLOCK_UNDO) == source.replace(b"One\n", b"")


def test_what_was_killed_half_way_is_made_good(tmp_path: Path) -> None:
    """The notes are written first: a file that was not reached is as it was, and a second run does it."""
    home, path = tmp_path / "home", written(tmp_path / "one.json", '{"a": 1}')
    change = json_change(path, KEYS, ENTRY)
    put(home, change)
    written(path, '{"a": 1}')
    taken(home)
    assert path.read_text() == '{"a": 1}'
    put(home, change)
    written(path, '{"a": 1}')
    put(home, json_change(path, KEYS, ENTRY))
    taken(home)
    assert path.read_text() == '{"a": 1}'


def test_notes_that_are_not_ours_are_not_guessed_at(tmp_path: Path) -> None:
    written(tmp_path / "installed.json", '{"version": 9}')
    with pytest.raises(InvalidInput, match=r"installed\.json"):
        read_manifest(tmp_path)


def test_where_clients_keep_their_files() -> None:
    settings = load_settings({"home": "/h"}, environ={}).settings
    found = {
        platform: {
            name: str(client.file(client_places(settings, environ=environ, platform=platform), None))
            for name, client in MCP_CLIENTS.items()
        }
        for platform, environ in {
            "linux": {"HOME": "/u", "XDG_CONFIG_HOME": "/u/cfg", "CODEX_HOME": "/c"},
            "darwin": {"HOME": "/u"},
            "win32": {"HOME": "/u", "APPDATA": "/r"},
        }.items()
    }
    assert found["linux"]["desktop"] == "/u/cfg/Claude/claude_desktop_config.json"
    assert found["linux"]["codex"] == "/c/config.toml"
    assert found["darwin"]["vscode"] == "/u/Library/Application Support/Code/User/mcp.json"
    assert found["win32"]["desktop"] == "/r/Claude/claude_desktop_config.json"
    assert found["darwin"]["gemini"] == "/u/.gemini/settings.json"
    assert found["darwin"]["claude"] == "/u/.claude.json"
    with pytest.raises(InvalidInput, match="no file in a project"):
        MCP_CLIENTS["desktop"].file(client_places(settings), Path("/p"))


def test_the_plugin_has_the_same_hooks_and_server() -> None:
    hooks = json.loads((ROOT / "plugin/hooks/hooks.json").read_text("utf-8"))["hooks"]
    assert hooks == {event: [group] for event, group in hook_groups(PLAIN).items()}
    servers = (ROOT / "plugin/.mcp.json").read_text("utf-8")
    assert servers == render({"mcpServers": {"mindhold": ENTRY}}) + "\n"
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    assert json.loads((ROOT / "plugin/.claude-plugin/plugin.json").read_text("utf-8"))["version"] == version
