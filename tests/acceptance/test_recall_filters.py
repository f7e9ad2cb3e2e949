"""Recalling within bounds: scopes, agents, labels, statuses and times."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from front_door import Open, acting, at, found, recall, run, show, stored

from mindhold.app.application import App
from mindhold.memories.filters import LIST, TAGS
from mindhold.memories.timeline import TIMELINE
from mindhold.model.errors import InvalidInput, ScopeNotFound, UnknownTime
from mindhold.projects.scope_operations import CHANGE_SCOPE, CREATE_SCOPE

NOW = datetime(2026, 3, 11, 15, 0, tzinfo=UTC)  # a Wednesday


async def nested_scopes(app: App) -> dict[str, str]:
    """company > team > project, and a sibling of the team; one memory in each and in Global."""
    await run(app, CREATE_SCOPE, name="company")
    await run(app, CREATE_SCOPE, name="team", parent="company")
    await run(app, CREATE_SCOPE, name="project", parent="team")
    await run(app, CREATE_SCOPE, name="sibling", parent="company")
    scopes = ("Global", "company", "team", "project", "sibling")
    return {scope: await stored(app, f"The zebra of {scope} is striped.", scope=scope) for scope in scopes}


async def test_a_scope_sees_itself_its_ancestors_and_global(app: App) -> None:
    ids = await nested_scopes(app)
    seen = await found(app, "zebra striped", scope="project")
    assert set(seen) == {ids[scope] for scope in ("project", "team", "company", "Global")}


async def test_global_sees_only_itself(app: App) -> None:
    ids = await nested_scopes(app)
    assert await found(app, "zebra striped") == [ids["Global"]]


async def test_everywhere_is_everywhere(app: App) -> None:
    ids = await nested_scopes(app)
    assert set(await found(app, "zebra striped", everywhere=True)) == set(ids.values())


async def test_the_answer_says_which_scopes_were_seen(app: App) -> None:
    await nested_scopes(app)
    assert (await recall(app, "zebra", scope="team")).scopes == ["team", "company", "Global"]


async def test_a_deactivated_ancestor_is_not_seen_but_those_above_it_are(app: App) -> None:
    ids = await nested_scopes(app)
    await run(app, CHANGE_SCOPE, name="team", active=False)
    seen = await found(app, "zebra striped", scope="project")
    assert set(seen) == {ids[scope] for scope in ("project", "company", "Global")}


async def test_an_unknown_scope_is_an_error(app: App) -> None:
    with pytest.raises(ScopeNotFound):
        await recall(app, "zebra", scope="nowhere")


async def test_tags_filter_all_of_them_in_any_case(app: App) -> None:
    both = await stored(app, "The first zebra is striped.", tags=["Animal", "Stripes"])
    one = await stored(app, "The second zebra is striped.", tags=["animal"])
    await stored(app, "The third zebra is striped.")
    assert set(await found(app, "zebra", tags=["ANIMAL"])) == {both, one}
    assert await found(app, "zebra", tags=["animal", "stripes"]) == [both]
    assert await found(app, "zebra", tags=["animal", "none"]) == []


async def test_kinds_filter_any_of_them(app: App) -> None:
    ids = {
        kind: await stored(app, f"The zebra as a {kind} is striped.", kind=kind)
        for kind in ("fact", "decision", "error")
    }
    assert await found(app, "zebra", kinds=["decision"]) == [ids["decision"]]
    assert set(await found(app, "zebra", kinds=["fact", "error"])) == {ids["fact"], ids["error"]}


async def test_a_topic_filters_in_any_case(app: App) -> None:
    memory_id = await stored(app, "The first zebra is striped.", topic="Savannah")
    await stored(app, "The second zebra is striped.", topic="zoo")
    assert await found(app, "zebra", topic="savannah") == [memory_id]


async def test_times_filter_from_and_until(app: App) -> None:
    ids = [
        await stored(app, f"Zebra number {day} was seen.", occurred=datetime(2026, 1, day, tzinfo=UTC))
        for day in (1, 2, 3)
    ]
    since, until = datetime(2026, 1, 2, tzinfo=UTC), datetime(2026, 1, 3, tzinfo=UTC)
    assert set(await found(app, "zebra seen", since=since)) == set(ids[1:])
    assert set(await found(app, "zebra seen", until=until)) == set(ids[:2])
    assert await found(app, "zebra seen", since=since, until=until) == [ids[1]]


async def test_times_without_a_zone_are_the_persons(opened: Open) -> None:
    async with opened(time_zone="Asia/Seoul") as app:
        early = await stored(app, "Zebra was seen early.", occurred=datetime(2026, 1, 1, 14, 0, tzinfo=UTC))
        late = await stored(app, "Zebra was seen late.", occurred=datetime(2026, 1, 1, 16, 0, tzinfo=UTC))
        midnight = datetime(2026, 1, 2)
        assert await found(app, "zebra seen", since=midnight) == [late]
        assert await found(app, "zebra seen", until=midnight) == [early]


async def test_a_phrase_and_a_time_both_hold(app: App) -> None:
    await stored(app, "Zebra was seen on Monday.", occurred=datetime(2026, 3, 2, 12, tzinfo=UTC))
    friday = await stored(app, "Zebra was seen on Friday.", occurred=datetime(2026, 3, 6, 12, tzinfo=UTC))
    since = datetime(2026, 3, 5, tzinfo=UTC)
    assert await found(at(app, NOW), "zebra seen", when="last week", since=since) == [friday]


async def test_an_agent_sees_its_own_and_the_defaults_but_no_other_agents(app: App) -> None:
    ids = {
        agent: await stored(acting(app, agent), f"The zebra of {agent} is striped.")
        for agent in ("default", "ada", "grace")
    }
    assert set(await found(acting(app, "ada"), "zebra striped")) == {ids["ada"], ids["default"]}
    assert set(await found(acting(app, "grace"), "zebra striped")) == {ids["grace"], ids["default"]}
    assert await found(app, "zebra striped") == [ids["default"]]
    for agent in ("system", "admin"):
        assert set(await found(acting(app, agent), "zebra striped")) == set(ids.values())


async def test_an_agents_words_do_not_leak_by_count_list_tags_or_links(app: App) -> None:
    ada, grace = acting(app, "ada"), acting(app, "grace")
    shared = await stored(app, "The zebra is everyone's.")
    secret = await stored(ada, "The zebra of Ada hides.", tags=["hidden"], linked_to=[shared])
    assert (await recall(grace, "zebra")).considered == 1
    assert [memory.id for memory in (await run(grace, LIST)).memories] == [shared]
    assert (await run(grace, TAGS)).tags == {}
    assert (await show(grace, shared)).links == []
    assert [one.id for one in (await show(ada, shared)).links] == [secret]
    [hit] = (await recall(grace, "zebra everyone", links=True)).hits
    assert hit.links == []


async def test_statuses_filter(app: App) -> None:
    old = await stored(app, "We use PostgreSQL for the store.")
    new = await stored(app, "we use PostgreSQL for the store")
    assert await found(app, "PostgreSQL") == [new]
    assert await found(app, "PostgreSQL", statuses=["superseded"]) == [old]


async def test_a_phrase_of_time_filters_and_is_told_in_the_persons_zone(opened: Open) -> None:
    async with opened(time_zone="Asia/Seoul") as app:
        inside = await stored(app, "Zebra was seen.", occurred=datetime(2026, 3, 10, 15, 0, tzinfo=UTC))
        await stored(app, "Zebra was seen again.", occurred=datetime(2026, 3, 10, 14, 59, tzinfo=UTC))
        answer = await recall(at(app, NOW), "zebra seen", when="yesterday")
    assert [hit.id for hit in answer.hits] == [inside]
    assert answer.timeframe is not None
    assert answer.timeframe.filters
    # 15:00 in UTC is midnight in Seoul: the 12th has just begun there, yesterday was the 11th.
    assert answer.timeframe.start == datetime(2026, 3, 10, 15, tzinfo=UTC)
    assert answer.timeframe.end == datetime(2026, 3, 11, 15, tzinfo=UTC)
    assert "2026-03-11" in answer.timeframe.words


async def test_last_week_is_last_week(app: App) -> None:
    ids = {
        day: await stored(
            app, f"Zebra number {day} was seen.", occurred=datetime(2026, 3, day, 12, tzinfo=UTC)
        )
        for day in (1, 2, 8, 9)
    }
    for phrase in ("last week", "지난주", "先週", "上周"):
        assert set(await found(at(app, NOW), "zebra seen", when=phrase)) == {ids[2], ids[8]}, phrase


async def test_an_unknown_phrase_of_time_is_an_error(app: App) -> None:
    with pytest.raises(UnknownTime, match="flurbsday"):
        await recall(app, "zebra", when="flurbsday")


async def test_a_phrase_of_time_in_the_question_prefers_but_does_not_filter(app: App) -> None:
    old = await stored(app, "Zebra was seen in the park.", occurred=NOW - timedelta(days=8))
    new = await stored(app, "Zebra was seen in the town.", occurred=NOW - timedelta(hours=1))
    answer = await recall(at(app, NOW), "which zebra was seen last week?")
    assert [hit.id for hit in answer.hits] == [old, new]
    assert answer.timeframe is not None
    assert not answer.timeframe.filters
    assert answer.timeframe.phrase.casefold() == "last week"


async def test_days_are_the_persons(opened: Open) -> None:
    async with opened(time_zone="Asia/Seoul") as app:
        await stored(app, "Zebra was seen early.", occurred=datetime(2026, 1, 1, 14, 0, tzinfo=UTC))
        await stored(app, "Zebra was seen late.", occurred=datetime(2026, 1, 1, 16, 0, tzinfo=UTC))
        days = (await run(app, TIMELINE)).days
    assert [day.date.isoformat() for day in days] == ["2026-01-01", "2026-01-02"]


async def test_filters_alone_give_the_newest(app: App) -> None:
    old = await stored(app, "The zebra eats hay.", tags=["animal"], occurred=NOW - timedelta(days=9))
    new = await stored(app, "The heron eats fish.", tags=["Animal", "bird"], occurred=NOW)
    await stored(app, "The ferry leaves at nine.")
    answer = await recall(app, tags=["animal"])
    assert [hit.id for hit in answer.hits] == [new, old]
    assert {(hit.score, hit.layer, hit.similarity, *hit.why) for hit in answer.hits} == {
        (1.0, "filter", None, "filter")
    }
    assert (answer.count, answer.considered, answer.rung) == (2, 2, "filter")
    assert [hit.id for hit in (await recall(app, tags=["animal"], limit=1)).hits] == [new]
    assert [hit.id for hit in (await recall(app, since=NOW - timedelta(days=10), until=NOW)).hits] == [old]
    assert (await recall(app, tags=["animal"], token_budget=3)).tokens <= 3
    assert (await recall(app, scope="Global")).count == 3


async def test_neither_words_nor_filters_are_an_error(app: App) -> None:
    for fields in ({}, {"query": " "}, {"keywords": [""]}, {"everywhere": True}):
        with pytest.raises(InvalidInput, match="nothing to look for"):
            await recall(app, **fields)


async def test_any_of_several_tags(app: App) -> None:
    bird = await stored(app, "The heron eats fish.", tags=["Bird"])
    cat = await stored(app, "The lynx eats hares.", tags=["cat"])
    await stored(app, "The newt eats flies.", tags=["newt"])
    for tags in (["bird", "CAT"], ["bird", "cat", "nothing"]):
        assert set(await found(app, "eats", tags=tags, tags_any=True)) == {bird, cat}
        assert {one.id for one in (await run(app, LIST, tags=tags, tags_any=True)).memories} == {bird, cat}
        assert await found(app, "eats", tags=tags) == []
        assert (await run(app, LIST, tags=tags)).total == 0


async def test_nothing_but_the_scope_itself(app: App) -> None:
    ids = await nested_scopes(app)
    assert await found(app, "zebra striped", scope="team", scope_only=True) == [ids["team"]]
    assert [hit.id for hit in (await recall(app, scope="team", scope_only=True)).hits] == [ids["team"]]


async def test_a_listing_between_two_moments(app: App) -> None:
    ids = [await stored(app, f"Step {n} was taken.", occurred=NOW + timedelta(days=n)) for n in range(4)]
    page = await run(app, LIST, since=NOW + timedelta(days=1), until=NOW + timedelta(days=3), order="oldest")
    assert [memory.id for memory in page.memories] == ids[1:3]
    assert page.total == 2


async def test_what_found_a_memory_is_told(app: App) -> None:
    memory_id = await stored(
        app, "The heron eats fish.", keywords=["pond"], confidence=0.5, anchor=True, importance=0.75
    )
    [hit] = (await recall(app, "heron fish")).hits
    assert (hit.id, hit.layer, hit.access) == (memory_id, "L3", 0)
    assert hit.similarity is not None
    assert 0 < hit.similarity <= 1
    assert (hit.keywords, hit.confidence, hit.anchor, hit.tier) == (["pond"], 0.5, True, "warm")
    assert hit.updated == hit.created
    [hit] = (await recall(app, "heron", keywords=["pond"])).hits
    assert hit.layer == "L1"
    await app.engine.use_counter.flush()
    [hit] = (await recall(app, keywords=["pond"])).hits
    assert (hit.layer, hit.access) == ("L1", 2)
