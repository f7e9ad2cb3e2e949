"""The index of past conversations and the archive of their transcripts, on this machine whatever the store is."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import NamedTuple, Protocol

from mindhold.model.query import Vector
from mindhold.ports.transcripts import Role, TranscriptCursor


class IndexedStep(NamedTuple):
    """A step of a conversation as it is kept: without secrets, and of a tool's output only a short digest."""

    role: Role
    line: int
    text: str
    timestamp: datetime | None = None
    tool: str = ""
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Passage:
    """A stretch of a conversation that is found as one, in order. `lexemes` are those of its text, by spaces.

    The one whose `head` is true tells of the whole: its title, its summary, the notes beside it.
    """

    utterances: tuple[IndexedStep, ...]
    lexemes: str
    head: bool = False


@dataclass(frozen=True, slots=True)
class ConversationLabel:
    """What a conversation is called or summed up as, and by whom: custom, ai, summary, note, made, model, rlm."""

    text: str = ""
    by: str = ""


@dataclass(frozen=True, slots=True)
class IndexedConversation:
    """One file's conversation, as the index knows it. A sub-agent's is `part_of` the session that it worked for."""

    session_id: str
    source: str  # claude, codex, gemini, cursor
    file: Path  # where it lay when it was last seen
    size: int = 0  # of the file, when it was last read
    modified: int = 0  # in nanoseconds, as the disk said then
    note_modified: int = 0  # of the notes beside it; 0: none
    cursor: TranscriptCursor = field(default_factory=TranscriptCursor)
    row: int = 0  # the index's own number
    folder: str = ""  # what the program calls the project
    project: str = ""  # the folder that was worked in
    part_of: str = ""
    title: ConversationLabel = ConversationLabel()
    summary: ConversationLabel = ConversationLabel()
    model: str = ""
    started: datetime | None = None
    ended: datetime | None = None
    prompts: int = 0  # how often somebody asked for something
    bad_lines: tuple[int, ...] = ()  # the first ones that can't be read
    skipping: bool = False  # the last turn is marked to be left out, and what follows it belongs to it
    silent: bool = (
        False  # left out as a whole: excluded, or our own calls; kept in mind so that it isn't read again
    )
    gone: bool = False  # the file isn't there any more; the archive has it
    archived: int = (
        0  # bytes of it that the archive had last; below 0: the file's, when there was no room for it
    )
    rules: str = ""  # by which ones it was read: what was said by others is read anew

    @property
    def belongs_to(self) -> str:
        """The session that a person would name."""
        return self.part_of or self.session_id


class PassageMatch(NamedTuple):
    """A passage that answers: its row, its conversation's, and how well."""

    passage: int
    conversation: int
    score: float


@dataclass(frozen=True, slots=True)
class HistoryTotals:
    """How much there is."""

    conversations: int = 0
    passages: int = 0
    embedded: int = 0
    bytes_indexed: int = 0  # of transcripts
    bytes_on_disk: int = 0


