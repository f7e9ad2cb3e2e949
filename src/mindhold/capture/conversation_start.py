"""The text that a conversation begins with: where work stopped, wishes, decisions, what to watch out for, and the rest."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, tzinfo
from math import log
from pathlib import Path
from typing import Any

from mindhold.capture.claude_md import is_told
from mindhold.capture.extracted_items import COMMAND_WORDINGS, is_doubtful, is_only_captured
from mindhold.engine import LEAST_TRUST, Engine
from mindhold.history.excerpts import WITHHELD, safe_line
from mindhold.history.passages import closing_line, subject_line
from mindhold.history.projects import by_session, known_conversations, last_moment, worked_in
from mindhold.hooks.memory_match import common_lexemes
from mindhold.hooks.project_identity import project_identity
from mindhold.memories.context import standing
from mindhold.memories.hit_context import UNDISPUTED, ties_of
from mindhold.memories.reflect import OPEN_QUESTION, REFLECTION
from mindhold.model.lexemes import lexemes, stop_lexemes
from mindhold.model.lifecycle import LEAST_SHOWN_CONFIDENCE, confidence_at, doubt_time, is_part, is_working
from mindhold.model.memory import Kind, Memory
from mindhold.model.prompt_markup import neutralize
from mindhold.model.query import Filter, Order
from mindhold.model.scope import GLOBAL
from mindhold.model.tokens import count_tokens, truncate_to_tokens
from mindhold.ports.history import IndexedConversation
from mindhold.ports.transcripts import Role
from mindhold.profile.entries import HEADING as PROFILE_HEADING
from mindhold.profile.entries import outline_profile, profile
from mindhold.projects.scopes import PATHS, visible_scopes
from mindhold.text.noise import is_work_log
from mindhold.text.pattern import any_case
from mindhold.text.similarity import content_words, jaccard
from mindhold.text.third_person import WISH, in_third_person

MOST_LINES = 40  # of the whole text, which should fit on a screen
LONGEST_LINE = 260  # characters of a memory
LONGEST_CAPTURED = 200  # of one that was captured: what has to be cut is found by a search, not shown unasked
LONGEST_STORY_LINE = 220
MOST_OPEN = 3
STORY_SHARE = 0.35  # of the budget
GLOBAL_SHARE = 0.3  # what Global may take of a project's budget, the profile included
PROFILE_SHARE = 0.15
SUMMARY_SHARE = 0.15
MOST_OWN, MOST_GLOBAL = 120, 60  # memories of a section that are weighed
LAST_CONVERSATIONS = 3  # whose words say what is being worked on
MOST_PASSAGES = 40  # of each, from its end
CONCERNS = 0.3  # share of a memory's words that those conversations have
FEWEST_SHARED = 2
REPEATED = 0.8  # share of common words: of two memories that say the same, the first is shown

LAST_TIME = "Last time"
PERSON = "About the person"
PROJECT = "About the project"
_OPEN = any_case(
    r"\b(?:todo|to do|remain(?:s|ing)?|next(?: step| up)?|still|left|not yet|pending|half|open|blocked|wait(?:s|ing)|missing"
    r"|unfinished|in progress|later|follow-?up|plan(?:ned)?|needs?|should|will)\b|남|아직|다음|진행 ?중|예정|해야|offen|noch|reste|pendiente"
)
_DONE = any_case(
    r"(?:added|updated|fixed|implemented|removed|created|renamed|moved|replaced|changed|refactored|extracted|wrote|merged|done|finished)\b"
)


@dataclass(frozen=True, slots=True)
class StartSection:
    """A section of the text and its share of the budget. The memories in it may age if `dated`."""

    heading: str
    kinds: tuple[Kind, ...]
    share: float
    dated: bool = True


WISHES = StartSection("Wishes", (Kind.PREFERENCE,), 0.3, dated=False)
DECISIONS = StartSection("Decisions in force", (Kind.DECISION,), 0.3)
TRAPS = StartSection("Watch out", (Kind.ERROR, Kind.GOTCHA), 0.2)
REST = StartSection("Also known", (Kind.PROCEDURE, Kind.ARCHITECTURE, Kind.PATTERN), 0.2)
SECTIONS = (WISHES, DECISIONS, TRAPS, REST)
_PURPOSES = frozenset(wording.partition(" {")[0] for wording in COMMAND_WORDINGS.values())
_SECTION_OF = {kind: section for section in SECTIONS for kind in section.kinds}


@dataclass(frozen=True, slots=True)
class LastConversation:
    """The last conversation in the project: when it was, what it was about, and how it ended."""

    ended: datetime
    title: str
    ending: str


@dataclass(frozen=True, slots=True)
class ConversationStart:
    """A text, the memories in it, and when the first of them becomes doubtful."""

    text: str = ""
    memories: tuple[Memory, ...] = ()
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class StartMaterial:
    """What a start is made of, best first; `text_at` makes it for a moment."""

    scopes: tuple[str, ...]
    zone: tzinfo
    last: LastConversation | None = None
    progress: Sequence[Memory] = ()
    by_section: dict[StartSection, Sequence[Memory]] = field(default_factory=dict)
    profile: str = ""
    summary: str = ""

    def text_at(self, now: datetime, *, budget: int) -> ConversationStart:
        """The text of at most `budget` tokens, without what is doubtful by then."""
        draft = _Draft(budget=budget, own=self.scopes[0])
        draft.add_story(self.last, _certain(self.progress, now), zone=self.zone)
        profile_text = truncate_to_tokens(self.profile, int(budget * PROFILE_SHARE))
        draft.reserve(profile_text, is_global=True)
        summary = truncate_to_tokens(self.summary, int(budget * SUMMARY_SHARE))
        draft.reserve(summary, is_global=False)
        sections = {section: _certain(memories, now) for section, memories in self.by_section.items()}
        draft.add_sections(sections, zone=self.zone)
        return draft.finished(profile_text=profile_text, summary=summary)


async def start_material(
    engine: Engine, scope: str, *, agent: str, told_lines: Collection[str] = ()
) -> StartMaterial:
    """Collect what a conversation in the scope may begin with, without what is in `told_lines` of its documents.

    Raises ScopeNotFound, the store's errors.
    """
    from mindhold.projects.summary import project_summary  # for the scopes that have one

    scopes = await visible_scopes(engine, scope)
    where = Filter(viewer=agent, scopes=scopes, minimum_trust=LEAST_TRUST)
    zone = engine.zone()
    budget = engine.settings.capture.start_tokens
    person, profile_ids = outline_profile(await profile(engine, agent), int(budget * PROFILE_SHARE))
    summary = await project_summary(engine, scopes[0], agent=agent)
    memories = [
        memory
        for memory in await _candidates(engine, where)
        if memory.id not in profile_ids
        and memory.id != summary.memory
        and not (is_working(memory) or is_part(memory) or is_work_log(memory.content))
        and not is_doubtful(memory)
        and not (is_only_captured(memory) and len(memory.content) > LONGEST_CAPTURED)
        and not is_told(memory, told_lines, zone=zone)
    ]
    memories = await _undisputed(engine, memories, where)
    memories.sort(key=lambda memory: _order(memory, scopes))
    conversations = await _last_conversations(engine, scope)
    last, words = await asyncio.to_thread(_told_of, engine, conversations)
    progress = [memory for memory in memories if _is_progress(memory)]
    others = [memory for memory in memories if not _is_progress(memory)]
    return StartMaterial(
        scopes=scopes,
        zone=zone,
        last=last,
        progress=sorted(progress, key=lambda memory: memory.occurred, reverse=True),
        by_section=_sorted_into_sections(others, words),
        profile=person.removeprefix(PROFILE_HEADING).lstrip("\n"),
        summary=summary.text,
    )


async def _candidates(engine: Engine, where: Filter) -> list[Memory]:
    """The memories that matter most, of each section and of the project and Global apart."""
    store = engine.store
    groups: list[tuple[tuple[Kind, ...], dict[str, Any]]] = [
        *((section.kinds, {}) for section in SECTIONS),
        ((Kind.PROGRESS,), {}),
        ((), {"anchored": True}),
        ((), {"tags": (OPEN_QUESTION, REFLECTION), "tags_any": True}),
    ]
    memories: list[Memory] = []
    own = tuple(name for name in where.scopes if name != GLOBAL)
    for kinds, more in groups:
        order = Order.NEWEST if kinds in ((Kind.PROGRESS,), ()) else Order.IMPORTANT
        for scopes, most in ((own, MOST_OWN), ((GLOBAL,), MOST_GLOBAL)):
            if scopes and not set(scopes).isdisjoint(where.scopes):
                one = replace(where, scopes=scopes, kinds=kinds, **more)
                memories += await store.find(one, order=order, limit=most)
    return list({memory.id: memory for memory in memories}.values())


async def _undisputed(engine: Engine, memories: list[Memory], where: Filter) -> list[Memory]:
    """Drop what a visible memory contradicts or supersedes; anchors stay."""
    disputes = await (await ties_of(engine, memories, relations=None, where=where)).disputes()
    by_id = {memory.id: disputes.get(memory.id, UNDISPUTED) for memory in memories}
    return [
        memory
        for memory in memories
        if memory.anchor or not (by_id[memory.id].contradicted_by or by_id[memory.id].superseded_by)
    ]


def _order(memory: Memory, scopes: Sequence[str]) -> tuple[float, ...]:
    """The nearest scope first, then anchors, then what is surest and deserves most to be shown, then the newest."""
    near = scopes.index(memory.scope) if memory.scope in scopes else len(scopes)
    return (
        near,
        not memory.anchor,
        -round(standing(memory) * memory.confidence, 1),
        -memory.occurred.timestamp(),
    )


def _is_progress(memory: Memory) -> bool:
    return memory.kind is Kind.PROGRESS or OPEN_QUESTION in memory.tags


def _certain(memories: Iterable[Memory], now: datetime) -> list[Memory]:
    return [memory for memory in memories if confidence_at(memory, now) >= LEAST_SHOWN_CONFIDENCE]


async def _last_conversations(engine: Engine, scope: str) -> list[IndexedConversation]:
    """The last conversations in the scope's folder, newest first; none for a scope without a folder."""
    entry = await engine.ledger.entry(PATHS, scope, now=engine.clock())
    if entry is None or not entry.value.get("path"):
        return []
    known = await known_conversations(engine, unread=False, refreshed=False)
    return await asyncio.to_thread(_held_in, known.conversations, entry.value)


