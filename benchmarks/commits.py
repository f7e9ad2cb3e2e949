"""Commits and the conversations that made them: questions whose right answer is known, taken from what really happened.

A conversation that ran `git commit` is the answer to that commit's first line. In a clone whose branch `entire/checkpoints/v1` has
conversations, a commit also names its own by the trailer `Entire-Checkpoint`. What a commit was called is then taken out of every
copy that is indexed: the answer must be found by what was said and done.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mindhold.model.lexemes import query_lexemes
from mindhold.ports.transcripts import shortened

FEWEST_WORDS = 3  # of a first line that tells something
MOST_ANSWERS = 3  # conversations that one commit is of; of more it is nobody's
SHORTEST_TAKEN_OUT = 16  # characters: shorter lines stand everywhere by chance
LONGEST_TEXT = 20_000  # characters
BRANCH = "entire/checkpoints/v1"
_DOCUMENT = re.compile(r"<<-?\s*['\"]?(\w+)['\"]?\n(.*?)\n\s*\1\b", re.DOTALL)
_MESSAGE = re.compile(r"-\w*m\s+(?:\"((?:[^\"\\]|\\.)*)\"|'([^']*)')", re.DOTALL)
_COMMIT = "git commit"


@dataclass(frozen=True, slots=True)
class Talk:
    """A conversation's file, by its session's id."""

    session_id: str
    content: bytes


def talks_in(folder: Path) -> dict[str, Talk]:
    """Of each session the longest file."""
    return _longest(file.read_bytes() for file in sorted(folder.rglob("*.jsonl")))


def checkpoints(repository: Path) -> tuple[dict[str, Talk], dict[str, set[str]]]:
    """The conversations of a clone, and for each commit's first line those that it names."""
    names = _git(repository, "ls-tree", "-r", "--name-only", BRANCH).decode().splitlines()
    paths = [name for name in names if name.endswith("/full.jsonl")]
    made: dict[str, set[str]] = defaultdict(set)
    found: list[bytes] = []
    for path, content in _contents(repository, paths):
        if session := session_of(content):
            found.append(content)
            made["".join(path.split("/")[:2])].add(session)
    trailer = "%(trailers:key=Entire-Checkpoint,valueonly,separator=%x2C)"
    asked: dict[str, set[str]] = defaultdict(set)
    for line in _git(repository, "log", "--all", f"--format=%s%x09{trailer}").decode().splitlines():
        subject, _, ids = line.rpartition("\t")
        for checkpoint in filter(None, ids.split(",")):
            asked[subject] |= made.get(checkpoint.strip(), set())
    return _longest(found), asked


def committed(talks: Mapping[str, Talk]) -> dict[str, set[str]]:
    """First lines of the commits that were made in them, with the sessions that made them."""
    asked: dict[str, set[str]] = defaultdict(set)
    for talk in talks.values():
        for line in talk.content.splitlines():
            if b"git commit" in line:
                for command in _commands(_read(line)):
                    if subject := subject_of(command):
                        asked[subject].add(talk.session_id)
    return asked


def prompted(talks: Mapping[str, Talk]) -> dict[str, set[str]]:
    """What a person asked for last in each of them, but for what it began with: by its first line."""
    asked: dict[str, set[str]] = defaultdict(set)
    for talk in talks.values():
        prompts = [said for line in talk.content.splitlines() if (said := _prompt(_read(line)))]
        telling = [one for one in prompts[1:] if len(one) >= SHORTEST_TAKEN_OUT]
        if telling:
            asked[telling[-1]].add(talk.session_id)
    return asked


def _prompt(entry: dict[str, Any] | None) -> str:
    """The first line of what a person typed."""
    if entry is None or entry.get("type") != "user" or entry.get("isMeta") or entry.get("isCompactSummary"):
        return ""
    message = entry.get("message")
    said = message.get("content") if isinstance(message, dict) else None
    first = said.strip().partition("\n")[0].strip() if isinstance(said, str) else ""
    return "" if first.startswith(("<", "[", "Caveat:", "This session is being continued")) else first


