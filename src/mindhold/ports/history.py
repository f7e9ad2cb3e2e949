"""The index of past conversations and the archive of their transcripts. Both are on this machine, whatever the store is."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import NamedTuple, Protocol

from mindhold.model.query import Vector
from mindhold.ports.transcripts import Role, TranscriptCursor


class IndexedStep(NamedTuple):
    """A step of a conversation as the index stores it: without secrets, and with a short digest of a tool's output."""

    role: Role
    line: int
    text: str
    timestamp: datetime | None = None
    tool: str = ""
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Passage:
    """A stretch of a conversation, the unit of search. `lexemes` are the words of its text, separated by spaces.

    The passage with `head` describes the whole conversation: its title, its summary, the notes next to it.
    """

    utterances: tuple[IndexedStep, ...]
    lexemes: str
    head: bool = False


@dataclass(frozen=True, slots=True)
class ConversationLabel:
    """A title or summary of a conversation, and its origin: custom, ai, summary, note, made, model or rlm."""

    text: str = ""
    by: str = ""


@dataclass(frozen=True, slots=True)
class IndexedConversation:
    """The conversation of one file. `part_of` is set for a sub-agent's conversation: the session that it worked for."""

    session_id: str
    source: str  # claude, codex, gemini, cursor
    file: Path  # the path where it was last seen
    size: int = 0  # size of the file when it was last read
    modified: int = 0  # modification time in nanoseconds when it was last read
    note_modified: int = 0  # modification time of the notes next to it; 0: no notes
    cursor: TranscriptCursor = field(default_factory=TranscriptCursor)
    row: int = 0  # the row number in the index
    folder: str = ""  # the program's name for the project
    project: str = ""  # the working folder
    part_of: str = ""
    title: ConversationLabel = ConversationLabel()
    summary: ConversationLabel = ConversationLabel()
    model: str = ""
    started: datetime | None = None
    ended: datetime | None = None
    prompts: int = 0  # number of user prompts
    bad_lines: tuple[int, ...] = ()  # the first unreadable lines
    skipping: bool = False  # the last turn is marked as excluded, and so are further steps of that turn
    silent: bool = False  # excluded as a whole (by a rule, or made by our own calls); recorded so that it isn't read again
    gone: bool = False  # the file was deleted; the archive has a copy
    # Bytes that the archive last had of it; negative: size of the file when there was no room for it.
    archived: int = 0
    rules: str = ""  # version of the rules it was read by; a conversation read by other rules is read again

    @property
    def belongs_to(self) -> str:
        """The session that a user would name."""
        return self.part_of or self.session_id


class PassageMatch(NamedTuple):
    """A passage that matches a search: its row, its conversation's row, and the score."""

    passage: int
    conversation: int
    score: float


@dataclass(frozen=True, slots=True)
class HistoryTotals:
    """Counts of what is indexed."""

    conversations: int = 0
    passages: int = 0
    embedded: int = 0
    bytes_indexed: int = 0  # bytes of transcripts
    bytes_on_disk: int = 0


class HistoryIndex(Protocol):
    """The index of past conversations.

    All methods block: call them from threads, any number at once. Several processes may have the index open, but only one
    should write at a time, which `mindhold.history.index_guard` ensures. A damaged file is replaced by an empty one.

    Methods raise StoreError and its subclasses.
    """

    withheld: bool  # true if the caller isn't allowed to see whether there is an index

    def conversations(self) -> list[IndexedConversation]:
        """All conversations, also excluded and deleted ones, most recently ended first. Cheap: a thousand take a few milliseconds."""

    def conversation(self, row: int) -> IndexedConversation | None: ...

    def put(
        self,
        conversation: IndexedConversation,
        passages: Sequence[Passage],
        *,
        anew: bool = False,
        uuids: bytes = b"",
        leaves: Iterable[tuple[str, str]] = (),
    ) -> IndexedConversation:
        """Insert or update a conversation and add its passages, in one transaction. Returns it with its row.

        The file identifies the conversation. `anew` first removes what the index has of it. A head passage replaces the earlier
        head, and a passage that begins where the last one began replaces that one, because the conversation went on. `uuids`
        has eight bytes for each entry; `leaves` are summaries, each with the uuid of the entry that it is about.
        """

    def put_many(
        self,
        found: Sequence[
            tuple[IndexedConversation, Sequence[Passage], bytes, Sequence[tuple[str, str]], bool]
        ],
    ) -> list[IndexedConversation]:
        """put() for several conversations at once: conversation, passages, uuids, leaves, anew."""

    def remove(self, rows: Collection[int], *, at_once: bool = True) -> int:
        """Remove conversations and everything that belongs to them. Returns the number of removed passages.

        With `at_once` the file is rewritten, so that no trace stays in it. Otherwise they are only hidden from search, and
        tidy() rewrites the file later.
        """

    def tidy(self) -> None:
        """Rewrite the file if it may still contain removed text."""

    def sharing(self, rows: Collection[int]) -> dict[int, int]:
        """For each other conversation (by row), the number of entries that it shares with these: one was resumed or forked
        from the other. Conversations that share none are absent.
        """

    def leaf_summaries(self) -> dict[int, str]:
        """The latest summary of each conversation (by row) that contains the entry which the summary is about."""

    def search(
        self, lexemes: Sequence[str], *, among: Collection[int] | None = None, limit: int = 200
    ) -> list[PassageMatch]:
        """Passages that contain some of the lexemes, by BM25, best first; `among` limits it to these conversations (rows)."""

    def frequencies(self, lexemes: Sequence[str]) -> dict[str, int]:
        """The number of passages that contain each lexeme."""

    def nearest(
        self, vector: Vector, *, model: str, among: Collection[int] | None = None, limit: int = 100
    ) -> list[PassageMatch]:
        """Passages by cosine similarity, best first, among those that have a vector of the model."""

    def passages(self, rows: Collection[int]) -> dict[int, Passage]:
        """Passages by row. Missing ones are absent."""

    def passages_of(self, conversation: int) -> list[tuple[int, Passage]]:
        """All passages of a conversation in order, with their rows."""

    def passages_from(self, passage: int, *, most: int) -> list[Passage]:
        """That passage and the following ones of its conversation, in order, at most `most`, without heads."""

    def last_passage(self, conversation: int) -> Passage | None:
        """The last passage of a conversation, without heads."""

    def unembedded(self, model: str, *, limit: int) -> dict[int, Passage]:
        """Passages without a vector of the model, those of the latest conversations first."""

    def put_vectors(self, vectors: Mapping[int, Vector], *, model: str) -> None:
        """Store vectors by passage row. Rows that no longer exist are skipped."""

    def stock(self) -> HistoryTotals: ...

    def close(self) -> None:
        """Close the index. Idempotent."""


