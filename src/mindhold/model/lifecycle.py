"""The life of a memory: how it fades, which tier it is in, when it goes, and what retention levels change."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from math import ceil, log, log2

from mindhold.model.memory import PART_KEY, Kind, Memory, Status, Tier
from mindhold.model.policies import RECAP

PROFILE_TAG = "profile"  # the tag of what the profile has
PROFILE_SOURCE = "user_profile"
IMPORTANT = "important"  # the tag
IMPORTANT_FROM = 0.9  # who gives so much importance means it
ROLE = "message_type"  # in the metadata of a message: who said it
PERSON = "user"
LONGEST_READ = 4_000  # characters: who means it says so at the beginning

_DENIED = r"(?:not|n't|n’t|no longer|never|hardly|less|un)"
_MUCH = r"(?:(?:very|really|so|extremely|absolutely|super|especially) )?"
_WEIGHTY = r"(?:important|crucial|critical|vital|essential)"
# "It is important to note that ..." is how some people, and all models, clear their throats.
_SAID = re.compile(
    rf"(?:^|[.!?\n]\s*){_MUCH}important(?:\s+(?:note|fact|thing|information))?\s*[:!]"
    rf"|\b(?:this|that|what follows|the following)(?: is|['’]s| are) {_MUCH}{_WEIGHTY}\b(?! (?:to|for)\b(?! (?:me|us)\b))"
    rf"|\bit(?: is|['’]s) {_MUCH}{_WEIGHTY} (?:to me|to us|that you|that we)\b"
    r"|\b(?:remember|memori[sz]e) this\b"
    r"|\b(?:don['’]t|do not|never|must not|mustn['’]t)(?: ever)? forget (?:this|that|it)\b"
    r"|\b(?:mark|keep|store|save) (?:this|that|it) as important\b"
    r"|(?:이건|이것은|이것이|매우|정말|아주) ?중요(?:해|합니다|하다|한 (?:내용|정보|사실))"
    r"|(?:이것|이거|이 내용)(?:을|를)? ?(?:꼭 )?(?:기억해|잊지 ?마)",
    re.IGNORECASE,
)
_REFUSED = re.compile(
    rf"\b(?:is|are|was|it)\s?{_DENIED}[^.!?\n]{{0,12}}$|\bwhether\b[^.!?\n]{{0,12}}$", re.IGNORECASE
)


def says_it_matters(text: str) -> bool:
    """Whether the words themselves ask to be kept: "this is important", "don't forget that". A question asks for nothing."""
    read = text[:LONGEST_READ]
    for found in _SAID.finditer(read):
        sentence = re.split(r"[.!\n]", read[found.start() :].lstrip(".!?\n "), maxsplit=1)[0]
        if not sentence.rstrip().endswith("?") and not _REFUSED.search(read[: found.start()]):
            return True
    return False


def is_marked(memory: Memory) -> bool:
    """Whether it is of the profile, or has the tag of what is important."""
    tags = {tag.casefold() for tag in memory.tags}
    return bool(tags & {PROFILE_TAG, IMPORTANT}) or memory.provenance.source == PROFILE_SOURCE


def is_wanted(memory: Memory) -> bool:
    """Whether somebody said that it matters, by a mark, by its importance, or in so many words.

    Of a message only a person's words count: an assistant calls everything important.
    """
    if is_marked(memory) or memory.importance >= IMPORTANT_FROM:
        return True
    return memory.metadata.get(ROLE, PERSON) == PERSON and says_it_matters(memory.content)


NEVER_FORGOTTEN = frozenset({Kind.PREFERENCE, Kind.ERROR})
FLOOR = 0.05  # nothing fades below
LONGEST_DAYS = 36_500  # so that no setting leads beyond the calendar
PROFILE_SECTION_KEY = (
    "profile_section"  # in the metadata of an entry of the profile: which part of it that is
)
OURS = "mindhold."  # how the names of metadata begin that are Mindhold's own
# In the metadata of what belongs to a whole that stands or falls together: turns of a log, a project's summary, what stands
# for a conversation, the profile.
PART_OF_WHOLE = ("message_type", "summary_of", RECAP, PROFILE_SECTION_KEY)
OUTDATED = 0.5  # what is left of the importance of a memory that another one superseded or contradicts
SESSION_ONLY = "mindhold.session_only"  # in the metadata of working memory, which ends with its conversation
SHOWN_IN_VAIN = 10  # so often shown and never used, a memory begins to sink
SINKS_BY, SINKS_TO = 0.05, -0.5
STEP = log2(4 / 3)  # half-lives in which a quarter is lost: then it is time to look again
SOONEST = timedelta(hours=1)  # no memory is looked at more often by itself
NEVER = datetime(9998, 1, 1, tzinfo=UTC)
UNIMPORTANT = 0.5  # what is less important than that, and was never used, goes with the years
SUMMARY = "summary"  # the source of what was written to stand for others
FAINT = 0.3  # what is less sure than that is found by a search, and told by nobody unasked
DOUBTED_AFTER: Mapping[Kind, int] = {Kind.PROGRESS: 7, Kind.CONTEXT: 30}  # days in which confidence runs out


@dataclass(frozen=True, slots=True)
class LifecycleRules:
    """The settings of `life` at the level that `retention` sets; `Settings.lifecycle_rules` makes them."""

    stale_days: Mapping[Kind, int]
    other_stale_days: int
    hot_days: int  # unused for so long, a hot memory is warm
    archive_below: float  # only what has faded below this importance is archived
    keep_archived_days: int  # then it is removed; 0 keeps it for good
    anchor_uses: int
    anchor_importance: float
    unused_days: int  # never used for so long, what is unimportant is archived all the same; 0: never
    keeps_all: bool = False  # nothing fades, is merged, archived or removed by itself
    youngest_days: int = 21  # nothing younger is archived


class Fate(StrEnum):
    """What becomes of a memory now."""

    STAYS = "stays"
    ARCHIVED = "archived"
    ERASED = "erased"


def stale_after(kind: Kind, life: LifecycleRules) -> timedelta:
    """Unused for so long, a memory of that kind is stale."""
    return _days(life.stale_days.get(kind, life.other_stale_days))


def unused_since(memory: Memory) -> datetime:
    """An amended memory is as good as a used one."""
    return max(memory.created, memory.updated, memory.last_used or memory.created)


def is_working(memory: Memory) -> bool:
    """Whether it ends with its conversation, and by nothing else."""
    return bool(memory.metadata.get(SESSION_ONLY))


def is_kept_for_good(memory: Memory) -> bool:
    """Whether somebody, or its use, has made it one that stays: nothing retires or lowers it by itself."""
    return memory.anchor or memory.tier is Tier.PERMANENT


def is_exempt(memory: Memory) -> bool:
    """Whether it is kept as it is, whatever the time: never faded, never cold, never gone."""
    return is_kept_for_good(memory) or memory.kind in NEVER_FORGOTTEN or is_wanted(memory)


def stands_for_others(memory: Memory) -> bool:
    """Whether it was written to stand for others, which may be in the archive: then it is what is left of them."""
    return memory.provenance.source == SUMMARY and bool(memory.merged_from)


def is_part(memory: Memory) -> bool:
    """Whether it is a piece of a whole, such as a document: it grows cold, but doesn't go alone."""
    return memory.provenance.position is not None or any(name in memory.metadata for name in PART_OF_WHOLE)


