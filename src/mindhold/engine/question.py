"""What is asked of recall, checked, and the filter that it means."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from mindhold.engine.checks import bare_tags, checked_moment
from mindhold.engine.core import LEAST_TRUST, Engine
from mindhold.engine.reach import everywhere, reach
from mindhold.engine.text.clean import clean
from mindhold.engine.timeframe import Timeframe
from mindhold.engine.timeline import timeframe_of
from mindhold.model.errors import InvalidInput
from mindhold.model.link import DEFAULT_FOLLOWED, Relation
from mindhold.model.memory import Kind, Status
from mindhold.model.query import Filter

LONGEST_QUERY = 8_000  # characters, the keywords included
MOST_KEYWORDS = 500
MOST_HITS = 200


@dataclass(frozen=True, slots=True)
class Question:
    """What to recall. `when` is a phrase of time that filters; one inside the text only prefers.

    `minimum_similarity` is a cosine, asked of what vectors found: what has a keyword is exempt, and so is what has no
    vector. Who asks for what is quarantined asks for what isn't trusted.
    """

    text: str = ""
    keywords: tuple[str, ...] = ()
    scope: str | None = None
    everywhere: bool = False
    among: tuple[str, ...] = ()  # which scopes everywhere means; all that are switched on when none is named
    conversation: str | None = None
    scope_only: bool = False
    tags: tuple[str, ...] = ()
    tags_any: bool = False
    kinds: tuple[Kind, ...] = ()
    topic: str | None = None
    statuses: tuple[Status, ...] = (Status.ACTIVE,)
    when: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    limit: int | None = None
    token_budget: int | None = None
    floor: float | None = None
    minimum_similarity: float | None = None
    minimum_trust: float = LEAST_TRUST
    with_links: bool = False
    relations: tuple[Relation, ...] = DEFAULT_FOLLOWED
    neighbours: int = 0
    count_use: bool = True
    explained: bool = True  # why each answers, and what contradicts it

    @property
    def words(self) -> str:
        """The text as it is looked for."""
        return clean(self.text).strip()

    @property
    def asked(self) -> str:
        """Text and keywords together; empty where only filters are stated."""
        return " ".join([self.words, *self.keywords]).strip()


def check(question: Question) -> None:
    """Raises InvalidInput for what can't be asked."""
    if not question.asked and not _filters(question):
        raise InvalidInput(
            "There is nothing to look for.", advice="Give a question, keywords, or something to filter by."
        )
    if (number := len(question.keywords)) > MOST_KEYWORDS:
        raise InvalidInput(
            f"There are {number:,} keywords; at most {MOST_KEYWORDS:,} are looked for.",
            advice="Name those that matter.",
        )
    if (length := len(question.asked)) > LONGEST_QUERY:
        both = " and its keywords have" if question.keywords else " has"
        raise InvalidInput(
            f"The question{both} {length:,} characters; at most {LONGEST_QUERY:,} are read.",
            advice="Shorten it.",
        )
    if question.limit is not None and not 1 <= question.limit <= MOST_HITS:
        raise InvalidInput(f"The limit is {question.limit}; it must be between 1 and {MOST_HITS}.")
    if question.token_budget is not None and question.token_budget < 1:
        raise InvalidInput("The token budget must be at least 1.")


def _filters(question: Question) -> bool:
    stated = (question.scope, question.topic, question.when, question.since, question.until)
    chosen = question.tags or question.kinds or question.statuses != (Status.ACTIVE,)
    return bool(chosen) or any(condition is not None for condition in stated)


async def filter_of(engine: Engine, question: Question, *, agent: str) -> tuple[Filter, Timeframe | None]:
    """The filter, and the time that a phrase named. Raises UnknownTime, ScopeNotFound."""
    timeframe = timeframe_of(engine, question.when) if question.when else None
    starts = [
        checked_moment(engine, moment) for moment in (question.since, timeframe and timeframe.start) if moment
    ]
    ends = [
        checked_moment(engine, moment) for moment in (question.until, timeframe and timeframe.end) if moment
    ]
    if question.everywhere:
        scopes = question.among or await everywhere(engine)
    else:
        scopes = await reach(engine, question.scope)
    if question.scope_only and not question.everywhere:
        scopes = scopes[:1]
    where = Filter(
        viewer=agent,
        scopes=scopes,
        kinds=question.kinds,
        statuses=question.statuses,
        tags=bare_tags(question.tags),
        tags_any=question.tags_any,
        topic=question.topic,
        conversation=question.conversation,
        since=max(starts, default=None),
        until=min(ends, default=None),
        minimum_trust=0.0 if Status.QUARANTINED in question.statuses else question.minimum_trust,
    )
    return where, timeframe