class HistoryIndex(Protocol):
    """All methods block: call them from a thread, from as many as you like. Several processes may have it open; one at a
    time should write, which `mindhold.history.index_guard` sees to. A damaged file is made anew, empty.

    Raises StoreError and its kind.
    """

    withheld: bool  # there may be one, and the caller isn't shown it

    def conversations(self) -> list[IndexedConversation]:
        """All of them, silent and gone ones too, those ended last first. Cheap: a thousand in a few milliseconds."""

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
        """Note the conversation as it is now (by its file; with its row) and add passages, in one transaction. `anew`: what
        was there of it goes first. A head takes the place of the head before, and a passage that begins as the last one
        did takes that one's: the conversation went on. `uuids` are eight bytes for each entry;
        `leaves` are summaries that were met, with the uuid of the entry that each is about."""

    def put_many(
        self,
        found: Sequence[
            tuple[IndexedConversation, Sequence[Passage], bytes, Sequence[tuple[str, str]], bool]
        ],
    ) -> list[IndexedConversation]:
        """The same for several at once: conversation, passages, uuids, leaves, anew."""

    def remove(self, rows: Collection[int], *, at_once: bool = True) -> int:
        """Those conversations with all that is there of them, so that nothing of it stays in the file; how many passages.
        That rewrites the file. Where nobody asked for it, not `at_once`: they aren't found any more, and tidy() does the rest."""

    def tidy(self) -> None:
        """Rewrite the file if something of what was removed may still be in it."""

    def sharing(self, rows: Collection[int]) -> dict[int, int]:
        """How many of their entries each other conversation (row) has as well: it was resumed or forked from them, or they
        from it. Those without are absent."""

    def leaf_summaries(self) -> dict[int, str]:
        """For each conversation (row) that has the entry which a summary is about: the latest such summary."""

    def search(
        self, lexemes: Sequence[str], *, among: Collection[int] | None = None, limit: int = 200
    ) -> list[PassageMatch]:
        """Passages that have some of them, by BM25, best first; only of those conversations (rows) where given."""

    def frequencies(self, lexemes: Sequence[str]) -> dict[str, int]:
        """How many passages have each."""

    def nearest(
        self, vector: Vector, *, model: str, among: Collection[int] | None = None, limit: int = 100
    ) -> list[PassageMatch]:
        """By cosine, best first, among those that the model has seen."""

    def passages(self, rows: Collection[int]) -> dict[int, Passage]:
        """By their rows. What is gone is absent."""

    def passages_of(self, conversation: int) -> list[tuple[int, Passage]]:
        """All of a conversation's, in order, with their rows."""

    def passages_from(self, passage: int, *, most: int) -> list[Passage]:
        """That passage and those behind it in its conversation, in order, at most so many; heads are none."""

    def last_passage(self, conversation: int) -> Passage | None:
        """What a conversation ended with so far; a head is none."""

    def unembedded(self, model: str, *, limit: int) -> dict[int, Passage]:
        """Passages that the model hasn't seen, of the latest conversations first."""

    def put_vectors(self, vectors: Mapping[int, Vector], *, model: str) -> None:
        """What isn't there any more is passed over."""

    def stock(self) -> HistoryTotals: ...

    def close(self) -> None:
        """Idempotent."""


class NoHistory:
    """For callers whom this machine's conversations don't concern, and where none are indexed."""

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
        return [one[0] for one in found]

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
    """What a copy is of, as it says itself: whose conversation, and where its file lay."""

    file: Path
    source: str
    session_id: str
    part_of: str = ""
    folder: str = ""
    project: str = ""

    @property
    def belongs_to(self) -> str:
        """The session that a person would name."""
        return self.part_of or self.session_id


@dataclass(frozen=True, slots=True)
class ArchivedTranscript:
    """One conversation's copy: the name that it is kept by, its bytes, those that it takes, and what it is of."""

    name: str
    size: int
    on_disk: int
    modified: int  # of the transcript when it was copied, in nanoseconds
    about: ArchiveSource | None = None


Fits = Callable[
    [int], bool
]  # whether so many bytes more may be taken; what is being written may go beyond by a part


class Archive(Protocol):
    """Copies of transcripts, byte by byte, compressed, for their owner only. Blocks. Raises StoreError's kind."""

    def all(self) -> list[ArchivedTranscript]:
        """What there is, in no order. One whose file was replaced by another is kept by the name with `~` and a number."""

    def sizes(self) -> dict[str, int]:
        """By their names, the bytes that copies take: cheaper than all of what they say."""

    def add(
        self, name: str, file: Path, *, about: ArchiveSource | None = None, fits: Fits | None = None
    ) -> ArchivedTranscript:
        """Make the copy what the file is by now: what only grows is added to, what is written anew is copied anew. A killed
        writer leaves nothing half. It ends where something doesn't fit. Raises OSError for a file that is gone."""

    def unpack(self, name: str, target: Path) -> None:
        """The whole conversation as a file. Raises NotFound."""

    def remove(self, name: str) -> bool:
        """Whether there was one."""


class NoArchive:
    """Where nothing is kept."""

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
