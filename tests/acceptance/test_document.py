"""A project's documents: the block between the markers follows what is remembered, and nothing else is touched."""

from __future__ import annotations

import os
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from front_door import Open, acting, at, run, stored

from mindhold.app.application import App
from mindhold.capture.claude_md import WRITE_DOCUMENTS, WriteDocumentsResult
from mindhold.memories.amend import AMEND
from mindhold.memories.filters import LIST
from mindhold.memories.forget import FORGET, UNFORGET
from mindhold.model.errors import NotFound, ScopeNotFound
from mindhold.model.markers import END, START
from mindhold.projects.projects import CREATE_PROJECT
from mindhold.projects.scope_operations import DELETE_SCOPE

DECISION = "Use pnpm for packages"


@pytest.fixture
async def project(app: App, tmp_path: Path) -> Path:
    """A folder that is known as the project `shop`."""
    folder = tmp_path / "my shop"
    folder.mkdir()
    await run(app, CREATE_PROJECT, name="shop", path=str(folder))
    return folder


def marked(path: Path, before: bytes = b"", after: bytes = b"\n") -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(before + START.encode() + b"\n" + END.encode() + after)
    return path


async def written(app: App, folder: Path, **fields: Any) -> WriteDocumentsResult:
    return await run(app, WRITE_DOCUMENTS, folder=str(folder), **fields)


async def decided(app: App, content: str = DECISION, **fields: Any) -> str:
    return await stored(app, content, **{"kind": "decision", "scope": "shop"} | fields)


async def test_the_block_follows_the_store(app: App, project: Path) -> None:
    path = marked(project / "CLAUDE.md", b"\xef\xbb\xbf# Mine\r\n\xe9t\xe9\r\n", b"\r\nno newline at the end")
    one = await decided(app)
    answer = await written(app, project)
    [told] = answer.documents
    assert (answer.scope, told.path, told.changed, told.problem) == ("shop", str(path), True, "")
    data = path.read_bytes()
    assert data.startswith(b"\xef\xbb\xbf# Mine\r\n\xe9t\xe9\r\n" + START.encode() + b"\n# shop\n")
    assert data.endswith(END.encode() + b"\r\nno newline at the end")
    assert f"- {DECISION} ({app.engine.clock():%Y-%m-%d})\n".encode() in data
    assert told.lines == data.count(b"\n") - 4
    await run(app, FORGET, ids=[one])
    assert DECISION.encode() not in path.read_bytes()
    assert not (await written(app, project)).documents[0].changed


async def test_what_is_forgotten_amended_or_back_is_so_in_the_documents_at_once(
    app: App, project: Path
) -> None:
    path = marked(project / "CLAUDE.md", after=b"\nmine\n")
    one = await decided(app)
    await written(app, project)
    await run(app, FORGET, ids=[one])
    assert DECISION not in path.read_text()
    await run(app, UNFORGET, ids=[one])
    assert DECISION in path.read_text()
    await run(app, AMEND, id=one, content="Use yarn for packages")
    assert ("yarn" in path.read_text(), DECISION in path.read_text()) == (True, False)
    answer = await run(app, FORGET, ids=[one], hard=True)
    assert answer.receipt is not None
    assert (answer.receipt.removed["documents"], answer.receipt.remaining["documents"]) == (1, 0)
    assert answer.receipt.empty
    assert "yarn" not in path.read_text()
    assert path.read_text().endswith(f"{END}\nmine\n")


async def test_a_document_that_keeps_what_was_erased_is_told(app: App, project: Path) -> None:
    path = marked(project / "CLAUDE.md")
    one, other = await decided(app), await decided(app, "Lamps are green")
    await written(app, project)
    broken = path.read_text().replace(END, f"{START}\n{END}")
    path.write_text(broken)
    soft = await run(app, FORGET, ids=[other])
    assert "CLAUDE.md" in soft.note
    answer = await run(app, FORGET, ids=[one], hard=True)
    assert answer.receipt is not None
    assert (answer.receipt.empty, answer.receipt.remaining["documents"]) == (False, 1)
    assert "CLAUDE.md" in answer.note
    assert path.read_text() == broken


