"""From a piece of a conversation's file to what the index keeps of it. Work of one process: nothing is written here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import NamedTuple

from recollect.engine.capture.bounds import is_excluded, is_own_call, unskipped
from recollect.engine.history.heads import made_head
from recollect.engine.history.passages import passages_of, without_secrets
from recollect.model.words import Words
from recollect.ports.history import Conversation, Passage, Told
from recollect.ports.transcripts import About, ConversationFile, Followed, Role, Step, Transcripts

PIECE = 4 << 20  # bytes that are read at once
LONGEST_TOLD = 500  # characters of a title or a summary that a transcript has itself
MOST_BAD = 20  # lines of a file that are kept in mind
ALWAYS_SUMMED_UP = 4 << 20  # bytes: a longer conversation is summed up anew when it has grown by a tenth
_TITLES = ("custom", "ai")  # those that a transcript has itself, the best first


@dataclass(frozen=True, slots=True)
class Rules:
    """What is left out, and how the rest is kept."""

    exclude: tuple[str, ...] = ()
    subagents: bool = True
    redacting: bool = True


class Task(NamedTuple):
    """A file to be read from where `begun` ends; `anew`: the index has something of it that must go."""

    file: ConversationFile
    begun: Conversation
    anew: bool = False


class Prepared(NamedTuple):
    """What a piece of a file gives; without a conversation the file can't be read."""

    file: ConversationFile
    conversation: Conversation | None
    passages: Sequence[Passage] = ()
    uuids: bytes = b""
    leaves: Sequence[tuple[str, str]] = ()
    anew: bool = False
    read: int = 0  # bytes
    more: bool = False  # the file goes on
    bad: Sequence[int] = ()  # lines of the piece that can't be read


def begun(file: ConversationFile, known: Conversation | None = None) -> Conversation:
    """The conversation of a file that nothing was read of yet; `known` is what the index has of it so far."""
    row, archived = (known.row, known.archived) if known else (0, 0)
    return Conversation(
        session_id="",
        source=file.source,
        file=file.path,
        row=row,
        folder=file.folder,
        part_of=file.part_of,
        archived=min(archived, 0),  # below 0: it made room once
    )


def is_left_out(conversation: Conversation, rules: Rules) -> bool:
    """Whether somebody doesn't want it indexed: for its folder, one above that, or what the program calls the project."""
    return bool(rules.exclude) and _left_out(conversation.project, conversation.folder, rules.exclude)


def was_excluded(conversation: Conversation) -> bool:
    """Whether nothing was read of it for that reason; of our own calls the beginning was."""
    return conversation.silent and conversation.cursor.offset == 0