def questions(asked: Mapping[str, set[str]], talks: Mapping[str, Talk]) -> dict[str, frozenset[str]]:
    """Those that can be answered."""
    told = {subject: frozenset(sessions & talks.keys()) for subject, sessions in asked.items()}
    return {
        subject: sessions
        for subject, sessions in sorted(told.items())
        if 0 < len(sessions) <= MOST_ANSWERS and len(query_lexemes(subject)) >= FEWEST_WORDS
    }


def blanked(talk: Talk, subjects: Sequence[str]) -> Iterator[bytes]:
    """The lines of its file without the commands that commit, without what the commits were called, and without the middle of
    what is long, which is never indexed."""
    named = sorted((one for one in subjects if len(one) >= SHORTEST_TAKEN_OUT), key=len, reverse=True)
    for line in talk.content.splitlines(keepends=True):
        entry = _read(line)
        if entry is not None:
            yield json.dumps(_without(entry, named)).encode() + b"\n"
        else:
            yield line


def subject_of(command: str) -> str:
    """The first line of a commit's message, as it stands in a command."""
    if _COMMIT not in command:
        return ""
    if found := _DOCUMENT.search(command):
        message = found[2]
    elif found := _MESSAGE.search(command):
        message = found[1] or found[2] or ""
    else:
        return ""
    first = message.strip().partition("\n")[0].strip()
    return "" if first.startswith("$(") else first


def session_of(content: bytes) -> str:
    """Empty for what is no conversation of Claude Code's."""
    for line in content.splitlines()[:200]:
        entry = _read(line)
        if entry and entry.get("type") in ("user", "assistant") and isinstance(entry.get("sessionId"), str):
            return str(entry["sessionId"])
    return ""


def _longest(contents: Iterator[bytes] | Sequence[bytes]) -> dict[str, Talk]:
    talks: dict[str, Talk] = {}
    for content in contents:
        session = session_of(content)
        if session and len(content) > len(talks[session].content if session in talks else b""):
            talks[session] = Talk(session, content)
    return talks


def _commands(entry: dict[str, Any] | None) -> Iterator[str]:
    message = (entry or {}).get("message")
    content = message.get("content") if isinstance(message, dict) else None
    for block in content if isinstance(content, list) else ():
        given = block.get("input") if isinstance(block, dict) else None
        if isinstance(given, dict) and isinstance(given.get("command"), str):
            yield given["command"]


def _without(value: Any, named: Sequence[str]) -> Any:
    if isinstance(value, str):
        if len(value) < SHORTEST_TAKEN_OUT:
            return value
        text = shortened(value, LONGEST_TEXT)
        for subject in named:
            if subject in text:
                text = text.replace(subject, " ")
        return text
    if isinstance(value, list):
        return [_without(one, named) for one in value]
    if isinstance(value, dict):
        return {
            key: "true" if key == "command" and _COMMIT in str(one) else _without(one, named)
            for key, one in value.items()
        }
    return value


def _read(line: bytes) -> dict[str, Any] | None:
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    return entry if isinstance(entry, dict) else None


def _git(repository: Path, *arguments: str) -> bytes:
    return subprocess.run(["git", "-C", str(repository), *arguments], check=True, capture_output=True).stdout


def _contents(repository: Path, paths: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """What a clone lacks is passed over."""
    asking = subprocess.Popen(
        ["git", "-C", str(repository), "cat-file", "--batch"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with asking as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for path in paths:
            process.stdin.write(f"{BRANCH}:{path}\n".encode())
            process.stdin.flush()
            head = process.stdout.readline().split()
            if head[-1] != b"missing":
                content = process.stdout.read(int(head[2]))
                process.stdout.read(1)
                yield path, content
        process.stdin.close()