async def test_a_deleted_project_leaves_its_documents_too(app: App, project: Path) -> None:
    path = marked(project / "CLAUDE.md")
    await decided(app)
    await written(app, project)
    answer = await run(app, DELETE_SCOPE, name="shop")
    assert answer.receipt is not None
    assert answer.receipt.removed["documents"] == 1
    assert DECISION not in path.read_text()


async def test_documents_show_whose_view_was_written_whoever_forgets(app: App, project: Path) -> None:
    path = marked(project / "CLAUDE.md")
    ada = acting(app, "ada")
    await decided(acting(app, "grace"), "A lamp of her own")
    await decided(ada, "A lamp of the project")
    one = await decided(ada)
    await written(ada, project)
    before = path.read_text()
    await run(acting(app, "system"), FORGET, ids=[one])
    assert "her own" not in before
    assert path.read_text() == re.sub(rf"- {DECISION}[^\n]*\n", "", before)


async def test_an_unchanged_store_writes_nothing(app: App, project: Path) -> None:
    path = marked(project / "CLAUDE.md")
    await decided(app)
    await written(app, project)
    before = path.stat()
    [told] = (await written(app, project)).documents
    after = path.stat()
    assert not told.changed
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
    assert sorted(one.name for one in project.iterdir()) == ["CLAUDE.md"]


async def test_only_files_with_markers_are_touched(app: App, project: Path) -> None:
    await decided(app)
    plain = project / "AGENTS.md"
    plain.write_bytes(b"# Agents\n")
    (project / "README.md").write_text(f"{START}\n{END}\n", encoding="utf-8")
    assert (await written(app, project)).documents == []
    marked(project / "GEMINI.md")
    marked(project / ".claude" / "CLAUDE.md")
    told = (await written(app, project)).documents
    assert [Path(one.path).relative_to(project).as_posix() for one in told] == [
        ".claude/CLAUDE.md",
        "GEMINI.md",
    ]
    assert plain.read_bytes() == b"# Agents\n"
    assert DECISION not in (project / "README.md").read_text(encoding="utf-8")


async def test_wrong_markers_are_told_and_the_others_written(app: App, project: Path) -> None:
    await decided(app)
    broken = project / "CLAUDE.md"
    broken.write_text(f"# Mine\n{START}\n", encoding="utf-8")
    good = marked(project / "AGENTS.md")
    wrong, fine = (await written(app, project)).documents
    assert "line 2" in wrong.problem
    assert str(broken) in wrong.problem
    assert not wrong.changed
    assert fine.changed
    assert broken.read_text(encoding="utf-8") == f"# Mine\n{START}\n"
    assert DECISION in good.read_text(encoding="utf-8")


async def test_a_link_stays_a_link_and_its_file_is_written_once(app: App, project: Path) -> None:
    await decided(app)
    (project / "docs").mkdir()
    real = marked(project / "docs" / "memory.md")
    (project / "CLAUDE.md").symlink_to(real)
    (project / "AGENTS.md").symlink_to(project / "CLAUDE.md")
    [told] = (await written(app, project)).documents
    assert told.changed
    assert (project / "CLAUDE.md").is_symlink()
    assert DECISION in real.read_text(encoding="utf-8")


async def test_modes_stay_and_a_read_only_file_is_told(app: App, project: Path) -> None:
    await decided(app)
    path = marked(project / "CLAUDE.md")
    path.chmod(0o640)
    mode = path.stat().st_mode
    assert (await written(app, project)).documents[0].changed
    assert path.stat().st_mode == mode
    await decided(app, "Use ruff for linting")
    path.chmod(0o444)
    before = path.read_bytes()
    [told] = (await written(app, project)).documents
    assert "read-only" in told.problem
    assert path.read_bytes() == before
    path.chmod(0o600)  # or no system would let the folder go


