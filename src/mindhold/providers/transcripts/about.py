"""What the entries of a transcript say about the conversation itself, gathered."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path

from mindhold.ports.transcripts import About, beginning, uuid_key
from mindhold.providers.transcripts.entries import (
    SYNTHETIC,
    TITLES,
    Entry,
    model_of,
    string,
    title_of,
)
from mindhold.providers.transcripts.folders import SUBAGENTS, is_name_of
from mindhold.providers.transcripts.lines import BadLines

LONGEST_TOLD = 4_000  # characters of a title or a summary: more than is kept, for secrets to be known as such
MOST_SUMMARIES = 1_000  # of one piece
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


class Telling:
    """Of one piece of a file."""

    def __init__(self, file: Path, folder: str) -> None:
        self._stem = file.stem
        self.subagents = file.name.startswith(SUBAGENTS)  # whether all of it was said by or to a sub-agent
        self._folder = folder
        self._session = ""
        self._cwds: dict[str, None] = {}
        self._model = ""
        self._titles: dict[str, str] = {}
        self._summaries: list[tuple[str, str]] = []
        self._uuids: dict[str, None] = {}
        self.bad = BadLines()
        self._ended: datetime | None = None

    def said(self, entry: Entry, uuid: str, moment: datetime | None) -> None:
        """One that a person, the assistant or the program said."""
        if uuid:
            self._uuids[uuid] = None
        if moment is not None and (self._ended is None or moment > self._ended):
            self._ended = moment
        if not self._session:
            self._session = string(entry.get("sessionId"))
        if cwd := string(entry.get("cwd")):
            self._cwds[cwd] = None
        if entry.get("type") == "assistant" and (model := model_of(entry)) and model != SYNTHETIC:
            self._model = model

    def called(self, entry: Entry) -> None:
        """One that says what the conversation is called, or what another was about."""
        if entry.get("type") == "summary":
            leaf, text = string(entry.get("leafUuid")), string(entry.get("summary")).strip()
            if leaf and text and len(self._summaries) < MOST_SUMMARIES:
                self._summaries.append((leaf, beginning(text, LONGEST_TOLD)))
        elif titled := title_of(entry):
            kind, told = titled
            self._titles[kind] = beginning(told.strip(), LONGEST_TOLD) or self._titles.get(kind, "")

    def about(self) -> About:
        """All of it."""
        kind = next((one for one in TITLES if self._titles.get(one)), "")
        about = About(
            session_id=self._stem if self._names_itself() else self._session,
            part_of=self._session if self.subagents else "",
            cwd=self._cwd(),
            model=self._model,
            title=self._titles.get(kind, ""),
            title_by=kind.removesuffix("-title"),
            summaries=tuple(self._summaries),
            uuids=b"".join(map(uuid_key, self._uuids)),
            ended=self._ended,
        )
        return self.bad.told_in(about)

    def _names_itself(self) -> bool:
        """Resumed conversations begin with entries of others, and sub-agents' have the session's that they worked for."""
        return self.subagents or _UUID.fullmatch(self._stem) is not None

    def _cwd(self) -> str:
        """The one that the file lies under, else the first that is named."""
        held = (one for one in self._cwds if is_name_of(self._folder, one))
        return next(held, next(iter(self._cwds), ""))