def is_unswept(memory: Memory) -> bool:
    """Whether no sweep has seen it as it is worded now.

    A sweep sets a date beyond the moment that it notes; what came from before there were sweeps has the same for both.
    """
    if memory.decayed is None or memory.updated > memory.decayed:
        return True
    return memory.review is not None and memory.review <= memory.decayed


def is_going(memory: Memory) -> bool:
    """Whether it is on its way out of the archive for good: nothing else is forgotten from being forgotten."""
    return memory.status is Status.FORGOTTEN and memory.previous_status is Status.FORGOTTEN


def may_be_erased(memory: Memory) -> bool:
    """Whether it may go for good once it was archived for long enough."""
    return _may_be_archived(memory) or is_working(memory)


def is_stale(memory: Memory, now: datetime, life: LifecycleRules) -> bool:
    """Whether nobody has used it, or found it worth keeping, for as long as its kind is good."""
    if memory.status is not Status.ACTIVE or is_exempt(memory) or is_working(memory):
        return False
    return now - _known_good(memory) >= stale_after(memory.kind, life)


def tier_at(memory: Memory, now: datetime, life: LifecycleRules) -> Tier:
    """How warm it is to be kept: hot until it rests, warm until it is stale, then cold. Only use makes it hot again."""
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


def faded(memory: Memory, now: datetime, life: LifecycleRules) -> float:
    """Its importance now: halved each half-life that it rests, `memory.decayed` counted already.

    What is used now and then rests for less than `hot_days` and keeps all of it.
    """
    if life.keeps_all or not _fades(memory):
        return memory.importance
    days = (now - _fading_from(memory, life)) / timedelta(days=1)
    if days <= 0:
        return memory.importance
    left: float = memory.importance * 2.0 ** (-days / half_life(memory, life))
    return min(memory.importance, max(FLOOR, left))


