"""The life cycle of a memory: fading importance, tiers, archiving and erasure, and the retention levels that change them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from math import ceil, log, log2

from mindhold.model.memory import PART_KEY, Kind, Memory, Status, Tier
from mindhold.model.policies import RECAP

PROFILE_TAG = "profile"  # the tag of profile entries
PROFILE_SOURCE = "user_profile"
IMPORTANT = "important"  # a tag
IMPORTANT_FROM = 0.9  # importance from which the memory counts as marked important
ROLE = "message_type"  # in the metadata of a message: its speaker
PERSON = "user"
SEARCHED_CHARACTERS = 4_000  # characters to search; people say that something matters at the start

_NEGATION = r"(?:not|n't|n’t|no longer|never|hardly|less|un)"
_INTENSIFIER = r"(?:(?:very|really|so|extremely|absolutely|super|especially) )?"
_IMPORTANT_WORDS = r"(?:important|crucial|critical|vital|essential)"
# "It is important to note that ..." is a filler phrase.
_ASKS_TO_KEEP = re.compile(
    rf"(?:^|[.!?\n]\s*){_INTENSIFIER}important(?:\s+(?:note|fact|thing|information))?\s*[:!]"
    rf"|\b(?:this|that|what follows|the following)(?: is|['’]s| are) {_INTENSIFIER}{_IMPORTANT_WORDS}\b(?! (?:to|for)\b(?! (?:me|us)\b))"
    rf"|\bit(?: is|['’]s) {_INTENSIFIER}{_IMPORTANT_WORDS} (?:to me|to us|that you|that we)\b"
    r"|\b(?:remember|memori[sz]e) this\b"
    r"|\b(?:don['’]t|do not|never|must not|mustn['’]t)(?: ever)? forget (?:this|that|it)\b"
    r"|\b(?:mark|keep|store|save) (?:this|that|it) as important\b"
    r"|(?:이건|이것은|이것이|매우|정말|아주) ?중요(?:해|합니다|하다|한 (?:내용|정보|사실))"
    r"|(?:이것|이거|이 내용)(?:을|를)? ?(?:꼭 )?(?:기억해|잊지 ?마)",
    re.IGNORECASE,
)
_NEGATED_BEFORE = re.compile(
    rf"\b(?:is|are|was|it)\s?{_NEGATION}[^.!?\n]{{0,12}}$|\bwhether\b[^.!?\n]{{0,12}}$", re.IGNORECASE
)


def asks_to_be_kept(text: str) -> bool:
    """Whether the text itself asks to be kept: "this is important", "don't forget that". A question doesn't."""
    beginning = text[:SEARCHED_CHARACTERS]
    for match in _ASKS_TO_KEEP.finditer(beginning):
        sentence = re.split(r"[.!\n]", beginning[match.start() :].lstrip(".!?\n "), maxsplit=1)[0]
        if not sentence.rstrip().endswith("?") and not _NEGATED_BEFORE.search(beginning[: match.start()]):
            return True
    return False


def is_marked(memory: Memory) -> bool:
    """Whether the memory belongs to the profile or has the tag `important`."""
    tags = {tag.casefold() for tag in memory.tags}
    return bool(tags & {PROFILE_TAG, IMPORTANT}) or memory.provenance.source == PROFILE_SOURCE


def is_declared_important(memory: Memory) -> bool:
    """Whether somebody said that the memory matters: by a mark, by its importance, or in its text.

    Of messages only the user's text counts: an assistant calls everything important.
    """
    if is_marked(memory) or memory.importance >= IMPORTANT_FROM:
        return True
    return memory.metadata.get(ROLE, PERSON) == PERSON and asks_to_be_kept(memory.content)