def _held_in(
    conversations: Sequence[IndexedConversation], place: Mapping[str, Any]
) -> list[IndexedConversation]:
    home = Path(place["path"]).resolve()
    identity = place.get("identity") or project_identity(str(home))
    is_plain = identity == str(home)  # in no repository
    belongs: dict[str, bool] = {}
    last: list[IndexedConversation] = []
    sessions = [files[0] for files in by_session(conversations).values()]
    for conversation in sorted(sessions, key=last_moment, reverse=True):
        folder = worked_in(conversation)
        if folder not in belongs:
            real, own = Path(folder).resolve(), project_identity(folder)
            belongs[folder] = own == identity or (is_plain and own == str(real) and home in real.parents)
        if belongs[folder] and conversation.title.text:
            last.append(conversation)
        if len(last) == LAST_CONVERSATIONS:
            break
    return last


def _told_of(
    engine: Engine, conversations: Sequence[IndexedConversation]
) -> tuple[LastConversation | None, frozenset[str]]:
    """The last conversation, and the words of what was asked and opened in the last ones. Blocks."""
    last: LastConversation | None = None
    words: set[str] = set()
    for conversation in conversations:
        passages = [passage for _, passage in engine.history.passages_of(conversation.row)]
        for passage in passages[-MOST_PASSAGES:]:
            if passage.head:
                words.update(passage.lexemes.split())
                continue
            for step in passage.utterances:
                if step.role in (Role.USER, Role.TOOL):
                    words.update(lexemes(step.text))
        if last is None:
            spoken = [passage for passage in passages if not passage.head]
            title = safe_line(engine, subject_line(conversation.title, spoken), LONGEST_STORY_LINE)
            ending = safe_line(engine, closing_line(spoken), LONGEST_STORY_LINE)
            last = LastConversation(
                last_moment(conversation),
                "" if title == WITHHELD else title,
                "" if ending == WITHHELD else ending,
            )
    return last, frozenset(words - common_lexemes() - stop_lexemes())