def half_life(memory: Memory, life: LifecycleRules) -> float:
    """In days; longer the more often it was used."""
    return (stale_after(memory.kind, life) / timedelta(days=1)) * (1.0 + log(max(memory.uses, 1)))


def fate_of(memory: Memory, now: datetime, life: LifecycleRules) -> tuple[Fate, str]:
    """Whether it goes, and why, in words. Nothing is erased that was not archived for `keep_archived_days` before.

    Nothing is archived that nobody has judged yet, and its time counts from then at the earliest.
    """
    if is_going(memory):
        return Fate.ERASED, "archived for long enough; an earlier run was broken off"
    if life.keeps_all:
        return Fate.STAYS, ""
    if memory.status is Status.ARCHIVED and _erased_at(memory, life) is not None:
        rested = now - _archived_at(memory)
        if rested >= _days(life.keep_archived_days):
            return Fate.ERASED, f"archived for {rested.days} days and not asked for"
    elif memory.status is Status.ACTIVE and memory.verified and _may_be_archived(memory):
        return _fate_at_rest(memory, now, life)
    return Fate.STAYS, ""


def _fate_at_rest(memory: Memory, now: datetime, life: LifecycleRules) -> tuple[Fate, str]:
    """Of one that was judged, and that nothing keeps."""
    if now - memory.created < _days(life.youngest_days):
        return Fate.STAYS, ""
    idle, unused = now - _known_good(memory), (now - unused_since(memory)).days
    if idle >= _rest(memory, life) and memory.importance < life.archive_below:
        return Fate.ARCHIVED, f"unused for {unused} days, importance faded to {memory.importance:.2f}"
    if _goes_unused(memory, life) and idle >= _days(life.unused_days):
        return Fate.ARCHIVED, f"never used in {unused} days, importance {memory.importance:.2f}"
    return Fate.STAYS, ""


def confidence_at(memory: Memory, now: datetime) -> float:
    """How sure it can be today: what tells of work under way loses it day by day, all other kinds keep it.

    It counts from when it was made, amended or brought back. Of one that was retired the last change is its retirement,
    which makes it no surer: there it counts from when it was made.
    """
    days = DOUBTED_AFTER.get(memory.kind)
    if days is None or is_kept_for_good(memory):
        return memory.confidence
    stands = memory.status in (Status.ACTIVE, Status.QUARANTINED)
    since = max(memory.created, memory.updated) if stands else memory.created
    left = 1.0 - (now - since) / timedelta(days=days)
    return memory.confidence * min(1.0, max(0.0, left))


def doubted_at(memory: Memory, least: float) -> datetime | None:
    """When its confidence falls below that by time alone; None where it never will."""
    days = DOUBTED_AFTER.get(memory.kind)
    if days is None or is_kept_for_good(memory) or not memory.confidence:
        return None
    since = max(memory.created, memory.updated)
    return since + timedelta(days=days) * max(0.0, 1.0 - least / memory.confidence)


def utility(importance: float, uses: int) -> float:
    """Worth by importance and use together."""
    return importance * (1.0 + log(max(uses, 1)))


def earns_anchor(memory: Memory, life: LifecycleRules) -> bool:
    """Whether it was used so often, and is so important, that it is to stay for good."""
    return (
        memory.status is Status.ACTIVE
        and not memory.anchor
        and not is_working(memory)
        and memory.uses >= life.anchor_uses
        and memory.importance >= life.anchor_importance
    )


def sunk(memory: Memory) -> float:
    """Its usefulness: one that was shown often, never used and never praised sinks a little with each showing."""
    if memory.shown < SHOWN_IN_VAIN or memory.uses or memory.usefulness > 0:
        return memory.usefulness
    return min(memory.usefulness, max(SINKS_TO, -SINKS_BY * (memory.shown - SHOWN_IN_VAIN + 1)))


def next_review(memory: Memory, now: datetime, life: LifecycleRules) -> datetime:
    """When something will change by time alone, of a memory that was seen to just now; NEVER if nothing will.

    Always later than `now`; each memory comes up a few times in its life, and no more often the more there are.
    """
    moments = [moment for moment in _moments(memory, now, life) if moment > now]
    return max(min(moments), now + SOONEST) if moments else NEVER


def _moments(memory: Memory, now: datetime, life: LifecycleRules) -> list[datetime]:
    if memory.status is Status.ARCHIVED:
        gone = _erased_at(memory, life)
        return [gone] if gone else []
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
        moments.append(start + timedelta(days=min(LONGEST_DAYS, STEP * half_life(memory, life))))
    if _may_be_archived(memory):
        good = _known_good(memory) if memory.verified else now
        grown = memory.created + _days(life.youngest_days)
        if memory.importance < life.archive_below:
            moments.append(max(good + _rest(memory, life), grown))
        if _goes_unused(memory, life):
            moments.append(max(good + _days(life.unused_days), grown))
    return moments


