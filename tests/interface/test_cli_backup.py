"""`mindhold backup` and `mindhold restore`, as a person types them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from cli_shell import Shell

SECRET = "eleven grey herons"


@pytest.fixture
def key(tmp_path: Path) -> str:
    path = tmp_path / "passphrase"
    path.write_text(f"{SECRET}\n", encoding="utf-8")
    return str(path)


def listed(shell: Shell) -> list[str]:
    return [one["file"] for one in shell.fine("backup", "list", "--json").json["backups"]]


def test_made_listed_proved_restored_and_dropped(shell: Shell) -> None:
    assert "no backup" in shell.fine("backup", "list").out
    shell.remember("The harbour has nine cranes")
    made = shell.fine("backup", "--json").json
    named = shell.fine("backup", "before-the-move").out
    assert "before-the-move.backup" in named
    assert listed(shell) == ["before-the-move.backup", made["file"]]
    assert "by hand" in shell.fine("backup", "list").out
    assert "before-the-move.backup" in shell.fine("backup", "verify").out
    assert len(shell.fine("backup", "verify", "--all", "--json").json["backups"]) == 2
    second = shell.remember("The captain prefers tea")
    assert shell("restore").status == 5  # nobody is there to ask
    told = shell.fine("restore", "--yes")
    assert "Restored 1 memory from before-the-move.backup." in told.out
    assert "--drop-old" in told.err
    assert shell.found("cranes") == ["The harbour has nine cranes"]
    assert shell("show", second).status == 3
    assert "kept from before a restore" in shell.fine("status").out
    assert "Removed" in shell.fine("restore", "--drop-old", "--yes").out
    assert shell("restore", "--drop-old", "--yes").status == 3
    assert "kept from before" not in shell.fine("status").out
    merged = shell.fine("restore", "before-the-move", "--merge")
    assert "0 memories" in merged.out
    shell.fine("backup", "drop", "before-the-move", "--yes")
    assert "before-the-move.backup" not in listed(shell)
    assert shell("backup", "drop", "before-the-move", "--yes").status == 3
    assert shell("restore", "--merge", "--drop-old").status == 2


def test_a_name_that_is_a_command_is_given_to_make(shell: Shell) -> None:
    shell.fine("backup", "make", "list")
    assert listed(shell) == ["list.backup"]
    assert shell("backup", "make", "list").status == 4
    assert shell("backup", "../out").status == 2


def test_encrypted_with_a_file_or_the_environment(
    shell: Shell, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell.remember("The harbour has nine cranes")
    assert shell("backup", "--encrypt").status == 5  # no passphrase, and nobody to ask
    assert shell.fine("backup", "closed", "--encrypt", "--passphrase-file", key, "--json").json["encrypted"]
    assert "encrypted" in shell.fine("backup", "list").out
    without = shell("backup", "verify", "closed")
    assert (without.status, "is encrypted" in without.out) == (1, True)
    assert shell("restore", "closed", "--yes").status == 5
    wrong = Path(key).with_name("wrong")
    wrong.write_text("ten grey herons\n", encoding="utf-8")
    refused = shell("restore", "closed", "--yes", "--passphrase-file", str(wrong))
    assert (refused.status, "passphrase is not that" in refused.err) == (5, True)
    assert shell("restore", "closed", "--yes", "--passphrase-file", key + ".not").status == 2
    assert "1 memory" in shell.fine("restore", "closed", "--yes", "--passphrase-file", key).out
    monkeypatch.setenv("MINDHOLD_BACKUP_PASSPHRASE", SECRET)
    shell.fine("backup", "verify", "closed")
    shell.fine("config", "set", "backup.encrypt", "true")
    assert shell.fine("backup", "--json").json["encrypted"]
    assert not shell.fine("backup", "open", "--plain", "--json").json["encrypted"]


def typed(home: Path, *argv: str) -> tuple[int, str]:
    """On a real terminal, by somebody who answers each question for the passphrase; the status and all that was seen."""
    import pty

    child, terminal = pty.fork()
    if child == 0:
        os.environ.update(MINDHOLD_HOME=str(home), MINDHOLD_EMBEDDING_PROVIDER="hashing", PYTHONWARNINGS="")
        os.execv(sys.executable, [sys.executable, "-m", "mindhold", *argv])
    seen, answered = b"", 0
    while True:
        try:
            more = os.read(terminal, 4096)
        except OSError:  # it is over
            break
        if not more:
            break
        seen += more
        asked = seen.count(b"assphrase:") + seen.count(b"confirmation:")
        for _ in range(asked - answered):
            os.write(terminal, SECRET.encode() + b"\n")
        answered = asked
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), seen.decode()


@pytest.mark.skipif(sys.platform == "win32", reason="no such terminal")
def test_a_passphrase_is_typed_and_never_shown(shell: Shell) -> None:
    shell.remember("The harbour has nine cranes")
    status, seen = typed(shell.home, "backup", "typed", "--encrypt")
    assert (status, "encrypted" in seen) == (0, True), seen
    status, again = typed(shell.home, "restore", "typed", "--yes")
    assert (status, "Restored 1 memory" in again) == (0, True), again
    assert SECRET not in seen + again


def test_the_settings_file_is_no_place_for_a_passphrase(shell: Shell, key: str) -> None:
    assert shell("config", "set", "backup.passphrase", SECRET).status == 6
    (shell.home / "config.toml").write_text(f'[backup]\npassphrase = "{SECRET}"\n', encoding="utf-8")
    told = shell("status")
    assert (told.status, SECRET in told.out + told.err) == (6, False)
    (shell.home / "config.toml").write_text("", encoding="utf-8")
    shell.fine("config", "set", "backup.passphrase_file", key)
    shell.remember("The harbour has nine cranes")
    assert shell.fine("backup", "--encrypt", "--json").json["encrypted"]


@pytest.mark.local_file
def test_a_damaged_database_offers_the_last_good_backup(shell: Shell) -> None:
    shell.remember("The harbour has nine cranes")
    shell.fine("backup", "good")
    path = shell.home / "data" / "mindhold.db"
    path.write_bytes(b"SQLite format 3\0" + os.urandom(30_000))
    told = shell("recall", "cranes")
    assert (told.status, "mindhold restore good.backup" in told.err) == (7, True)
    for argv in (("doctor",), ("doctor", "--repair")):
        answer = shell(*argv)
        assert "mindhold restore good.backup" in answer.out + answer.err, argv
    shell.fine("restore", "good", "--yes")
    assert len(shell.found("cranes")) == 1