NEVER_FORGOTTEN = frozenset({Kind.PREFERENCE, Kind.ERROR})
FLOOR = 0.05  # importance never fades below
LONGEST_DAYS = 36_500  # keeps every date within the calendar, whatever the settings
PROFILE_SECTION_KEY = "profile_section"  # in the metadata of a profile entry: its section
OURS = "mindhold."  # prefix of Mindhold's own metadata keys
# Metadata keys of memories that belong to a larger whole: messages of a log, a project's summary, a recap of a
# conversation, the profile.
PART_OF_WHOLE = ("message_type", "summary_of", RECAP, PROFILE_SECTION_KEY)
OUTDATED_FACTOR = 0.5  # the factor on the importance of a memory that another one supersedes or contradicts
SESSION_ONLY = "mindhold.session_only"  # in the metadata of working memory, which ends with its conversation
SHOWN_UNUSED_LIMIT = 10  # a memory shown this often and never used starts to sink
USEFULNESS_STEP, LOWEST_USEFULNESS = 0.05, -0.5
_QUARTER_LOST = log2(4 / 3)  # half-lives after which a quarter is lost: time for another review
_SHORTEST_REVIEW = timedelta(hours=1)  # no memory is reviewed more often than that
NEVER = datetime(9998, 1, 1, tzinfo=UTC)
UNIMPORTANT = 0.5  # a less important memory that was never used is archived in the end
SUMMARY = "summary"  # the source of memories that summarise others
LEAST_SHOWN_CONFIDENCE = 0.3  # a less certain memory is found by a search but never shown unasked
# days in which confidence drops to 0
CONFIDENCE_DAYS: Mapping[Kind, int] = {Kind.PROGRESS: 7, Kind.CONTEXT: 30}


@dataclass(frozen=True, slots=True)
class LifecycleRules:
    """The settings of `life` at the level of `retention`; `Settings.lifecycle_rules` makes them."""

    stale_days: Mapping[Kind, int]
    other_stale_days: int
    hot_days: int  # a hot memory that is unused for this long becomes warm
    archive_below: float  # only memories whose importance has faded below are archived
    keep_archived_days: int  # then it is erased; 0 keeps it forever
    anchor_uses: int
    anchor_importance: float
    unused_days: int  # an unimportant memory that was never used for this long is archived anyway; 0: never
    keeps_all: bool = False  # nothing fades or is merged, archived or removed automatically
    youngest_days: int = 21  # no younger memory is archived


class Fate(StrEnum):
    """What happens to a memory now."""

    STAYS = "stays"
    ARCHIVED = "archived"
    ERASED = "erased"


def stale_after(kind: Kind, life: LifecycleRules) -> timedelta:
    """How long a memory of that kind may stay unused before it is stale."""
    return _days(life.stale_days.get(kind, life.other_stale_days))


def unused_since(memory: Memory) -> datetime:
    """When the memory was last used; an amendment counts as use."""
    return max(memory.created, memory.updated, memory.last_used or memory.created)


def is_working(memory: Memory) -> bool:
    """Whether the memory is session-only: it ends with its conversation and never otherwise."""
    return bool(memory.metadata.get(SESSION_ONLY))


def is_kept_for_good(memory: Memory) -> bool:
    """Whether the memory is permanent, by choice or by use: nothing archives or lowers it automatically."""
    return memory.anchor or memory.tier is Tier.PERMANENT


def is_exempt(memory: Memory) -> bool:
    """Whether time never changes the memory: it doesn't fade, cool down or get archived."""
    return is_kept_for_good(memory) or memory.kind in NEVER_FORGOTTEN or is_declared_important(memory)


def is_summary_of_others(memory: Memory) -> bool:
    """Whether the memory summarises others, which may be archived: then it is all that remains of them."""
    return memory.provenance.source == SUMMARY and bool(memory.merged_from)


def is_part(memory: Memory) -> bool:
    """Whether the memory is a piece of a larger whole, such as a document: it may become cold but isn't archived alone."""
    return memory.provenance.position is not None or any(name in memory.metadata for name in PART_OF_WHOLE)


def is_unswept(memory: Memory) -> bool:
    """Whether no sweep has seen the memory with its present text.

    A sweep sets a review date after its own time; in older data both have the same time.
    """
    if memory.decayed is None or memory.updated > memory.decayed:
        return True
    return memory.review is not None and memory.review <= memory.decayed