def _days(number: float) -> timedelta:
    return timedelta(days=min(LONGEST_DAYS, number))


def _known_good(memory: Memory) -> datetime:
    return max(unused_since(memory), memory.verified or memory.created)


def _fades(memory: Memory) -> bool:
    return memory.status is Status.ACTIVE and not is_exempt(memory) and not is_working(memory)


def _fading_from(memory: Memory, life: LifecycleRules) -> datetime:
    rested = unused_since(memory) + _days(life.hot_days)
    return max(rested, memory.decayed) if memory.decayed else rested


def _may_be_archived(memory: Memory) -> bool:
    whole = not is_part(memory) and not stands_for_others(memory)
    return whole and not is_exempt(memory) and not is_working(memory)


def _rest(memory: Memory, life: LifecycleRules) -> timedelta:
    """Unused for so long, what has faded is archived. What somebody came back to may be wanted again a year later."""
    rest = 2 * stale_after(memory.kind, life)
    return max(rest, _days(life.unused_days)) if memory.uses else rest


def _goes_unused(memory: Memory, life: LifecycleRules) -> bool:
    return life.unused_days > 0 and not memory.uses and memory.importance < UNIMPORTANT


def _archived_at(memory: Memory) -> datetime:
    """Looked at since, it stays from then on."""
    return max(memory.updated, memory.last_used or memory.updated)


def _erased_at(memory: Memory, life: LifecycleRules) -> datetime | None:
    if not life.keep_archived_days or not may_be_erased(memory):
        return None
    return _archived_at(memory) + _days(life.keep_archived_days)


PARTS_KEY = "parts"  # in the metadata of a long message: how many there are
YOUNGEST = timedelta(days=21)  # nothing younger is taken away by a rule of retention, whatever is set
STARTS_AT, ENDS_AT = 0.9, 0.8  # shares of a limit: from there on it is compressed, down to there


def is_message(memory: Memory) -> bool:
    """Whether it was said in a conversation, in whichever log; a later part of a long message too."""
    return (
        memory.kind is Kind.EPISODE and ROLE in memory.metadata and memory.provenance.conversation is not None
    )


def may_go(memory: Memory, now: datetime, *, after: timedelta = YOUNGEST) -> bool:
    """Whether a rule may archive it at all: active, at rest for so long, and nothing that is kept whatever happens.

    What was brought back, used or amended rests from then.
    """
    if memory.status is not Status.ACTIVE or is_protected(memory):
        return False
    return now - unused_since(memory) >= max(after, YOUNGEST)


def is_protected(memory: Memory) -> bool:
    """What no rule takes: kept for good, wanted, standing for others, or working memory, which ends otherwise."""
    return is_exempt(memory) or stands_for_others(memory) or is_working(memory)


def is_loose(memory: Memory) -> bool:
    """Whether it may go alone: it is no piece of a document or of a long message, nor a project's summary.

    A message whose conversation is too short for a summary counts as what it says.
    """
    return not is_part(memory) or (
        is_message(memory) and memory.metadata.keys().isdisjoint((PART_KEY, PARTS_KEY))
    )


def retention_worth(memory: Memory) -> tuple[float, datetime, str]:
    """By this the least valuable come first: what is neither important nor used, the longest unused of it."""
    return round(utility(memory.importance, memory.uses) + memory.uses, 6), unused_since(memory), memory.id


@dataclass(frozen=True, slots=True)
class RetentionRoom:
    """How much there is, and how much there may be; 0 is no limit."""

    items: int  # active memories
    all_items: int  # those in the archive, and what else isn't active, too
    bytes_used: int  # by all of them
    most_items: int = 0
    most_bytes: int = 0

    @property
    def active_bytes(self) -> float:
        """What the active ones take up, about: a store knows only of all of them together."""
        return self.bytes_used * self.items / self.all_items if self.all_items else 0.0

    @property
    def fullest(self) -> float:
        """The share of the nearer limit that is taken."""
        shares = [
            self.items / self.most_items if self.most_items else 0.0,
            self.active_bytes / self.most_bytes if self.most_bytes else 0.0,
        ]
        return max(shares)

    @property
    def tight(self) -> bool:
        """Whether it is time to compress: before a limit is hit."""
        return self.fullest >= STARTS_AT

    def to_free(self) -> int:
        """How many of the active ones have to go so that there is room again; 0 where there is."""
        if not self.tight:
            return 0
        return max(0, ceil(self.items * (1 - ENDS_AT / self.fullest)))