async def test_what_a_killed_writer_left_goes(app: App, project: Path) -> None:
    await decided(app)
    marked(project / "CLAUDE.md")
    old, others = project / f".CLAUDE.md.{'0' * 16}.partial", project / ".CLAUDE.md.mine.partial"
    for path in (old, others):
        path.write_text("half", encoding="utf-8")
        os.utime(path, (1, 1))
    await written(app, project)
    assert not old.exists()
    assert others.exists()


async def test_any_folder_of_the_project_will_do(app: App, project: Path) -> None:
    await decided(app)
    inner = project / "src" / "deep"
    inner.mkdir(parents=True)
    path = marked(project / "CLAUDE.md")
    beside = marked(inner / "CLAUDE.md")
    [told] = (await written(app, inner)).documents
    assert told.path == str(path)
    assert DECISION not in beside.read_text(encoding="utf-8")


async def test_a_worktree_has_its_own_documents(app: App, tmp_path: Path) -> None:
    main, tree = tmp_path / "main", tmp_path / "tree"
    git = main / ".git" / "worktrees" / "tree"
    git.mkdir(parents=True)
    (git / "commondir").write_text("../..\n", encoding="utf-8")
    (tree / "src").mkdir(parents=True)
    (tree / ".git").write_text(f"gitdir: {git}\n", encoding="utf-8")
    await run(app, CREATE_PROJECT, name="shop", path=str(main))
    await decided(app)
    here, there = marked(tree / "CLAUDE.md"), marked(main / "CLAUDE.md")
    answer = await written(app, tree / "src")
    assert (answer.scope, [one.path for one in answer.documents]) == ("shop", [str(here)])
    assert DECISION not in there.read_text(encoding="utf-8")


async def test_only_what_the_project_holds_is_told(app: App, project: Path) -> None:
    path = marked(project / "CLAUDE.md")
    await stored(app, "Everywhere else we use npm", kind="decision")
    hostile = await run(app, LIST)
    assert hostile.total == 1
    await decided(app)
    await written(app, project)
    text = path.read_text(encoding="utf-8")
    assert DECISION in text
    assert "npm" not in text.replace(DECISION, "")


async def test_a_folder_that_is_no_project_is_told_and_a_scope_may_be_named(app: App, tmp_path: Path) -> None:
    path = marked(tmp_path / "CLAUDE.md")
    with pytest.raises(NotFound):
        await written(app, tmp_path)
    with pytest.raises(ScopeNotFound):
        await written(app, tmp_path, scope="nowhere")
    await stored(app, DECISION, kind="decision")
    assert (await written(app, tmp_path, scope="Global")).documents[0].changed
    assert DECISION in path.read_text(encoding="utf-8")


async def test_confidence_fades_where_it_is_shown_and_the_memory_is_still_found(
    app: App, project: Path
) -> None:
    path = marked(project / "CLAUDE.md")
    await decided(app, "The importer is half done", kind="progress")
    later = at(app, app.engine.clock() + timedelta(days=5.25))
    [seen] = (await run(later, LIST, scope="shop")).memories
    assert seen.confidence == pytest.approx(0.25, abs=0.01)
    await written(app, project)
    assert "half done" in path.read_text(encoding="utf-8")
    assert (await written(later, project)).documents[0].changed
    assert "half done" not in path.read_text(encoding="utf-8")


async def test_as_many_lines_as_the_settings_say(opened: Open, tmp_path: Path) -> None:
    path = marked(tmp_path / "CLAUDE.md")
    async with opened(**{"capture.document_lines": 20}) as app:
        for number in range(30):
            await stored(app, f"Crate number {number} stands at gate {number * 7}", kind="architecture")
        [told] = (await written(app, tmp_path, scope="Global")).documents
    assert told.lines == 20
    assert "...and 16 more (use memory_search to find them)" in path.read_text(encoding="utf-8")