def is_being_erased(memory: Memory) -> bool:
    """Whether the memory is being erased from the archive: only then both its statuses are FORGOTTEN."""
    return memory.status is Status.FORGOTTEN and memory.previous_status is Status.FORGOTTEN


def may_be_erased(memory: Memory) -> bool:
    """Whether the memory may be erased after being archived for long enough."""
    return _may_be_archived(memory) or is_working(memory)


def is_stale(memory: Memory, now: datetime, life: LifecycleRules) -> bool:
    """Whether the memory was neither used nor verified for as long as its kind allows."""
    if memory.status is not Status.ACTIVE or is_exempt(memory) or is_working(memory):
        return False
    return now - _last_good(memory) >= stale_after(memory.kind, life)


def tier_at(memory: Memory, now: datetime, life: LifecycleRules) -> Tier:
    """The tier for a memory now: hot while in use, then warm, cold once stale. Only use makes it hot again."""
    if memory.status is not Status.ACTIVE or memory.anchor or is_working(memory):
        return memory.tier
    if memory.tier is Tier.PERMANENT:
        return memory.tier
    idle = now - unused_since(memory)
    if not is_exempt(memory) and idle >= stale_after(memory.kind, life):
        return Tier.COLD
    if memory.tier is Tier.COLD or idle >= _days(life.hot_days):
        return Tier.WARM
    return memory.tier


def faded_importance(memory: Memory, now: datetime, life: LifecycleRules) -> float:
    """The memory's importance now: halved for each unused half-life; `memory.decayed` marks what is already applied.

    A memory that is used now and then stays unused for less than `hot_days` and doesn't fade.
    """
    if life.keeps_all or not _fades(memory):
        return memory.importance
    days = (now - _fading_from(memory, life)) / timedelta(days=1)
    if days <= 0:
        return memory.importance
    remaining: float = memory.importance * 2.0 ** (-days / half_life(memory, life))
    return min(memory.importance, max(FLOOR, remaining))


def half_life(memory: Memory, life: LifecycleRules) -> float:
    """In days; it grows with the number of uses."""
    return (stale_after(memory.kind, life) / timedelta(days=1)) * (1.0 + log(max(memory.uses, 1)))


def fate_of(memory: Memory, now: datetime, life: LifecycleRules) -> tuple[Fate, str]:
    """Whether the memory is archived or erased now, and the reason. Only what was archived for `keep_archived_days` is erased.

    Only evaluated memories are archived, and their time starts with the evaluation at the earliest.
    """
    if is_being_erased(memory):
        return Fate.ERASED, "archived for long enough; an earlier run was broken off"
    if life.keeps_all:
        return Fate.STAYS, ""
    if memory.status is Status.ARCHIVED and _erased_at(memory, life) is not None:
        rested = now - _archived_at(memory)
        if rested >= _days(life.keep_archived_days):
            return Fate.ERASED, f"archived for {rested.days} days and not asked for"
    elif memory.status is Status.ACTIVE and memory.verified and _may_be_archived(memory):
        return _fate_when_unused(memory, now, life)
    return Fate.STAYS, ""


def _fate_when_unused(memory: Memory, now: datetime, life: LifecycleRules) -> tuple[Fate, str]:
    """The fate of an active, evaluated memory that nothing protects."""
    if now - memory.created < _days(life.youngest_days):
        return Fate.STAYS, ""
    idle, unused = now - _last_good(memory), (now - unused_since(memory)).days
    if idle >= _longest_unused(memory, life) and memory.importance < life.archive_below:
        return Fate.ARCHIVED, f"unused for {unused} days, importance faded to {memory.importance:.2f}"
    if _expires_unused(memory, life) and idle >= _days(life.unused_days):
        return Fate.ARCHIVED, f"never used in {unused} days, importance {memory.importance:.2f}"
    return Fate.STAYS, ""


