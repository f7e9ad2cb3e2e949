"""Setting up and taking back, as processes: what is written where, and that nothing is left of it."""

from __future__ import annotations

import hashlib
import json
import os
import pty
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cli_shell import Shell

from mindhold.contracts.mcp.tools import tools_of
from support.tiny_models import write_tiny_model

SETTINGS = '{\r\n\t"model": "opus",\r\n\t"hooks": {\r\n\t\t"Stop": [{"hooks": [{"type": "command", "command": "x"}]}]\r\n\t}\r\n}'


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody with a folder to work in and a home of their own."""

    folder: Path
    environment: Mapping[str, str]

    def __call__(
        self, *argv: str, at: Path | None = None, stdin: str = ""
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "mindhold", *argv],
            cwd=at or self.folder,
            env=dict(self.environment),
            input=stdin,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )

    def fine(self, *argv: str, at: Path | None = None) -> str:
        done = self(*argv, at=at)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def told(self, *argv: str, at: Path | None = None) -> Any:
        return json.loads(self.fine(*argv, "--json", at=at))

    @property
    def user(self) -> Path:
        return Path(self.environment["HOME"])

    def write(self, name: str, content: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode())
        return path

    def read(self, name: str) -> Any:
        return json.loads((self.folder / name).read_text("utf-8"))


@pytest.fixture
def person(tmp_path: Path, environment: dict[str, str]) -> Person:
    folder, user = tmp_path / "my 'big' \"shop\"", tmp_path / "user"
    folder.mkdir()
    user.mkdir()
    programs = os.pathsep.join((str(Path(sys.executable).parent), environment["PATH"]))
    left_out = ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_CONFIG_HOME", "ANTHROPIC_API_KEY", "OPENAI_API_KEY")
    kept = {name: value for name, value in environment.items() if name not in left_out}
    own = {"HOME": str(user), "USERPROFILE": str(user), "APPDATA": str(user / "roaming"), "PATH": programs}
    return Person(folder, kept | own)


def tree(folder: Path) -> dict[str, str]:
    """Everything in it, folders too, with modes and sums of what it holds."""
    return {
        str(path.relative_to(folder)): f"{path.lstat().st_mode:o} "
        + (hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder")
        for path in sorted(folder.rglob("*"))
    }


def test_a_project_is_set_up_and_taken_back_to_the_byte(person: Person) -> None:
    person.write(".claude/settings.json", SETTINGS).chmod(0o600)
    person.write("CLAUDE.md", "# Shop\r\n\r\nno end")
    before = tree(person.folder)
    told = person.told("init", "--yes", "--claude-md", "--agents-md", "--statusline")
    assert (told["command"], told["portable"], told["project"]) == (["mindhold"], True, person.folder.name)
    assert {Path(one["file"]).name for one in told["changes"]} == {
        "settings.json",
        ".mcp.json",
        "CLAUDE.md",
        "AGENTS.md",
    }
    settings = person.read(".claude/settings.json")
    assert settings["hooks"]["Stop"][0] == {"hooks": [{"type": "command", "command": "x"}]}
    handler = settings["hooks"]["SessionEnd"][0]["hooks"][0]
    assert handler == {"type": "command", "command": "mindhold hook SessionEnd", "timeout": 5}
    assert settings["statusLine"]["command"] == "mindhold statusline"
    server = person.read(".mcp.json")["mcpServers"]["mindhold"]
    assert server == {"type": "stdio", "command": "mindhold", "args": ["mcp", "--toolsets", "core,capture"]}
    assert {"memory_search", "memory_ask", "memory_related", "remember"} <= {
        tool.name for tool in tools_of(server["args"][2:])
    }
    assert b"\n" not in (person.folder / ".claude/settings.json").read_bytes().replace(b"\r\n", b"")
    after = tree(person.folder)
    again = person.told("init", "--yes", "--claude-md", "--agents-md", "--statusline")
    assert again["changes"] == []
    assert again["backup"] is None
    assert "nothing was changed" in person.fine("init", "--yes")
    assert tree(person.folder) == after
    assert person.told("uninstall", "--yes")["projects_removed"] == [person.folder.name]
    assert tree(person.folder) == before
    assert "Nothing of Mindhold's" in person.fine("uninstall", "--yes")


def test_hooks_with_arguments_as_they_were_once_written_become_lines_and_go(person: Person) -> None:
    """Claude Code before 2.1.139 ignores `args`."""
    person.fine("init", "--yes")
    before = person.read(".claude/settings.json")
    older = json.loads(json.dumps(before))
    for groups in older["hooks"].values():
        for group in groups:
            [handler] = group["hooks"]
            command, *arguments = handler["command"].split()
            handler |= {"command": command, "args": arguments}
    person.write(".claude/settings.json", json.dumps(older, indent=2))
    assert len(person.told("init", "--yes")["changes"]) == 1
    assert person.read(".claude/settings.json") == before
    assert person.told("init", "--yes")["changes"] == []
    person.write(".claude/settings.json", json.dumps({**older, "model": "opus"}, indent=2))
    person.fine("uninstall", "--yes")
    assert person.read(".claude/settings.json") == {"model": "opus"}


def test_what_others_wrote_since_stays_and_so_do_memories(person: Person) -> None:
    person.fine("init", "--yes", "--claude-md")
    assert person.told("init", "--yes")["project"] == person.folder.name
    person.fine("remember", "The quay crane lifts 40 tonnes", "--scope", person.folder.name)
    settings = person.folder / ".claude/settings.json"
    settings.write_text(settings.read_text().replace('"hooks": {', '"model": "opus",\n  "hooks": {', 1))
    guide = person.folder / "CLAUDE.md"
    guide.write_text(
        guide.read_text().replace("<!-- MEMORY:END -->", "- one\n<!-- MEMORY:END -->") + "\nMine.\n"
    )
    done = person("uninstall", "--yes")
    assert done.returncode == 0, done.stderr
    assert f"mindhold scopes delete {person.folder.name!r}" in done.stderr
    assert settings.read_text() == '{\n  "model": "opus"\n}\n'
    assert guide.read_text() == "\nMine.\n"
    assert not (person.folder / ".mcp.json").exists()
    assert person.told("recall", "crane", "--everywhere")["hits"]


def test_it_is_taken_back_without_notes_too(person: Person) -> None:
    person.write(".mcp.json", '{"mcpServers": {"other": {"command": "y"}}}')
    person.write("CLAUDE.md", "Hello\n")
    person.fine("init", "--yes", "--claude-md", "--statusline")
    (Path(person.environment["MINDHOLD_HOME"]) / "installed.json").unlink()
    person.fine("uninstall", "--yes")
    assert person.read(".mcp.json") == {"mcpServers": {"other": {"command": "y"}}}
    left = "Hello\n\n<!-- MEMORY:START -->\n<!-- MEMORY:END -->\n"
    assert (person.folder / "CLAUDE.md").read_text() == left, "nobody knows whose the markers are"
    assert not (person.folder / ".claude").exists()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (".claude/settings.json", '{\n  "a": 1,\n  "b": oops\n}', "line 3, column 8"),
        (".claude/settings.json", '{"hooks": []}', "hooks should be an object"),
        (".mcp.json", '{"mcpServers": "x"}', "mcpServers should be an object"),
        (
            ".mcp.json",
            '{"mcpServers": {"mindhold": {"command": "theirs"}}}',
            "doesn't start `mindhold mcp`",
        ),
        ("CLAUDE.md", "<!-- MEMORY:START -->\n", "line 1"),
        (
            ".claude/settings.json",
            '{"statusLine": {"type": "command", "command": "date"}}',
            "status line already",
        ),
    ],
)
def test_what_is_wrong_is_told_and_nothing_is_written(
    person: Person, name: str, content: str, message: str
) -> None:
    path = person.write(name, content)
    before = tree(person.folder)
    done = person("init", "--yes", "--claude-md", "--statusline")
    assert done.returncode in (2, 4)
    assert message in done.stderr
    assert str(path) in done.stderr
    assert tree(person.folder) == before
    assert not Path(person.environment["MINDHOLD_HOME"]).exists()


def test_a_dry_run_shows_and_writes_nothing(person: Person) -> None:
    person.write(".claude/settings.json", SETTINGS)
    before = tree(person.folder)
    told = person.fine("init", "--dry-run", "--claude-md")
    assert '+    "mindhold": {' in told
    assert "+<!-- MEMORY:START -->" in told
    assert tree(person.folder) == before
    assert not Path(person.environment["MINDHOLD_HOME"]).exists()
    asked = person("init")
    assert asked.returncode == 5
    assert "--yes" in asked.stderr
    assert tree(person.folder) == before


def test_worktrees_are_one_project_with_files_of_their_own(person: Person) -> None:
    main, other = person.folder / "main", person.folder / "other"
    author = ["-c", "user.name=x", "-c", "user.email=x@example.com"]
    subprocess.run(["git", "init", "-q", str(main)], check=True)
    commit = ["git", "-C", str(main), *author, "commit", "-q", "--allow-empty", "-m", "one"]
    subprocess.run(commit, check=True)
    subprocess.run(["git", "-C", str(main), "worktree", "add", "-q", str(other)], check=True)
    (main / "sub").mkdir()
    assert person.told("init", "--yes", "--claude-md", at=main / "sub")["project"] == "main"
    assert (main / "CLAUDE.md").exists(), "where the documents of a repository are looked for"
    assert person.told("init", "--yes", at=other)["project"] == "main"
    assert (other / ".mcp.json").exists()
    assert not (main / ".mcp.json").exists()
    twin = person.folder / "deep" / "main"
    twin.mkdir(parents=True)
    assert person.told("init", "--yes", at=twin)["project"] == "main-2"
    named = person("init", "--yes", "--name", "main", at=person.folder)
    assert named.returncode == 4
    assert not (person.folder / ".mcp.json").exists()


def test_a_person_sets_up_everything_or_only_themselves(person: Person) -> None:
    own = person.user / ".claude.json"
    own.write_text('{\n  "numStartups": 3\n}')
    own.chmod(0o600)
    before = tree(person.user)
    person.fine("init", "--global", "--yes")
    assert "mindhold" in json.loads(own.read_text())["mcpServers"]
    assert json.loads((person.user / ".claude/settings.json").read_text())["hooks"]["Stop"]
    assert tree(person.folder) == {}
    assert person("init", "--global", "--claude-md", "--yes").returncode == 2
    person.fine("init", "--local", "--yes")
    assert list(tree(person.folder)) == [".claude", ".claude/settings.local.json"]
    assert "mindhold" in json.loads(own.read_text())["projects"][person.folder.as_posix()]["mcpServers"]
    person.fine("uninstall", "--all", "--yes")
    assert tree(person.folder) == {}
    assert tree(person.user) == before


def test_another_program_of_that_name_or_home_is_told_apart(person: Person, tmp_path: Path) -> None:
    other = tmp_path / "bin" / "mindhold"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    path = os.pathsep.join((str(other.parent), "/usr/bin", "/bin"))
    stranger = Person(person.folder, {**person.environment, "PATH": path})
    told = stranger.told("init", "--yes", "--home", str(tmp_path / "elsewhere"))
    assert Path(told["command"][0]).is_absolute()
    assert any("--local" in note for note in told["notes"])
    settings = person.read(".claude/settings.json")
    assert settings["env"] == {"MINDHOLD_HOME": str(tmp_path / "elsewhere")}
    assert person.read(".mcp.json")["mcpServers"]["mindhold"]["env"] == settings["env"]


def test_the_home_folder_is_no_project(person: Person) -> None:
    done = person("init", "--yes", at=person.user)
    assert done.returncode == 5
    assert "--global" in done.stderr
    assert tree(person.user) == {}
    assert "mindhold uninstall --global" in person("init", "--global", "--yes").stderr
    before = tree(person.user)
    assert "--global" in person("uninstall", "--yes", at=person.user).stderr
    assert tree(person.user) == before


def test_files_that_are_only_looked_at_block_nothing(person: Person) -> None:
    own = person.user / ".claude" / "settings.json"
    own.parent.mkdir()
    own.write_text('{"a": oops}')
    told = person.told("init", "--yes", "--claude-md", "--agents-md")
    assert any(str(own) in note for note in told["notes"])
    person.write(".gemini/settings.json", "{broken")
    person.write(".cursor/mcp.json", '{"mcpServers": []}')
    guide = person.write("CLAUDE.md", "<!-- MEMORY:START -->\n")
    done = person("uninstall", "--yes", "--json")
    assert done.returncode == 1
    problems = json.loads(done.stdout)["problems"]
    assert [str(guide) in one for one in problems] == [True]
    assert set(tree(person.folder)) == {
        ".cursor",
        ".cursor/mcp.json",
        ".gemini",
        ".gemini/settings.json",
        "CLAUDE.md",
    }
    guide.write_text("Mine\n")
    person.fine("uninstall", "--yes")
    assert "Nothing of Mindhold's" in person.fine("uninstall", "--yes")


def test_hand_made_markers_stay_and_what_was_written_between_goes(person: Person) -> None:
    text = "# Shop\n<!-- MEMORY:START -->\n<!-- MEMORY:END -->\n"
    person.write("CLAUDE.md", text)
    theirs = "<!-- MEMORY:START -->\nof another program\n<!-- MEMORY:END -->\n"
    person.fine("init", "--yes", "--claude-md")
    person.fine("remember", "We deploy with Kamal", "--kind", "decision")
    person.fine("sync")
    person.write("AGENTS.md", theirs)
    assert "Kamal" in (person.folder / "CLAUDE.md").read_text()
    person.fine("uninstall", "--yes")
    assert (person.folder / "CLAUDE.md").read_text() == text
    assert (person.folder / "AGENTS.md").read_text() == theirs


def test_another_home_in_the_files_is_refused(person: Person, tmp_path: Path) -> None:
    other = str(tmp_path / "elsewhere")
    person.fine("init", "--yes", "--home", other)
    before = tree(person.folder)
    done = person("init", "--yes")
    assert done.returncode == 4
    assert f"--home {other}" in done.stderr
    settings = person.folder / ".claude" / "settings.json"
    settings.write_text(settings.read_text().replace("MINDHOLD_HOME", "OTHER"))
    assert person("init", "--yes").returncode == 4, "the server's entry says so too"
    settings.write_text(settings.read_text().replace("OTHER", "MINDHOLD_HOME"))
    assert tree(person.folder) == before
    assert not Path(person.environment["MINDHOLD_HOME"]).exists()


def test_tools_once_chosen_stay_and_hooks_that_run_twice_are_told(person: Person) -> None:
    person.fine("init", "--yes", "--toolsets", "core")
    again = person.told("init", "--yes")
    assert again["changes"] == []
    assert not any("twice" in note for note in again["notes"])
    settings = person.folder / ".claude" / "settings.json"
    settings.write_text(settings.read_text().replace('"mindhold hook', '"/old/bin/mindhold hook'))
    told = person.told("init", "--global", "--yes", at=person.folder)
    assert not any("twice" in note for note in told["notes"]), "of this project nothing is known there"
    told = person.told("init", "--local", "--yes")
    assert any("twice" in note and "`mindhold init`" in note for note in told["notes"])


def test_a_refused_init_leaves_no_project(person: Person) -> None:
    home = Path(person.environment["MINDHOLD_HOME"])
    home.mkdir()
    (home / "installed.json").write_text("{")
    assert person("init", "--yes").returncode == 2
    (home / "installed.json").unlink()
    assert person.told("projects", "list")["projects"] == []
    (home / "backups").mkdir(exist_ok=True)
    (home / "backups" / "setup").write_text("in the way")
    person.write(".mcp.json", "{}")
    assert person("init", "--yes").returncode == 5
    assert person.told("projects", "list")["projects"] == []


def test_a_name_for_a_known_folder_and_a_deactivated_project(person: Person) -> None:
    person.fine("init", "--yes")
    named = person("init", "--yes", "--name", "billing")
    assert named.returncode == 4
    assert person.folder.name in named.stderr
    person.fine("scopes", "deactivate", person.folder.name)
    done = person("init", "--yes")
    assert done.returncode == 5
    assert "deactivated" in done.stderr


def test_a_folder_that_is_gone(person: Person, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    script = 'cd "$1" && rmdir "$1" && shift && exec "$@"'
    for words in (["init", "--yes"], ["uninstall", "--yes"], ["sync"]):
        gone.mkdir()
        argv = ["sh", "-c", script, "sh", str(gone), sys.executable, "-m", "mindhold", *words]
        done = subprocess.run(
            argv, env=dict(person.environment), capture_output=True, encoding="utf-8", check=False
        )
        assert done.returncode == 3, done.stderr
    assert person("uninstall", "--yes", str(gone)).returncode == 3
    project = tmp_path / "project"
    project.mkdir()
    person.fine("init", "--yes", at=project)
    for path in sorted(project.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    project.rmdir()
    assert person.told("uninstall", "--all", "--yes")["projects_removed"] == ["project"]
    assert not (Path(person.environment["MINDHOLD_HOME"]) / "installed.json").exists()


def test_in_a_repository_it_says_what_others_see_and_where_it_was_set_up(person: Person) -> None:
    subprocess.run(["git", "init", "-q", str(person.folder)], check=True)
    sub = person.folder / "sub"
    sub.mkdir()
    notes = person.told("init", "--yes", "--claude-md", at=sub)["notes"]
    assert any("mindhold init --local" in note for note in notes)
    assert any(str(person.folder) in note for note in notes), "the hooks are of the sub-folder alone"
    assert str(sub) in person("uninstall", "--yes").stderr
    person.fine("uninstall", "--yes", at=sub)
    assert any("info/exclude" in note for note in person.told("init", "--local", "--yes")["notes"])


def test_captures_go_on_after_a_file_that_is_not_there(person: Person) -> None:
    person.write("odd.jsonl", "{}\n")
    done = person("capture", "missing.jsonl", "odd.jsonl", "--folder", ".", "--json")
    assert done.returncode == 1
    first, second = json.loads(done.stdout)["captured"]
    assert (first["outcome"], second["file"]) == ("gone", "odd.jsonl")
    told = person("capture", "missing.jsonl", "--folder", ".")
    assert len((told.stdout + told.stderr).splitlines()) == 1
    assert "not captured" in told.stdout
    done = person("capture", "missing.jsonl", "odd.jsonl", "--json")
    assert [one["outcome"] for one in json.loads(done.stdout)["captured"]] == ["failed", "failed"]


@pytest.mark.parametrize(
    ("client", "file"),
    [
        ("claude", ".claude.json"),
        ("desktop", ".config/Claude/claude_desktop_config.json"),
        ("cursor", ".cursor/mcp.json"),
        ("vscode", ".config/Code/User/mcp.json"),
        ("codex", ".codex/config.toml"),
        ("gemini", ".gemini/settings.json"),
    ],
)
def test_other_clients(person: Person, client: str, file: str) -> None:
    path = person.user / file
    text = '[mcp_servers.other]\ncommand = "x"\n' if client == "codex" else '{\n    "a": 1\n}\n'
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    shown = person.told("connect", client, "--print")
    assert shown["file"] == str(path)
    assert path.read_text() == text
    person.fine("connect", client, "--yes")
    assert "mindhold" in path.read_text()
    assert person.told("connect", client, "--yes")["changes"] == []
    person.fine("connect", client, "--remove", "--yes")
    assert path.read_text() == text


def test_a_client_in_a_project(person: Person) -> None:
    person.write(".vscode/mcp.json", '{\n  // mine\n  "servers": {},\n}\n')
    before = tree(person.folder)
    person.fine("connect", "vscode", "--project", ".", "--toolsets", "all", "--yes")
    person.fine("connect", "cursor", "--project", ".", "--yes")
    text = (person.folder / ".vscode/mcp.json").read_text()
    assert text.startswith('{\n  // mine\n  "servers": {\n    "mindhold": {\n')
    assert person.read(".cursor/mcp.json")["mcpServers"]["mindhold"]["command"] == "mindhold"
    assert person("connect", "desktop", "--project", ".", "--yes").returncode == 2
    assert person("connect", "cursor", "--toolsets", "nonsense", "--yes").returncode == 2
    person.fine("uninstall", "--yes")
    assert tree(person.folder) == before


def test_setup_by_flags(person: Person, tmp_path: Path) -> None:
    nobody = person("setup")
    assert nobody.returncode == 5
    assert "--yes" in nobody.stderr
    key = tmp_path / "key"
    key.write_text("sk-ant-made-up\n")
    argv = ["setup", "--yes", "--no-model", "--capture", "decision,error", "--provider", "anthropic"]
    told = person.told(*argv, "--key-file", str(key), "--extract-with", "model", "--init")
    assert told["settings"]["capture.kinds"] == "decision, error"
    assert "history.archive" not in told["settings"]
    assert told["init"]["project"] == person.folder.name
    file = Path(told["file"])
    assert "sk-ant-made-up" in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600
    assert "sk-ant-made-up" not in json.dumps(told)
    assert (person.folder / ".mcp.json").exists()
    assert person("setup", "--yes", "--provider", "none", "--extract-with", "model").returncode == 2
    assert person("setup", "--yes", "--provider", "openai", "--key-from-env", "--no-model").returncode == 2
    assert person("setup", "--yes", "--no-model", "--capture", "gossip").returncode == 2
    for flag, value in (("--archive", "true"), ("--no-archive", "false")):
        again = person.told("setup", "--yes", "--no-model", "--no-init", flag)
        assert again["settings"] == {"history.archive": value}


def test_setup_writes_all_or_nothing_and_asks_anew_who_may_be_sent_conversations(
    person: Person, tmp_path: Path
) -> None:
    here = ["--provider", "compatible", "--address", "http://localhost:11434/v1"]
    quick = ["setup", "--yes", "--no-model", "--no-init"]
    person.fine(*quick, *here, "--extract-with", "model")
    file = Path(person.environment["MINDHOLD_HOME"]) / "config.toml"
    before = file.read_bytes()
    assert (
        person(*quick, "--provider", "compatible", "--address", "nope", "--capture", "error").returncode == 6
    )
    key = tmp_path / "key"
    key.write_text("sk-\x01made-up")
    assert person(*quick, "--provider", "openai", "--key-file", str(key)).returncode == 2
    assert file.read_bytes() == before
    told = person.told(*quick, "--provider", "openai")
    assert told["settings"]["capture.extract_with"] == "rules"
    assert any("llm.openai_key" in note for note in told["notes"])
    assert any("--extract-with model" in note for note in told["notes"])
    agreed = person.told(*quick, *here, "--llm-model", "qwen3", "--extract-with", "model")
    assert agreed["notes"] == []


def test_setup_takes_the_address_of_one_provider_for_no_other(person: Person) -> None:
    """Whose key would go there."""
    quick = ["setup", "--yes", "--no-model", "--no-init"]
    here = ["--provider", "compatible", "--address", "http://localhost:11434/v1"]
    unnamed = person.told(*quick, *here)
    assert any("llm.model" in note for note in unnamed["notes"])
    named = person.told(*quick, "--llm-model", "qwen3")
    assert (named["settings"], named["notes"]) == ({"llm.model": "qwen3"}, [])
    other = person.told(*quick, "--provider", "anthropic")
    assert other["settings"] == {"llm.provider": "anthropic", "llm.base_url": "", "llm.model": "auto"}
    assert person(*quick, "--provider", "compatible").returncode == 2, "the address went with the provider"
    proxied = person.told(*quick, "--provider", "anthropic", "--address", "http://localhost:8080")
    assert person.told(*quick, "--provider", "anthropic")["settings"] == {"llm.provider": "anthropic"}
    assert proxied["settings"]["llm.base_url"] == "http://localhost:8080"


def test_setup_as_a_dialogue(person: Person) -> None:
    """On a real terminal, with a key that isn't shown."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "mindhold", "setup"],
        cwd=person.folder,
        env=dict(person.environment),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    answers = {
        b"A language model": b"anthropic\n",
        b"Key to anthropic": b"sk-typed\n",
        b"be sent your conversations": b"n\n",
        b"What shall be captured": b"decision, gossip\n",
        b"is none of": b"decision\n",
        b"compressed copies": b"y\n",
        b"Let Claude Code remember": b"y\n",
        b"shown in CLAUDE.md": b"y\n",
    }
    said = b""
    seen = 0
    for question, answer in answers.items():
        while question not in said[seen:]:
            said += os.read(ours, 4096)
        seen = said.index(question, seen) + len(question)
        os.write(ours, answer)
    while True:
        try:
            piece = os.read(ours, 4096)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        said += piece
    os.close(ours)
    assert process.wait() == 0, said.decode()
    assert b"sk-typed" not in said
    settings = person.told("config", "show", "--changed")["settings"]
    values = {one["key"]: one["value"] for one in settings}
    assert values["llm.provider"] == "anthropic"
    assert values["llm.anthropic_key"] == "(hidden)"
    assert values["capture.kinds"] == "decision"
    assert values["history.archive"] is True
    assert "capture.extract_with" not in values
    assert "MEMORY:START" in (person.folder / "CLAUDE.md").read_text()