def _sorted_into_sections(
    memories: Sequence[Memory], words: frozenset[str]
) -> dict[StartSection, Sequence[Memory]]:
    """Each memory in the section of its kind; traps that don't concern current work are last among the rest."""
    by_section: dict[StartSection, list[Memory]] = {section: [] for section in SECTIONS}
    for memory in memories:
        by_section[_SECTION_OF.get(memory.kind, REST)].append(memory)
    traps = by_section[TRAPS]
    concern = _concerns(traps, words)
    by_section[TRAPS] = sorted(
        (trap for trap in traps if concern[trap.id] >= CONCERNS), key=lambda trap: -concern[trap.id]
    )
    by_section[REST] += [trap for trap in traps if concern[trap.id] < CONCERNS]
    return dict(by_section)


def _concerns(memories: Sequence[Memory], words: frozenset[str]) -> dict[str, float]:
    """How much of what each memory says occurs in those words; rare words say most."""
    bags = {
        memory.id: frozenset(lexemes(memory.content)) - common_lexemes() - stop_lexemes()
        for memory in memories
    }
    counts = Counter(word for bag in bags.values() for word in bag)
    weight = {word: log(1 + len(bags) / count) for word, count in counts.items()}
    shares = {}
    for memory_id, bag in bags.items():
        shared = bag & words
        total = sum(weight[word] for word in bag)
        enough = len(shared) >= min(FEWEST_SHARED, len(bag)) and shared
        shares[memory_id] = sum(weight[word] for word in shared) / total if enough else 0.0
    return shares