def confidence_at(memory: Memory, now: datetime) -> float:
    """The confidence in the memory now: kinds about work in progress lose it day by day, others keep it.

    Time starts when it was said, or when the memory was amended or restored. A retired memory changed last when it was
    retired, which makes it no surer.
    """
    days = CONFIDENCE_DAYS.get(memory.kind)
    if days is None or is_kept_for_good(memory):
        return memory.confidence
    is_current = memory.status in (Status.ACTIVE, Status.QUARANTINED)
    remaining = 1.0 - (now - confidence_since(memory, is_current=is_current)) / timedelta(days=days)
    return memory.confidence * min(1.0, max(0.0, remaining))


def confidence_since(memory: Memory, *, is_current: bool = True) -> datetime:
    """When the memory's confidence began to fade: what was said in February and captured in November is of February."""
    if is_current and memory.updated > memory.created:
        return memory.updated
    return min(memory.created, memory.occurred)


def doubt_time(memory: Memory, least: float) -> datetime | None:
    """When time alone lowers the memory's confidence below `least`; None if never."""
    days = CONFIDENCE_DAYS.get(memory.kind)
    if days is None or is_kept_for_good(memory) or not memory.confidence:
        return None
    since = confidence_since(memory)
    return since + timedelta(days=days) * max(0.0, 1.0 - least / memory.confidence)


def utility(importance: float, uses: int) -> float:
    """The combined value of importance and use."""
    return importance * (1.0 + log(max(uses, 1)))


def earns_anchor(memory: Memory, life: LifecycleRules) -> bool:
    """Whether use and importance make the memory permanent."""
    return (
        memory.status is Status.ACTIVE
        and not memory.anchor
        and not is_working(memory)
        and memory.uses >= life.anchor_uses
        and memory.importance >= life.anchor_importance
    )


def lowered_usefulness(memory: Memory) -> float:
    """The memory's usefulness: if it was shown often, never used and never praised, it drops with each showing."""
    if memory.shown < SHOWN_UNUSED_LIMIT or memory.uses or memory.usefulness > 0:
        return memory.usefulness
    return min(
        memory.usefulness, max(LOWEST_USEFULNESS, -USEFULNESS_STEP * (memory.shown - SHOWN_UNUSED_LIMIT + 1))
    )


def next_review(memory: Memory, now: datetime, life: LifecycleRules) -> datetime:
    """When time alone changes something next for a memory that was just reviewed; NEVER if nothing will.

    Always later than `now`. A memory is reviewed a few times in its life, independent of how many there are.
    """
    moments = [moment for moment in _review_times(memory, now, life) if moment > now]
    return max(min(moments), now + _SHORTEST_REVIEW) if moments else NEVER


def _review_times(memory: Memory, now: datetime, life: LifecycleRules) -> list[datetime]:
    if memory.status is Status.ARCHIVED:
        erasure = _erased_at(memory, life)
        return [erasure] if erasure else []
    if memory.status is not Status.ACTIVE or is_kept_for_good(memory):
        return []
    if is_working(memory):
        return []
    since, stale = unused_since(memory), stale_after(memory.kind, life)
    moments: list[datetime] = []
    if memory.tier is Tier.HOT:
        moments.append(since + _days(life.hot_days))
    if not is_exempt(memory):
        moments.append(since + stale)
    if _fades(memory) and memory.importance > FLOOR:
        start = max(now, _fading_from(memory, life))
        moments.append(start + timedelta(days=min(LONGEST_DAYS, _QUARTER_LOST * half_life(memory, life))))
    if _may_be_archived(memory):
        last_good = _last_good(memory) if memory.verified else now
        old_enough = memory.created + _days(life.youngest_days)
        if memory.importance < life.archive_below:
            moments.append(max(last_good + _longest_unused(memory, life), old_enough))
        if _expires_unused(memory, life):
            moments.append(max(last_good + _days(life.unused_days), old_enough))
    return moments


def _days(number: float) -> timedelta:
    return timedelta(days=min(LONGEST_DAYS, number))


def _last_good(memory: Memory) -> datetime:
    return max(unused_since(memory), memory.verified or memory.created)


def _fades(memory: Memory) -> bool:
    return memory.status is Status.ACTIVE and not is_exempt(memory) and not is_working(memory)