class NoHistory:
    """The index for callers who may not see this machine's conversations, or where none are indexed."""

    def __init__(self, *, withheld: bool = True) -> None:
        self.withheld = withheld

    def conversations(self) -> list[IndexedConversation]:
        return []

    def conversation(self, row: int) -> IndexedConversation | None:
        return None

    def put(
        self,
        conversation: IndexedConversation,
        passages: Sequence[Passage],
        *,
        anew: bool = False,
        uuids: bytes = b"",
        leaves: Iterable[tuple[str, str]] = (),
    ) -> IndexedConversation:
        return conversation

    def put_many(
        self,
        found: Sequence[
            tuple[IndexedConversation, Sequence[Passage], bytes, Sequence[tuple[str, str]], bool]
        ],
    ) -> list[IndexedConversation]:
        return [item[0] for item in found]

    def remove(self, rows: Collection[int], *, at_once: bool = True) -> int:
        return 0

    def tidy(self) -> None:
        pass

    def sharing(self, rows: Collection[int]) -> dict[int, int]:
        return {}

    def leaf_summaries(self) -> dict[int, str]:
        return {}

    def search(
        self, lexemes: Sequence[str], *, among: Collection[int] | None = None, limit: int = 200
    ) -> list[PassageMatch]:
        return []

    def frequencies(self, lexemes: Sequence[str]) -> dict[str, int]:
        return {}

    def nearest(
        self, vector: Vector, *, model: str, among: Collection[int] | None = None, limit: int = 100
    ) -> list[PassageMatch]:
        return []

    def passages(self, rows: Collection[int]) -> dict[int, Passage]:
        return {}

    def passages_of(self, conversation: int) -> list[tuple[int, Passage]]:
        return []

    def passages_from(self, passage: int, *, most: int) -> list[Passage]:
        return []

    def last_passage(self, conversation: int) -> Passage | None:
        return None

    def unembedded(self, model: str, *, limit: int) -> dict[int, Passage]:
        return {}

    def put_vectors(self, vectors: Mapping[int, Vector], *, model: str) -> None:
        pass

    def stock(self) -> HistoryTotals:
        return HistoryTotals()

    def close(self) -> None:
        pass


@dataclass(frozen=True, slots=True)
class ArchiveSource:
    """Where an archived copy comes from, as stored in the copy: its session and the path of its file."""

    file: Path
    source: str
    session_id: str
    part_of: str = ""
    folder: str = ""
    project: str = ""

    @property
    def belongs_to(self) -> str:
        """The session that a user would name."""
        return self.part_of or self.session_id


@dataclass(frozen=True, slots=True)
class ArchivedTranscript:
    """An archived copy: its name, its original and compressed sizes, and its origin."""

    name: str
    size: int
    on_disk: int
    modified: int  # modification time of the transcript when it was copied, in nanoseconds
    about: ArchiveSource | None = None


# Whether there is room for that many more bytes; a copy under way may exceed it slightly.
Fits = Callable[[int], bool]


class Archive(Protocol):
    """Compressed byte-exact copies of transcripts, readable by their owner only. Methods block and raise StoreError and its subclasses."""

    def all(self) -> list[ArchivedTranscript]:
        """All copies, in no order. The copy of a file that was replaced by another keeps its name with `~` and a number."""

    def sizes(self) -> dict[str, int]:
        """The bytes that each copy takes, by name. Cheaper than all()."""

    def add(
        self, name: str, file: Path, *, about: ArchiveSource | None = None, fits: Fits | None = None
    ) -> ArchivedTranscript:
        """Bring the copy up to date with the file: append if the file only grew, copy it again if it was rewritten.

        A killed writer leaves no half-written copy. Stops where `fits` says there is no more room. Raises OSError for a missing file.
        """

    def unpack(self, name: str, target: Path) -> None:
        """Write the whole conversation to a file. Raises NotFound."""

    def remove(self, name: str) -> bool:
        """Delete a copy. Returns whether there was one."""


class NoArchive:
    """The archive of an installation that keeps none."""

    def all(self) -> list[ArchivedTranscript]:
        return []

    def sizes(self) -> dict[str, int]:
        return {}

    def add(
        self, name: str, file: Path, *, about: ArchiveSource | None = None, fits: Fits | None = None
    ) -> ArchivedTranscript:
        return ArchivedTranscript(name, 0, 0, 0, about)

    def unpack(self, name: str, target: Path) -> None:
        raise FileNotFoundError(name)

    def remove(self, name: str) -> bool:
        return False
