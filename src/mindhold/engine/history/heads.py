"""What each conversation is called and summed up as, kept with it: its own words for it, else such as are made of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from mindhold.engine.history.passages import head_of, without_secrets
from mindhold.engine.history.titles import (
    fallback_title,
    gist_of,
    heading_of,
    made_summary,
    made_title,
)
from mindhold.model.words import Words
from mindhold.ports.history import Conversation, HistoryIndex, Passage, Told
from mindhold.ports.transcripts import Role, Transcripts

OWN = ("custom", "ai")  # titles that a transcript has itself
ASKED_FOR = ("model", "rlm")  # summaries that a person asked for: nothing takes their place
LONGEST_NOTE = 8_000  # characters of notes that are searched


def is_due(conversation: Conversation, leaves: Mapping[int, str], *, note_modified: int | None) -> bool:
    """Whether its title, its summary or its notes aren't what they should be; `note_modified` where the file is there."""
    if conversation.silent:
        return False
    if not conversation.summary.by or not conversation.title.by:
        return True
    if note_modified is not None and note_modified != conversation.note_modified:
        return True
    leaf = leaves.get(conversation.row, "")
    titled = conversation.title.by in OWN or conversation.title.text == leaf
    summed_up = conversation.summary.by in (*ASKED_FOR, "note") or conversation.summary.text == leaf
    return bool(leaf) and not (titled and summed_up)


def made_head(
    conversation: Conversation, passages: Sequence[Passage], words: Words
) -> tuple[Conversation, Passage]:
    """The conversation with a title and a summary made of all its passages, and the passage that tells of it."""
    title, summary = conversation.title, conversation.summary
    title = title if title.by in OWN else Told(_titled(passages), "made")
    summary = summary if summary.by in ASKED_FOR else Told(made_summary(passages), "made")
    conversation = replace(conversation, title=title, summary=summary)
    return conversation, head_of(title.text, summary.text, "", words)


class Heads:
    """Makes them."""

    def __init__(self, index: HistoryIndex, transcripts: Transcripts, *, redacting: bool) -> None:
        self._index = index
        self._transcripts = transcripts
        self._redacting = redacting
        self._words = Words()

    def of(
        self, conversation: Conversation, *, leaf: str, note_modified: int
    ) -> tuple[Conversation, Passage]:
        """The conversation with its title and its summary, and the passage that tells of it. Raises StoreError."""
        note = self._note(conversation) if note_modified else ""
        heading = heading_of(note)
        gist = gist_of(note, heading)
        title, summary = conversation.title, conversation.summary
        kept_title = title.by in OWN or (title.by == "made" and bool(title.text))
        needs_title = not (title.by in OWN or leaf or heading) and not kept_title
        needs_summary = not (summary.by in ASKED_FOR or gist or leaf)
        passages = self._passages(conversation) if needs_title or needs_summary else []
        if title.by not in OWN:
            own = Told(leaf, "summary") if leaf else Told(heading, "note")
            title = own if own.text else title if kept_title else Told(_titled(passages), "made")
        if summary.by not in ASKED_FOR:
            own = Told(gist, "note") if gist else Told(leaf, "summary")
            summary = own if own.text else Told(made_summary(passages), "made")
        conversation = replace(conversation, title=title, summary=summary, note_modified=note_modified)
        return conversation, head_of(title.text, summary.text, note, self._words)

    def _note(self, conversation: Conversation) -> str:
        note = self._transcripts.note(conversation.file)
        return without_secrets(note, redacting=self._redacting)[:LONGEST_NOTE]

    def _passages(self, conversation: Conversation) -> list[Passage]:
        return [passage for _, passage in self._index.passages_of(conversation.row)]


def _titled(passages: Sequence[Passage]) -> str:
    prompts = [one.text for passage in passages for one in passage.utterances if one.role is Role.USER]
    return made_title(prompts) or fallback_title(passages)