class _Draft:
    """The lines chosen so far, and what is left of the budget."""

    def __init__(self, *, budget: int, own: str) -> None:
        self._budget = self._room = budget
        self._global_room = budget if own == GLOBAL else int(budget * GLOBAL_SHARE)
        self._lines_left = MOST_LINES
        self._story: list[str] = []
        self._sections: dict[StartSection, list[str]] = {}
        self._memories: list[Memory] = []
        self._said: list[frozenset[str]] = []
        self._purposes: set[str] = set()  # that commands were told for

    def add_story(self, last: LastConversation | None, progress: Sequence[Memory], *, zone: tzinfo) -> None:
        """When we last worked here and on what, how it ended, and what is open."""
        done = [memory for memory in progress if _reads_as_done(memory)]
        still_open = [memory for memory in progress if memory not in done][:MOST_OPEN]
        room = int(self._budget * STORY_SHARE)
        if last is not None and last.title:
            room = self._add_story_line(f"- {_day(last.ended, zone)}: {last.title}", room, ())
        if last is not None and last.ending and not _is_repeated(last.ending, [last.title]):
            room = self._add_story_line(f"- It ended with: {last.ending}", room, ())
        elif done:
            latest = done[0]
            line = f"- It ended with: {_said(latest)} ({_day(latest.occurred, zone)})"
            room = self._add_story_line(line, room, (latest,))
        for count in range(len(still_open), 0, -1):
            part = still_open[:count]
            texts = "; ".join(_said(memory).rstrip(".") for memory in part)
            line = f"- Open: {texts} ({_day(part[0].occurred, zone)})"
            left = self._add_story_line(line, room, part) if count == 1 or len(line) < LONGEST_LINE else room
            if left != room:
                return

    def _add_story_line(self, line: str, room: int, memories: Sequence[Memory]) -> int:
        """Add the line if it fits; what is left of the room."""
        line = _one_line(line, LONGEST_LINE + 40)
        cost = _cost(line) + (0 if self._story else _cost(LAST_TIME))
        if cost > room:
            return room
        self._lines_left -= 1 if self._story else 2  # the first comes with the heading
        self._story.append(line)
        self._memories += memories
        self._room -= cost
        return room - cost

    def reserve(self, text: str, *, is_global: bool) -> None:
        """Take the tokens of a text that is added at the end."""
        if text:
            cost = _cost(text) + _cost(PROJECT)
            self._room -= cost
            self._lines_left -= text.count("\n") + 2
            if is_global:
                self._global_room -= cost

    def add_sections(self, by_section: dict[StartSection, list[Memory]], *, zone: tzinfo) -> None:
        """Take a memory after the other, each from the section that has used least of its share."""
        waiting = {section: deque(memories) for section, memories in by_section.items() if memories}
        used = dict.fromkeys(waiting, 0)
        while waiting and self._lines_left > 0 and self._room > 0:
            section = min(waiting, key=lambda section: used[section] / section.share)
            used[section] += self._add(section, waiting[section].popleft(), zone=zone)
            if not waiting[section]:
                del waiting[section]

    def _add(self, section: StartSection, memory: Memory, *, zone: tzinfo) -> int:
        """Add a memory if it fits and wasn't said yet; what it costs."""
        words = content_words(memory.content)
        text = _said(memory)
        if not text or any(jaccard(words, said) >= REPEATED for said in self._said):
            return 0
        purpose = text.partition(" `")[0]
        if is_only_captured(memory) and purpose in self._purposes:
            return 0  # one command to run the tests is enough
        day = _day(memory.occurred, zone)
        line = f"- {text} ({day})" if section.dated and day not in text else f"- {text}"
        is_first = section not in self._sections
        cost = _cost(line) + (_cost(section.heading) if is_first else 0)
        if cost > self._room or (memory.scope == GLOBAL and cost > self._global_room):
            return 0
        if purpose in _PURPOSES:
            self._purposes.add(purpose)
        self._sections.setdefault(section, []).append(line)
        self._memories.append(memory)
        self._said.append(words)
        self._room -= cost
        self._lines_left -= 1 + is_first
        if memory.scope == GLOBAL:
            self._global_room -= cost
        return cost

    def finished(self, *, profile_text: str, summary: str) -> ConversationStart:
        """The text, shortened line by line should it still be too long."""
        blocks: list[tuple[str, list[str]]] = [(LAST_TIME, self._story)]
        for section in SECTIONS:
            blocks.append((section.heading, self._sections.get(section, [])))
            if section is WISHES:
                blocks.append((PERSON, profile_text.splitlines()))
        blocks.append((PROJECT, [f"  {line}" for line in summary.splitlines() if line.strip()]))
        text = "\n".join("\n".join([heading, *lines]) for heading, lines in blocks if lines)
        while text and count_tokens(text) > self._budget:
            text = text.rpartition("\n")[0]
        text = neutralize(text)
        memories = tuple(self._memories)
        moments = [doubt_time(memory, LEAST_SHOWN_CONFIDENCE) for memory in memories]
        return ConversationStart(text, memories, min(filter(None, moments), default=None))