class Preparer:
    """Reads files by the rules."""

    def __init__(self, transcripts: Transcripts, rules: Rules) -> None:
        self._transcripts = transcripts
        self._rules = rules
        self._words = Words()

    def pieces(self, task: Task, *, most: int) -> Iterator[Prepared]:
        """One after the other, until the file ends or about so many bytes were read."""
        read = 0
        while True:
            prepared = self.piece(task)
            yield prepared
            read += prepared.read
            if not prepared.more or prepared.conversation is None or read >= most:
                return
            task = Task(task.file, prepared.conversation)

    def piece(self, task: Task) -> Prepared:
        """The next one."""
        file, known, anew = task
        followed = self._transcripts.follow(file.path, known.cursor, most_bytes=PIECE)
        if followed is None:
            return Prepared(file, None)
        if followed.restarted and known.cursor.offset:
            known, anew = begun(file, known), True
        conversation = _placed(known, file, followed)
        read = max(0, followed.cursor.offset - known.cursor.offset)
        if is_left_out(conversation, self._rules):
            return Prepared(file, only_its_name(conversation), anew=anew, read=read)
        if known.prompts == 0 and is_own_call(followed.steps):
            silent = replace(only_its_name(conversation), cursor=followed.cursor)
            return Prepared(file, silent, anew=anew, read=read)
        more = followed.more and read > 0
        if not more:
            conversation = replace(conversation, size=file.size, modified=file.modified)
        prepared = self._prepared(file, conversation, known, followed)
        if known.cursor.offset == 0 and not more and not file.note_modified:
            prepared = self._headed(prepared)
        return prepared._replace(anew=anew, read=read, more=more)

    def _headed(self, prepared: Prepared) -> Prepared:
        """With its title and its summary already: all of it is at hand."""
        if prepared.conversation is None or not prepared.passages:
            return prepared
        conversation, head = made_head(prepared.conversation, prepared.passages, self._words)
        return prepared._replace(conversation=conversation, passages=[*prepared.passages, head])

    def _prepared(
        self, file: ConversationFile, conversation: Conversation, known: Conversation, followed: Followed
    ) -> Prepared:
        subagents = bool(conversation.part_of)
        steps, skipping = unskipped(followed.steps, skipping=known.skipping, subagent=subagents)
        if not self._rules.subagents:
            steps = [step for step in steps if not step.aside]
        passages = passages_of(steps, words=self._words, redacting=self._rules.redacting)
        about = followed.about
        conversation = replace(
            conversation,
            title=self._title(known.title, about),
            prompts=known.prompts + _prompts(steps, subagents=subagents),
            skipping=skipping,
        )
        if passages and _must_be_summed_up(conversation, known):
            conversation = replace(conversation, summary=replace(conversation.summary, by=""))
        leaves = [(leaf, told) for leaf, text in about.summaries if (told := self._told(text))]
        return Prepared(file, conversation, passages, about.uuids, leaves, bad=about.bad_lines)

    def _title(self, known: Told, about: About) -> Told:
        """What the transcript says itself; what a person called it stays."""
        text = self._told(about.title)
        if not text or about.title_by not in _TITLES:
            return known
        if known.by == "custom" and about.title_by != "custom":
            return known
        return Told(text, about.title_by)

    def _told(self, text: str) -> str:
        """On one line, without secrets, and only then cut."""
        plain = " ".join(text[: 4 * LONGEST_TOLD].split())
        return without_secrets(plain, redacting=self._rules.redacting)[:LONGEST_TOLD].strip()


def _placed(known: Conversation, file: ConversationFile, followed: Followed) -> Conversation:
    """With what the piece says of where and when it was held. As long as the file goes on, it counts as unread."""
    about = followed.about
    started, ended = _times(followed)
    return replace(
        known,
        file=file.path,
        folder=file.folder or known.folder,
        part_of=file.part_of or known.part_of,
        session_id=known.session_id or about.session_id or file.path.stem,
        project=known.project or about.cwd or followed.cwd,
        model=about.model or known.model,
        started=_first(known.started, started),
        ended=_last(known.ended, ended),
        bad_lines=(*known.bad_lines, *about.bad_lines)[:MOST_BAD],
        cursor=followed.cursor,
        size=followed.cursor.offset,
        modified=0,
        gone=False,
    )


def only_its_name(conversation: Conversation) -> Conversation:
    """Which file it is, and nothing of what was said, so that it isn't read again."""
    return Conversation(
        session_id=conversation.session_id,
        source=conversation.source,
        file=conversation.file,
        row=conversation.row,
        folder=conversation.folder,
        project=conversation.project,
        part_of=conversation.part_of,
        size=conversation.size,
        modified=conversation.modified,
        silent=True,
    )


def _must_be_summed_up(conversation: Conversation, known: Conversation) -> bool:
    if conversation.summary.by not in ("", "made"):
        return False  # by its own notes, or because a person asked for it
    before, now = known.cursor.offset, conversation.cursor.offset
    return now < ALWAYS_SUMMED_UP or not conversation.summary.by or now > 1.1 * before


def _prompts(steps: Iterable[Step], *, subagents: bool) -> int:
    return sum(step.role is Role.USER and (subagents or not step.aside) for step in steps)


def _times(followed: Followed) -> tuple[datetime | None, datetime | None]:
    moments = [step.timestamp for step in followed.steps if step.timestamp is not None]
    return min(moments, default=None), _last(followed.about.ended, max(moments, default=None))


def _first(one: datetime | None, other: datetime | None) -> datetime | None:
    return min(one, other) if one and other else one or other


def _last(one: datetime | None, other: datetime | None) -> datetime | None:
    return max(one, other) if one and other else one or other


@lru_cache(4096)
def _left_out(project: str, folder: str, patterns: tuple[str, ...]) -> bool:
    named = any(fnmatchcase(folder.casefold(), pattern.strip().casefold()) for pattern in patterns if folder)
    return named or (bool(project) and is_excluded(project, patterns))