def _fading_from(memory: Memory, life: LifecycleRules) -> datetime:
    rested = unused_since(memory) + _days(life.hot_days)
    return max(rested, memory.decayed) if memory.decayed else rested


def _may_be_archived(memory: Memory) -> bool:
    whole = not is_part(memory) and not is_summary_of_others(memory)
    return whole and not is_exempt(memory) and not is_working(memory)


def _longest_unused(memory: Memory, life: LifecycleRules) -> timedelta:
    """How long a faded memory stays unused before it is archived; longer if it was ever used."""
    duration = 2 * stale_after(memory.kind, life)
    return max(duration, _days(life.unused_days)) if memory.uses else duration


def _expires_unused(memory: Memory, life: LifecycleRules) -> bool:
    return life.unused_days > 0 and not memory.uses and memory.importance < UNIMPORTANT


def _archived_at(memory: Memory) -> datetime:
    return max(memory.updated, memory.last_used or memory.updated)


def _erased_at(memory: Memory, life: LifecycleRules) -> datetime | None:
    if not life.keep_archived_days or not may_be_erased(memory):
        return None
    return _archived_at(memory) + _days(life.keep_archived_days)


PARTS_KEY = "parts"  # in the metadata of a long message: the number of its parts
YOUNGEST = timedelta(days=21)  # retention never removes anything younger, whatever the settings
STARTS_AT, ENDS_AT = 0.9, 0.8  # shares of a limit: compression starts at the first and stops at the second


def is_message(memory: Memory) -> bool:
    """Whether the memory is a message of a conversation, or a later part of a long one."""
    return (
        memory.kind is Kind.EPISODE and ROLE in memory.metadata and memory.provenance.conversation is not None
    )


def may_be_pruned(memory: Memory, now: datetime, *, after: timedelta = YOUNGEST) -> bool:
    """Whether retention may archive the memory: active, unused for `after`, and not protected.

    Restoring, using or amending it starts the time again.
    """
    if memory.status is not Status.ACTIVE or is_protected(memory):
        return False
    return now - unused_since(memory) >= max(after, YOUNGEST)


def is_protected(memory: Memory) -> bool:
    """Whether no rule may remove the memory: it is exempt, summarises others, or is session-only."""
    return is_exempt(memory) or is_summary_of_others(memory) or is_working(memory)


def may_be_removed_alone(memory: Memory) -> bool:
    """Whether the memory may be removed alone: not a piece of a document or a long message, nor a project's summary.

    A message whose conversation is too short for a summary may.
    """
    return not is_part(memory) or (
        is_message(memory) and memory.metadata.keys().isdisjoint((PART_KEY, PARTS_KEY))
    )


def retention_key(memory: Memory) -> tuple[float, datetime, str]:
    """A sort key that puts the least valuable first: unimportant, unused, and unused the longest."""
    return round(utility(memory.importance, memory.uses) + memory.uses, 6), unused_since(memory), memory.id


@dataclass(frozen=True, slots=True)
class StorageUsage:
    """How many memories there are, and how many there may be; 0 means no limit."""

    items: int  # active memories
    all_items: int  # including archived and other inactive ones
    bytes_used: int  # by all of them
    most_items: int = 0
    most_bytes: int = 0

    @property
    def active_bytes(self) -> float:
        """The approximate size of the active memories: a store knows only the total."""
        return self.bytes_used * self.items / self.all_items if self.all_items else 0.0

    @property
    def fullest(self) -> float:
        """The used share of the limit that is nearest."""
        shares = [
            self.items / self.most_items if self.most_items else 0.0,
            self.active_bytes / self.most_bytes if self.most_bytes else 0.0,
        ]
        return max(shares)

    @property
    def tight(self) -> bool:
        """Whether to compress now, before a limit is reached."""
        return self.fullest >= STARTS_AT

    def to_free(self) -> int:
        """How many active memories to remove; 0 if there is room."""
        if not self.tight:
            return 0
        return max(0, ceil(self.items * (1 - ENDS_AT / self.fullest)))