def _reads_as_done(memory: Memory) -> bool:
    content = _said(memory).replace("`", "")
    return OPEN_QUESTION not in memory.tags and bool(_DONE.match(content)) and not _OPEN.search(content)


def _said(memory: Memory) -> str:
    """The memory on one line, as a statement; its topic comes first if the text doesn't name it."""
    text = in_third_person(memory.content).removeprefix(WISH)
    if memory.topic and memory.topic.casefold() not in text.casefold():
        text = f"{memory.topic}: {text}"
    return _one_line(text[:1].upper() + text[1:] if memory.content[:1].isupper() else text, LONGEST_LINE)


def _one_line(text: str, longest: int) -> str:
    flat = " ".join(text.split())
    if len(flat) <= longest:
        return flat
    short = flat[: longest - 1]
    blank = short.rfind(" ", longest * 2 // 3)
    return short[: blank if blank > 0 else None].rstrip(" ,;:-") + "…"


def _is_repeated(text: str, others: Sequence[str]) -> bool:
    words = content_words(text)
    return any(jaccard(words, content_words(other)) >= REPEATED for other in others)


def _day(moment: datetime, zone: tzinfo) -> str:
    return moment.astimezone(zone).date().isoformat()


def _cost(text: str) -> int:
    return count_tokens(f"{text}\n") if text else 0
