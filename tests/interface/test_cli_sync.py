"""`mindhold sync` and `mindhold consolidate --captured`, as a person and as a program read them."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_shell import Shell

from mindhold.model.markers import END, START


@pytest.fixture
def project(shell: Shell, tmp_path: Path) -> Path:
    folder = tmp_path / "my shop"
    folder.mkdir()
    shell.fine("projects", "create", "shop", "--path", str(folder))
    return folder


def captured(shell: Shell, *texts: str) -> None:
    for text in texts:
        shell.remember(text, "--kind", "decision", "--source", "capture", "--scope", "shop")


def test_documents_are_written(shell: Shell, project: Path) -> None:
    assert "No document" in shell.fine("sync", str(project)).out
    path = project / "CLAUDE.md"
    path.write_text(f"# Mine\n{START}\n{END}\n", encoding="utf-8")
    captured(shell, "We use pnpm for packages")
    assert shell.fine("sync", str(project)).out == f"{path}: written, 6 lines of memory\n"
    assert "- We use pnpm for packages (2" in path.read_text(encoding="utf-8")  # with its date
    assert "up to date" in shell.fine("sync", str(project)).out
    shell.patch.chdir(project)
    [told] = shell.fine("sync", "--json").json["documents"]
    assert told == {"path": str(path), "changed": False, "lines": 6, "problem": ""}


def test_problems_have_a_status(shell: Shell, project: Path, tmp_path: Path) -> None:
    (project / "CLAUDE.md").write_text(f"{END}\n", encoding="utf-8")
    answer = shell("sync", str(project))
    assert (answer.status, answer.out) == (1, "")
    assert "line 1" in answer.err
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert shell("sync", str(elsewhere)).status == 3


def test_what_was_captured_is_condensed(shell: Shell, project: Path) -> None:
    crates = [f"Crate number {number} stands at gate {number * 7}" for number in range(4)]
    captured(shell, *crates, "We use pnpm.", "We use pnpm because npm was slow.")
    dry = shell.fine("consolidate", "--captured", "--scope", "shop", "--dry-run").out
    assert dry.startswith("shop: 4 kept, 2 would be merged into 1, ")
    assert dry.count("\nwould be merged ") == 2
    done = shell.fine("consolidate", "--captured", "--scope", "shop", "--json").json
    assert (done["merged"], done["made"], done["by"], done["dry_run"]) == (2, 1, "rules", False)
    assert shell.fine("consolidate", "--captured", "--scope", "shop").out.startswith("shop: 5 kept, 0 merged")
    for options in (["--scope", "shop"], ["--captured", "--reports"], ["--captured", "--stage", "decay"]):
        assert shell("consolidate", *options).status == 2
