"""Who may read the home folder: looked at by every door when it opens, mended with one notice, never what isn't ours."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from cli_shell import Shell
from mcp_clients import WAIT, HttpServer, Wire, command, surroundings

TEXT = "The heron nests at the weir"
NOTICE = "now only you can"

if sys.platform != "win32":  # whose folders are private by other means than modes

    def mode(path: Path) -> int:
        return stat.S_IMODE(path.lstat().st_mode)

    def open_to_others(home: Path) -> list[str]:
        """What is in a home, models aside, that others may read; links have no modes of their own."""
        found = [home, *(path for path in home.rglob("*") if "models" not in path.relative_to(home).parts)]
        return [str(path) for path in found if not path.is_symlink() and mode(path) & 0o077]

    def call(home: Path, *argv: str) -> subprocess.CompletedProcess[str]:
        """A process of its own, of somebody whose files anybody may read unless said otherwise."""
        return subprocess.run(
            command(*argv),
            env=surroundings(home),
            capture_output=True,
            encoding="utf-8",
            timeout=WAIT,
            check=True,
            umask=0o022,
        )

    def test_what_is_made_is_its_owners_alone(tmp_path: Path) -> None:
        home = tmp_path / "home"
        call(home, "remember", TEXT)
        call(home, "config", "set", "recall.limit", "7")
        call(home, "export", str(home / "export" / "all.jsonl"))
        call(home, "maintain")
        with Wire(home, "--toolsets", "assistant") as wire:
            wire.greet()
            assert not wire.call("backup_memory").get("isError")
            assert not wire.call("export_memory").get("isError")
            wire.close()
        assert (home / "config.toml").exists()
        assert list((home / "backups").iterdir())
        assert len(list((home / "export").iterdir())) == 2
        assert list((home / "logs").iterdir())
        assert open_to_others(home) == []

    @pytest.mark.local_file
    def test_what_others_could_read_is_closed_with_one_notice(tmp_path: Path) -> None:
        home = tmp_path / "home"
        call(home, "remember", TEXT)
        call(home, "config", "set", "recall.limit", "7")
        call(home, "maintain")
        for path in (home, *home.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o664)
        told = call(home, "list").stderr
        assert told.count(NOTICE) == 1
        assert f"{home} (755)" in told
        assert "config.toml (664)" in told
        assert open_to_others(home) == []
        assert mode(home) == 0o700
        assert mode(home / "data" / "mindhold.db") == 0o600
        assert NOTICE not in call(home, "list").stderr

    def test_servers_look_too_and_log_it(tmp_path: Path) -> None:
        home = tmp_path / "home"
        call(home, "remember", TEXT)
        for name, open_door in (("mcp", _mcp), ("serve", _serve)):
            home.chmod(0o755)
            open_door(home)
            assert mode(home) == 0o700
            said = "".join(path.read_text(encoding="utf-8") for path in (home / "logs").iterdir())
            assert said.count(NOTICE) == {"mcp": 1, "serve": 2}[name]

    def _mcp(home: Path) -> None:
        with Wire(home) as wire:
            wire.greet()
            wire.call("recall", query="heron")
            wire.close()

    def _serve(home: Path) -> None:
        with HttpServer(home):
            pass

    @pytest.mark.local_file
    def test_a_database_elsewhere_is_looked_at_and_its_folder_is_not(tmp_path: Path) -> None:
        home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
        elsewhere.mkdir(mode=0o755)
        place = ("-o", f"store.path={elsewhere / 'own.db'}")
        call(home, *place, "remember", TEXT)
        (elsewhere / "own.db").chmod(0o644)
        elsewhere.chmod(0o755)
        assert "own.db (644)" in call(home, *place, "list").stderr
        assert (mode(elsewhere / "own.db"), mode(elsewhere)) == (0o600, 0o755)

    def test_links_are_not_followed(tmp_path: Path) -> None:
        home = tmp_path / "home"
        call(home, "remember", TEXT)
        private, folder = tmp_path / "own.txt", tmp_path / "folder"
        private.write_text("not ours to change", encoding="utf-8")
        folder.mkdir()
        (folder / "inside.txt").write_text("nor this", encoding="utf-8")
        for path in (private, folder / "inside.txt"):
            path.chmod(0o644)
        folder.chmod(0o755)
        (home / "backups" / "link").symlink_to(private)
        (home / "archive").symlink_to(folder)
        assert NOTICE not in call(home, "list").stderr
        assert (mode(private), mode(folder), mode(folder / "inside.txt")) == (0o644, 0o755, 0o644)

    def test_a_home_that_is_a_link_is_looked_at(tmp_path: Path) -> None:
        real, home = tmp_path / "large disk", tmp_path / "home"
        real.mkdir()
        home.symlink_to(real)
        call(home, "remember", TEXT)
        real.chmod(0o755)
        assert NOTICE in call(home, "list").stderr
        assert mode(real) == 0o700

    def test_doctor_tells_that_all_is_private(shell: Shell) -> None:
        shell.remember(TEXT)
        [line] = [one for one in shell.fine("doctor").out.splitlines() if "home folder" in one]
        assert line.startswith("fine")
        assert "its owner's alone" in line

    if os.geteuid() == 0:  # only who may give files away can make one of somebody else's

        def test_what_is_somebody_elses_is_left_alone_and_told(shell: Shell) -> None:
            shell.remember(TEXT)
            foreign = shell.home / "backups" / "theirs.gz"
            foreign.write_bytes(b"")
            foreign.chmod(0o644)
            os.chown(foreign, 54_321, 54_321)
            answer = shell("doctor")
            assert answer.status == 1
            assert "theirs.gz (644)" in answer.out
            assert mode(foreign) == 0o644