def test_a_no_leaves_all_as_it_was(shell: Shell, tmp_path: Path) -> None:
    folder = tmp_path / "quay"
    folder.mkdir()
    shell.patch.chdir(folder)
    answer = shell("init", stdin="n\nn\n", terminal=True)
    assert answer.status == 5
    assert "nothing was done" in answer.err
    assert tree(folder) == {}
    assert shell("init", stdin="n\n\n", terminal=True).status == 0
    assert (folder / ".mcp.json").exists()
    assert not (folder / "CLAUDE.md").exists()
    assert shell("uninstall", stdin="\n", terminal=True).status == 0
    assert tree(folder) == {}


def test_status_says_whether_hooks_hold_here_and_can_run(person: Person) -> None:
    person.fine("projects", "create", "shop", "--path", ".")
    assert "not set up in this folder; `mindhold init` does" in person.fine("status")
    person.fine("init", "--yes")
    assert "set up in this project" in person.fine("status")
    settings = person.folder / ".claude" / "settings.json"
    value = json.loads(settings.read_text(encoding="utf-8"))
    for groups in value["hooks"].values():
        hook = groups[0]["hooks"][0]
        hook["command"] = hook["command"].replace("mindhold", "/nowhere/mindhold", 1)
    settings.write_text(json.dumps(value), encoding="utf-8")
    assert "The hooks call /nowhere/mindhold, and there is no such program" in person("status").stderr
    done = person("doctor")
    assert done.returncode == 1
    assert "hooks in this folder" in done.stdout


def test_setup_asks_for_no_model_that_is_here(shell: Shell, tmp_path: Path) -> None:
    flags = "--provider none --capture all --no-archive --no-init".split()
    local = ["--option", "embedding.provider=local"]
    asked = shell(*local, "setup", *flags, stdin="n\n\n", terminal=True)
    assert "Fetch a small model" in asked.err + asked.out
    write_tiny_model(tmp_path / "tiny")
    shell.fine(*local, "models", "pull", str(tmp_path / "tiny"))
    done = shell(*local, "setup", *flags, stdin="", terminal=True)
    assert done.status == 0, done.err
    assert "Fetch a small model" not in done.err + done.out
