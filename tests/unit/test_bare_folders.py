"""Which project a folder belongs to, as git has it, without asking git."""

from __future__ import annotations

from pathlib import Path

import pytest

from mindhold.hooks.project_identity import identity_key, project_identity
from mindhold.model.errors import NotFound
from mindhold.projects.placement import identity_of


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = (tmp_path / "a repository").resolve()
    (root / ".git" / "worktrees" / "second").mkdir(parents=True)
    (root / "deep" / "below").mkdir(parents=True)
    return root


def worktree(repository: Path, folder: Path) -> Path:
    folder.mkdir(parents=True)
    own = repository / ".git" / "worktrees" / "second"
    (folder / ".git").write_text(f"gitdir: {own}\n", encoding="utf-8")
    (own / "commondir").write_text("../..\n", encoding="utf-8")
    return folder


def test_all_folders_of_a_repository_are_one_project(repository: Path) -> None:
    assert project_identity(str(repository)) == str(repository / ".git")
    assert project_identity(str(repository / "deep" / "below")) == str(repository / ".git")
    assert identity_of(str(repository / "deep")) == str(repository / ".git")


def test_worktrees_share_it_wherever_they_are(repository: Path, tmp_path: Path) -> None:
    beside = worktree(repository, tmp_path / "elsewhere" / "second")
    assert project_identity(str(beside)) == str(repository / ".git")
    (beside / "src").mkdir()
    assert project_identity(str(beside / "src")) == project_identity(str(repository))
    inside = repository / ".worktrees" / "3"
    inside.mkdir(parents=True)
    (inside / ".git").write_text("gitdir: ../../.git/worktrees/second", encoding="utf-8")
    assert project_identity(str(inside)) == str(repository / ".git")


def test_a_submodule_is_its_own(repository: Path) -> None:
    own = repository / ".git" / "modules" / "lib"
    own.mkdir(parents=True)
    (repository / "lib").mkdir()
    (repository / "lib" / ".git").write_text("gitdir: ../.git/modules/lib\n", encoding="utf-8")
    assert project_identity(str(repository / "lib")) == str(own)


def test_without_git_it_is_the_real_path(tmp_path: Path) -> None:
    real = tmp_path.resolve() / "plain"
    real.mkdir()
    (tmp_path / "link").symlink_to(real)
    assert project_identity(str(real)) == str(real)
    assert project_identity(str(tmp_path / "link")) == str(real)
    assert project_identity(str(real / "not" / "there")) == str(real / "not" / "there")
    with pytest.raises(NotFound):
        identity_of(str(real / "not"))


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"nonsense", b"gitdir:"])
def test_a_git_file_that_says_nothing_is_passed_over(content: bytes, repository: Path) -> None:
    (repository / "deep" / ".git").write_bytes(content)
    assert project_identity(str(repository / "deep")) == str(repository / ".git")


def test_keys_are_names_of_files() -> None:
    keys = {identity_key(name) for name in ("/a", "/b", "/a/" + "long" * 500, "C:\\x", "/\ud800", "")}
    assert len(keys) == 6
    assert all(len(one) == 24 and one.isalnum() for one in keys)
