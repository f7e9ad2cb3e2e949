"""Indexing that is killed at any moment goes on where it was: nothing is lost, nothing is there twice."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from front_door import Open
from shelved_talks import Shelf, head, index, known, passages
from talks import claude, user

CHILD = """
import asyncio, os, sys
import mindhold.history.index_pass as index_pass
from mindhold.app.application import open_app
from mindhold.history.index import INDEX_HISTORY
from mindhold.settings.loader import load_settings
from mindhold.stores.history.index import SqliteHistory

class Mortal(SqliteHistory):
    left = int(sys.argv[3])

    def put_many(self, found):
        when, Mortal.left = Mortal.left, Mortal.left - 1
        if when == 0 and sys.argv[4] == "before":
            self.die()
        written = super().put_many(found)
        if when == 0:
            self.die()
        return written

    def die(self):
        import psutil
        print(*(child.pid for child in psutil.Process().children(recursive=True)), flush=True)
        os._exit(9)

async def main():
    index_pass.PASSAGES_AT_ONCE = 3  # small transactions: more moments to die at
    index_pass.MUCH = -1
    index_pass.PIECE = 2_000
    given = {"home": sys.argv[1], "time_zone": "UTC", "embedding.provider": "hashing", "history.claude_dir": sys.argv[2]}
    import mindhold.app.application
    mindhold.app.application.SqliteHistory = Mortal
    async with open_app(load_settings(given, environ={})) as app:
        await app.run(INDEX_HISTORY, INDEX_HISTORY.takes(workers=int(sys.argv[5])))

if __name__ == "__main__":
    asyncio.run(main())
"""


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    shelf = Shelf(tmp_path / "claude")
    for number in range(6):
        lines = [
            line
            for part in range(30)
            for line in (user(f"Where does crate {number} go, {part}?"), claude(f"To harbour {part}. " * 8))
        ]
        shelf.talk(f"s{number}", *lines)
    return shelf


def killed(tmp_path: Path, home: Path, *, at: int, when: str, workers: int = 0) -> list[int]:
    """As it wrote for the nth time, before or after; the ids of the processes that it had begun."""
    script = tmp_path / "child.py"
    script.write_text(CHILD, encoding="utf-8")
    arguments = [str(home), str(tmp_path / "claude"), str(at), when, str(workers)]
    ended = subprocess.run(
        [sys.executable, str(script), *arguments], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 9, ended.stderr
    return [int(one) for one in ended.stdout.split()]


@pytest.mark.local_file
async def test_a_pass_that_was_killed_goes_on(opened: Open, shelf: Shelf, tmp_path: Path, home: Path) -> None:
    for at, when in ((0, "before"), (0, "after"), (3, "after"), (5, "before"), (2, "after")):
        killed(tmp_path, home, at=at, when=when)
    async with opened() as app:
        answer = await index(app)
        assert (answer.left, answer.warnings) == (0, [])
        assert known(app).keys() == {f"s{number}" for number in range(6)}
        for session in known(app):
            said = [one for passage in passages(app, session) for one in passage.utterances]
            lines = [one.line for one in said]
            assert lines == sorted(set(lines))
            assert len(lines) == 60
            assert len(passages(app, session)) == 30  # as if it had been read at once
            assert head(app, session).utterances[0].text.startswith("Where does crate")
            assert said[-1].text.count("To harbour 29.") == 8


@pytest.mark.local_file
async def test_processes_beside_end_with_the_one_that_began_them(
    opened: Open, shelf: Shelf, tmp_path: Path, home: Path
) -> None:
    for child in killed(tmp_path, home, at=1, when="after", workers=2):
        try:
            psutil.Process(child).wait(timeout=30)
        except psutil.NoSuchProcess:
            continue
    async with opened() as app:
        await index(app)
        assert all(len(passages(app, session)) > 0 for session in known(app))
        assert len(known(app)) == 6
