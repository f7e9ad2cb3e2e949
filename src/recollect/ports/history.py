"""The index of past conversations, and the archive of those that would vanish: on this machine, whatever the store is.

Both are files of the home. The index is derived: what it holds comes from transcripts and the archive, and can be made anew.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import NamedTuple, Protocol

from recollect.model.query import Vector
from recollect.ports.transcripts import Cursor, Role


class Utterance(NamedTuple):
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

    utterances: tuple[Utterance, ...]
    lexemes: str
    head: bool = False


@dataclass(frozen=True, slots=True)
class Told:
    """What a conversation is called or summed up as, and by whom: custom, ai, summary, note, made, model, rlm."""

    text: str = ""
    by: str = ""


@dataclass(frozen=True, slots=True)
class Conversation:
    """One file's conversation, as the index knows it. A sub-agent's is `part_of` the session that it worked for."""

    session_id: str
    source: str  # claude, codex, gemini, cursor
    file: Path  # where it lay when it was last seen
    size: int = 0  # of the file, when it was last read
    modified: int = 0  # in nanoseconds, as the disk said then
    note_modified: int = 0  # of the notes beside it; 0: none
    cursor: Cursor = field(default_factory=Cursor)
    row: int = 0  # the index's own number
    folder: str = ""  # what the program calls the project
    project: str = ""  # the folder that was worked in
    part_of: str = ""
    title: Told = Told()
    summary: Told = Told()
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
    archived: int = 0  # bytes of it that the archive has

    @property
    def belongs_to(self) -> str:
        """The session that a person would name."""
        return self.part_of or self.session_id


class Match(NamedTuple):
    """A passage that answers: its row, its conversation's, and how well."""

    passage: int
    conversation: int
    score: float


@dataclass(frozen=True, slots=True)
class Stock:
    """How much there is."""

    conversations: int = 0
    passages: int = 0
    embedded: int = 0
    bytes_indexed: int = 0  # of transcripts
    bytes_on_disk: int = 0


class HistoryIndex(Protocol):
    """All methods block: call them from a thread, from as many as you like. Several processes may have it open; one at a
    time should write, which `recollect.engine.history.turn` sees to. A damaged file is made anew, empty.

    Raises StoreError and its kind.
    """

    withheld: bool  # there may be one, and the caller isn't shown it

    def conversations(self) -> list[Conversation]:
        """All of them, silent and gone ones too, those ended last first. Cheap: a thousand in a few milliseconds."""

    def conversation(self, row: int) -> Conversation | None: ...

    def put(
        self,
        conversation: Conversation,
        passages: Sequence[Passage],
        *,
        anew: bool = False,
        uuids: bytes = b"",
        leaves: Iterable[tuple[str, str]] = (),
    ) -> Conversation:
        """Note the conversation as it is now (by its file; with its row) and add passages, in one transaction. `anew`: what
        was there of it goes first. A head takes the place of the head before. `uuids` are eight bytes for each entry;
        `leaves` are summaries that were met, with the uuid of the entry that each is about."""

    def put_many(
        self, found: Sequence[tuple[Conversation, Sequence[Passage], bytes, Sequence[tuple[str, str]], bool]]
    ) -> list[Conversation]:
        """The same for several at once: conversation, passages, uuids, leaves, anew."""

    def remove(self, rows: Collection[int]) -> int:
        """Those conversations with all that is there of them, so that nothing of it stays in the file; how many passages."""

    def leaf_summaries(self) -> dict[int, str]:
        """For each conversation (row) that has the entry which a summary is about: the latest such summary."""

    def search(
        self, lexemes: Sequence[str], *, among: Collection[int] | None = None, limit: int = 200
    ) -> list[Match]:
        """Passages that have some of them, by BM25, best first; only of those conversations (rows) where given."""

    def frequencies(self, lexemes: Sequence[str]) -> dict[str, int]:
        """How many passages have each."""

    def nearest(
        self, vector: Vector, *, model: str, among: Collection[int] | None = None, limit: int = 100
    ) -> list[Match]:
        """By cosine, best first, among those that the model has seen."""

    def passages(self, rows: Collection[int]) -> dict[int, Passage]:
        """By their rows. What is gone is absent."""

    def passages_of(self, conversation: int) -> list[tuple[int, Passage]]:
        """All of a conversation's, in order, with their rows."""

    def unembedded(self, model: str, *, limit: int) -> dict[int, Passage]:
        """Passages that the model hasn't seen, of the latest conversations first."""

    def put_vectors(self, vectors: Mapping[int, Vector], *, model: str) -> None:
        """What isn't there any more is passed over."""

    def stock(self) -> Stock: ...

    def close(self) -> None:
        """Idempotent."""


class NoHistory:
    """For callers whom this machine's conversations don't concern, and where none are indexed."""

    def __init__(self, *, withheld: bool = True) -> None:
        self.withheld = withheld

    def conversations(self) -> list[Conversation]:
        return []

    def conversation(self, row: int) -> Conversation | None:
        return None

    def put(
        self,
        conversation: Conversation,
        passages: Sequence[Passage],
        *,
        anew: bool = False,
        uuids: bytes = b"",
        leaves: Iterable[tuple[str, str]] = (),
    ) -> Conversation:
        return conversation

    def put_many(
        self, found: Sequence[tuple[Conversation, Sequence[Passage], bytes, Sequence[tuple[str, str]], bool]]
    ) -> list[Conversation]:
        return [one[0] for one in found]

    def remove(self, rows: Collection[int]) -> int:
        return 0

    def leaf_summaries(self) -> dict[int, str]:
        return {}

    def search(
        self, lexemes: Sequence[str], *, among: Collection[int] | None = None, limit: int = 200
    ) -> list[Match]:
        return []

    def frequencies(self, lexemes: Sequence[str]) -> dict[str, int]:
        return {}

    def nearest(
        self, vector: Vector, *, model: str, among: Collection[int] | None = None, limit: int = 100
    ) -> list[Match]:
        return []

    def passages(self, rows: Collection[int]) -> dict[int, Passage]:
        return {}

    def passages_of(self, conversation: int) -> list[tuple[int, Passage]]:
        return []

    def unembedded(self, model: str, *, limit: int) -> dict[int, Passage]:
        return {}

    def put_vectors(self, vectors: Mapping[int, Vector], *, model: str) -> None:
        pass

    def stock(self) -> Stock:
        return Stock()

    def close(self) -> None:
        pass


@dataclass(frozen=True, slots=True)
class Archived:
    """One conversation's copy: the name that it is kept by, its bytes, and those that it takes."""

    name: str
    size: int
    on_disk: int
    modified: int  # when it was last added to, in nanoseconds


class Archive(Protocol):
    """Copies of transcripts, byte by byte, compressed, for their owner only. Blocks. Raises StoreError's kind."""

    def all(self) -> list[Archived]:
        """What there is, in no order."""

    def add(self, name: str, file: Path, *, start: int) -> int:
        """Append the file's whole lines from there on; returns how far the copy now goes. A copy that goes less far than
        `start` is made anew from the beginning; a killed writer leaves nothing half. Raises OSError for a file that is gone."""

    def unpack(self, name: str, target: Path) -> None:
        """The whole conversation as a file. Raises NotFound."""

    def remove(self, name: str) -> bool:
        """Whether there was one."""


class NoArchive:
    """Where nothing is kept."""

    def all(self) -> list[Archived]:
        return []

    def add(self, name: str, file: Path, *, start: int) -> int:
        return 0

    def unpack(self, name: str, target: Path) -> None:
        raise FileNotFoundError(name)

    def remove(self, name: str) -> bool:
        return False
