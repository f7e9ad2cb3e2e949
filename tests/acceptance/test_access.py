"""Who may come in: keys, grants, visits, and what a caller who is bound to scopes is given."""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from front_door import Open, at, on_disk, run, stored

from mindhold.access import client_sessions, keys, oauth
from mindhold.access.keys import CreatedKey
from mindhold.access.oauth import FoundToken, GrantedCode, TokenPair
from mindhold.app.application import App
from mindhold.model.errors import (
    Conflict,
    ContentTooLarge,
    InvalidInput,
    MemoryNotFound,
    MindholdError,
    NotFound,
    Refused,
    ScopeNotFound,
)
from mindhold.model.scope import Caller
from mindhold.operation_index import MODULES, operation
from mindhold.operations import Operation

BACK = "https://client.example/back"
CHALLENGE = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
CLIENT = {
    "client_id": "c1",
    "client_name": "A client",
    "redirect_uris": [BACK],
    "grant_types": ["refresh_token"],
}
WISH = {
    "state": "st",
    "scopes": ["memory", "more"],
    "code_challenge": CHALLENGE,
    "redirect_uri": BACK,
    "redirect_uri_provided_explicitly": True,
    "resource": "http://127.0.0.1:3333/mcp",
}


async def made_key(app: App, name: str = "laptop", **fields: Any) -> CreatedKey:
    return await run(app, keys.CREATE_KEY, name=name, **fields)


async def opens(app: App, key: str) -> bool:
    return (await run(app, keys.CHECK_KEY, key=key)).found


async def asked(app: App, **wish: Any) -> str:
    """A ticket for a client's wish; the client is registered if it isn't yet."""
    if not (await run(app, oauth.FIND_CLIENT, id="c1")).found:
        await run(app, oauth.SAVE_CLIENT, client=CLIENT)
    return (await run(app, oauth.OPEN_CONSENT, client_id="c1", params=WISH | wish)).ticket


async def granted(app: App, **wish: Any) -> str:
    """A code."""
    answer: GrantedCode = await run(app, oauth.GRANT_CODE, ticket=await asked(app, **wish))
    assert answer.code is not None
    return answer.code


async def let_in(app: App) -> TokenPair:
    return await run(app, oauth.REDEEM_CODE, code=await granted(app), client_id="c1")


async def holds(app: App, token: str) -> bool:
    return (await run(app, oauth.CHECK_TOKEN, token=token)).found


def now() -> datetime:
    return datetime.now(UTC)


class TestKeys:
    """Made once, checked by their hash, ended at once."""

    async def test_a_key_says_whose_it_is(self, app: App) -> None:
        await app.run(operation("create_scope"), operation("create_scope").takes(name="work"))
        made = await made_key(app, agent="ci", scopes=["work", "work"], access="read", expires_days=3)
        assert made.key.startswith("rk_")
        assert len(made.key) == 46
        found = await run(app, keys.CHECK_KEY, key=made.key)
        assert found.model_dump() == {
            "found": True,
            "id": made.id,
            "name": "laptop",
            "agent": "ci",
            "scopes": ["work"],
            "access": "read",
        }
        (listed,) = (await run(app, keys.LIST_KEYS)).keys
        assert listed.model_dump() == made.model_dump(exclude={"key"})
        assert made.expires == made.created + timedelta(days=3)

    async def test_nothing_else_opens(self, app: App) -> None:
        made = await made_key(app)
        [entry] = await app.engine.store.entries("key", now=now())
        hashed = entry.key
        for wrong in (
            "",
            "rk_",
            made.key[:-1],
            made.key + "x",
            made.key.upper(),
            f" {made.key}",
            hashed,
            made.id,
        ):
            assert not await opens(app, wrong), wrong
        assert not await opens(app, "rk_\ud800 é 二" + "x" * 100_000)

    async def test_the_secret_is_nowhere(self, app: App, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.DEBUG)
        made = await made_key(app)
        pair = await let_in(app)
        for secret in (made.key, pair.access_token, pair.refresh_token):
            assert on_disk(app, secret) == []
            assert on_disk(app, secret[3:]) == []
            assert secret not in caplog.text
            assert secret not in repr([made, pair, *(await run(app, keys.LIST_KEYS)).keys])
        given = keys.CHECK_KEY.takes(key=made.key)
        assert made.key not in repr(given)
        with pytest.raises(ValueError, match="unknown") as error:
            keys.CHECK_KEY.takes.model_validate({"key": made.key, "unknown": made.key})
        assert made.key not in str(error.value)

    async def test_ending_one_is_seen_by_another_process(self, app: App, opened: Open) -> None:
        made, kept = await made_key(app), await made_key(app, "another")
        async with opened() as other:
            assert await opens(other, made.key)
            ended = await run(app, keys.REVOKE_KEY, id="laptop")
            assert ended.id == made.id
            assert not await opens(other, made.key)
            assert not await opens(app, made.key)
            assert await opens(other, kept.key)
            with pytest.raises(NotFound):
                await run(other, keys.REVOKE_KEY, id=made.id)

    async def test_by_id_by_its_beginning_and_not_by_many(self, app: App) -> None:
        made = [await made_key(app, f"key {n}") for n in range(3)]
        with pytest.raises(InvalidInput, match="3 keys"):
            await run(app, keys.REVOKE_KEY, id=made[0].id[:2])
        for wrong in ("", " ", "key", "%", made[0].id + "0"):
            with pytest.raises(NotFound):
                await run(app, keys.REVOKE_KEY, id=wrong)
        await run(app, keys.REVOKE_KEY, id=made[0].id)
        await run(app, keys.REVOKE_KEY, id=made[1].id)
        assert [key.name for key in (await run(app, keys.LIST_KEYS)).keys] == ["key 2"]
        await run(app, keys.REVOKE_KEY, id=made[2].id[:-2])
        assert (await run(app, keys.LIST_KEYS)).keys == []

    async def test_an_expired_one_is_none(self, app: App) -> None:
        made = await made_key(app, expires_days=1)
        assert made.expires is not None
        later = at(app, made.expires)
        assert await opens(at(app, made.expires - timedelta(seconds=1)), made.key)
        assert not await opens(later, made.key)
        assert (await run(later, keys.LIST_KEYS)).keys == []
        with pytest.raises(NotFound):
            await run(later, keys.REVOKE_KEY, id=made.id)
        assert (await made_key(later)).name == "laptop", "the name is free again"

    @pytest.mark.parametrize("name", ["", " ", "a\x00b", "a\u202eb", "x" * 101, "rk_abc"])
    async def test_names_that_no_key_has(self, app: App, name: str) -> None:
        with pytest.raises(InvalidInput):
            await made_key(app, name)

    @pytest.mark.parametrize("agent", ["", " ", "admin ", " system", "Admin", "SYSTEM", "a\nb", "x" * 201])
    async def test_nobody_becomes_all_seeing_by_a_slip(self, app: App, agent: str) -> None:
        with pytest.raises(InvalidInput):
            await made_key(app, agent=agent)
        assert (await run(app, keys.LIST_KEYS)).keys == []

    async def test_a_name_is_used_once_and_scopes_must_be(self, app: App) -> None:
        await made_key(app)
        with pytest.raises(Conflict):
            await made_key(app, "Laptop")
        with pytest.raises(ScopeNotFound):
            await made_key(app, "other", scopes=["Global", "nowhere"])
        assert len((await run(app, keys.LIST_KEYS)).keys) == 1

    async def test_a_key_follows_its_scope_and_opens_no_other_of_that_name(self, app: App) -> None:
        create, rename, delete = (operation(f"{verb}_scope") for verb in ("create", "rename", "delete"))
        for name in ("work", "home"):
            await run(app, create, name=name)
        one = await made_key(app, "one", scopes=["work"], access="read", expires_days=9)
        two = await made_key(app, "two", scopes=["work", "home"])
        free = await made_key(app, "free")
        await run(app, rename, name="work", new_name="office")
        await run(app, create, name="work")
        seen = {key.name: key for key in (await run(app, keys.LIST_KEYS)).keys}
        assert {name: key.scopes for name, key in seen.items()} == {
            "one": ["office"],
            "two": ["office", "home"],
            "free": [],
        }
        assert seen["one"].model_dump() == one.model_dump(exclude={"key"}) | {"scopes": ["office"]}
        await run(app, delete, name="office")
        await run(app, create, name="office")
        assert not await opens(app, one.key), "left with no scope it would reach all"
        assert (await run(app, keys.CHECK_KEY, key=two.key)).scopes == ["home"]
        assert (await run(app, keys.CHECK_KEY, key=free.key)).scopes == []


class TestGrants:
    """Consent, code, tokens: each once, and a family ends together."""

    async def test_the_whole_way(self, app: App) -> None:
        ticket = await asked(app)
        question = await run(app, oauth.FIND_CONSENT, ticket=ticket)
        assert question.client["client_name"] == "A client"
        assert question.params == WISH
        answer = await run(app, oauth.GRANT_CODE, ticket=ticket)
        assert (answer.redirect_uri, answer.state) == (BACK, "st")
        code = await run(app, oauth.FIND_CODE, code=answer.code, client_id="c1")
        assert code.found
        assert (code.client_id, code.scopes, code.code_challenge) == ("c1", ["memory", "more"], CHALLENGE)
        assert (code.redirect_uri, code.resource) == (BACK, WISH["resource"])
        assert 0 < code.expires_at - now().timestamp() <= 60
        pair: TokenPair = await run(app, oauth.REDEEM_CODE, code=answer.code, client_id="c1")
        assert pair.access_token.startswith("ra_")
        assert pair.refresh_token.startswith("rr_")
        assert (pair.expires_in, pair.scope, pair.resource) == (3600, "memory more", WISH["resource"])
        token = await run(app, oauth.CHECK_TOKEN, token=pair.access_token)
        assert (token.client_id, token.scopes, token.resource) == ("c1", ["memory", "more"], WISH["resource"])
        assert 3590 < token.expires_at - now().timestamp() <= 3600
        (grant,) = (await run(app, oauth.LIST_GRANTS)).grants
        assert (grant.id, grant.client_name) == (token.family, "A client")

    async def test_a_ticket_is_used_once(self, app: App) -> None:
        ticket = await asked(app)
        answers = await asyncio.gather(
            *(run(app, oauth.GRANT_CODE, ticket=ticket) for _ in range(5)), return_exceptions=True
        )
        assert sum(isinstance(answer, GrantedCode) for answer in answers) == 1
        assert not (await run(app, oauth.FIND_CONSENT, ticket=ticket)).found

    async def test_the_owner_may_say_no(self, app: App) -> None:
        ticket = await asked(app)
        answer = await run(app, oauth.GRANT_CODE, ticket=ticket, allow=False)
        assert (answer.code, answer.redirect_uri, answer.state) == (None, BACK, "st")
        with pytest.raises(Refused):
            await run(app, oauth.GRANT_CODE, ticket=ticket)
        assert (await run(app, oauth.LIST_GRANTS)).grants == []

    async def test_everything_ends_in_time(self, app: App) -> None:
        start = now()
        ticket = await asked(at(app, start))
        late = at(app, start + timedelta(minutes=10))
        assert not (await run(late, oauth.FIND_CONSENT, ticket=ticket)).found
        with pytest.raises(Refused):
            await run(late, oauth.GRANT_CODE, ticket=ticket)
        code = await granted(at(app, start))
        with pytest.raises(Refused):
            await run(at(app, start + timedelta(seconds=60)), oauth.REDEEM_CODE, code=code)
        pair = await let_in(at(app, start))
        assert await holds(at(app, start + timedelta(minutes=59)), pair.access_token)
        assert not await holds(at(app, start + timedelta(hours=1)), pair.access_token)
        month = at(app, start + timedelta(days=30))
        assert not (await run(month, oauth.FIND_REFRESH, token=pair.refresh_token)).found
        with pytest.raises(Refused):
            await run(month, oauth.REFRESH_GRANT, token=pair.refresh_token)

    async def test_a_grant_ends_after_a_year_however_often_it_was_refreshed(self, app: App) -> None:
        start = now()
        pair = await let_in(at(app, start))
        for days in range(29, 365, 29):
            then = at(app, start + timedelta(days=days))
            pair = await run(then, oauth.REFRESH_GRANT, token=pair.refresh_token)
            assert await holds(then, pair.access_token)
        with pytest.raises(Refused):
            await run(at(app, start + timedelta(days=365)), oauth.REFRESH_GRANT, token=pair.refresh_token)

    async def test_a_code_that_comes_twice_ends_its_tokens(self, app: App, opened: Open) -> None:
        for presented in (oauth.REDEEM_CODE, oauth.FIND_CODE):
            code = await granted(app)
            pair = await run(app, oauth.REDEEM_CODE, code=code)
            bystander = await let_in(app)
            async with opened() as other:
                assert await holds(other, pair.access_token)
                assert not await _accepted(app, presented, code=code)
                assert not await holds(other, pair.access_token)
                with pytest.raises(Refused):
                    await run(other, oauth.REFRESH_GRANT, token=pair.refresh_token)
                assert await holds(other, bystander.access_token)

    async def test_of_many_at_once_one_redeems_and_all_end(self, app: App, opened: Open) -> None:
        code = await granted(app)
        async with opened() as other:
            pairs = await asyncio.gather(
                *(run(each, oauth.REDEEM_CODE, code=code) for _ in range(5) for each in (app, other)),
                return_exceptions=True,
            )
        won = [pair for pair in pairs if isinstance(pair, TokenPair)]
        assert len(won) <= 1
        assert all(isinstance(pair, TokenPair | Refused) for pair in pairs)
        assert [pair for pair in won if await holds(app, pair.access_token)] == []
        assert (await run(app, oauth.LIST_GRANTS)).grants == []

    async def test_refresh_tokens_turn_round(self, app: App) -> None:
        first = await let_in(app)
        found: FoundToken = await run(app, oauth.FIND_REFRESH, token=first.refresh_token, client_id="c1")
        assert (found.found, found.scopes) == (True, ["memory", "more"])
        second = await run(app, oauth.REFRESH_GRANT, token=first.refresh_token, client_id="c1")
        assert len({first.access_token, first.refresh_token, second.access_token, second.refresh_token}) == 4
        assert await holds(app, second.access_token)
        assert second.resource == WISH["resource"]

    @pytest.mark.parametrize("presented", [oauth.REFRESH_GRANT, oauth.FIND_REFRESH], ids=lambda one: one.name)
    async def test_an_old_refresh_token_ends_the_family(
        self, app: App, presented: Operation[Any, Any]
    ) -> None:
        first = await let_in(app)
        second = await run(app, oauth.REFRESH_GRANT, token=first.refresh_token)
        third = await run(app, oauth.REFRESH_GRANT, token=second.refresh_token)
        assert not await _accepted(app, presented, token=first.refresh_token)
        for token in (first.access_token, second.access_token, third.access_token):
            assert not await holds(app, token)
        with pytest.raises(Refused):
            await run(app, oauth.REFRESH_GRANT, token=third.refresh_token)

    async def test_fewer_scopes_never_more(self, app: App) -> None:
        pair = await let_in(app)
        with pytest.raises(InvalidInput):
            await run(app, oauth.REFRESH_GRANT, token=pair.refresh_token, scopes=["memory", "everything"])
        fewer = await run(app, oauth.REFRESH_GRANT, token=pair.refresh_token, scopes=["memory"])
        assert (await run(app, oauth.CHECK_TOKEN, token=fewer.access_token)).scopes == ["memory"]
        again = await run(app, oauth.REFRESH_GRANT, token=fewer.refresh_token)
        assert again.scope == "memory more"

    async def test_another_clients_try_changes_nothing(self, app: App) -> None:
        await run(app, oauth.SAVE_CLIENT, client=CLIENT | {"client_id": "c2"})
        code = await granted(app)
        assert not await _accepted(app, oauth.FIND_CODE, code=code, client_id="c2")
        assert not await _accepted(app, oauth.REDEEM_CODE, code=code, client_id="c2")
        pair = await run(app, oauth.REDEEM_CODE, code=code, client_id="c1")
        assert not await _accepted(app, oauth.FIND_REFRESH, token=pair.refresh_token, client_id="c2")
        assert not await _accepted(app, oauth.REFRESH_GRANT, token=pair.refresh_token, client_id="c2")
        assert await holds(app, pair.access_token)
        assert await _accepted(app, oauth.REFRESH_GRANT, token=pair.refresh_token, client_id="c1")

    async def test_no_secret_stands_in_for_another(self, app: App) -> None:
        code = await granted(app)
        pair = await let_in(app)
        key = (await made_key(app)).key
        for wrong in (pair.refresh_token, code, key, "", "ra_", pair.access_token[:-1]):
            assert not await holds(app, wrong)
        for wrong in (pair.access_token, code, key):
            assert not (await run(app, oauth.FIND_REFRESH, token=wrong)).found
        assert not await opens(app, pair.access_token)

    @pytest.mark.parametrize("which", ["access_token", "refresh_token", "family"])
    async def test_revoking_ends_all_of_it_everywhere(self, app: App, opened: Open, which: str) -> None:
        pair, other_pair = await let_in(app), await let_in(app)
        family = (await run(app, oauth.CHECK_TOKEN, token=pair.access_token)).family
        token = family if which == "family" else getattr(pair, which)
        async with opened() as other:
            assert await holds(other, pair.access_token)
            assert (await run(app, oauth.REVOKE_GRANT, token=token)).revoked
            assert not await holds(other, pair.access_token)
            assert not (await run(other, oauth.FIND_REFRESH, token=pair.refresh_token)).found
            assert await holds(other, other_pair.access_token)
            assert not (await run(app, oauth.REVOKE_GRANT, token=token)).revoked
            assert not (await run(app, oauth.REVOKE_GRANT, token="ra_unknown")).revoked

    async def test_a_client_is_kept_without_a_secret(self, app: App) -> None:
        secret = "s3cret" * 8
        kept = await run(
            app,
            oauth.SAVE_CLIENT,
            client=CLIENT | {"client_secret": secret, "token_endpoint_auth_method": "client_secret_post"},
        )
        assert kept.client["token_endpoint_auth_method"] == "none"
        assert "client_secret" not in kept.client
        assert on_disk(app, secret) == []
        assert (await run(app, oauth.FIND_CLIENT, id="c1")).client == kept.client
        with pytest.raises(Conflict):
            await run(app, oauth.SAVE_CLIENT, client=CLIENT)

    async def test_questions_to_the_owner_do_not_pile_up(
        self, app: App, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def is_open(ticket: str) -> bool:
            return (await run(app, oauth.FIND_CONSENT, ticket=ticket)).found

        start = now()
        tickets = [
            await asked(at(app, start + timedelta(seconds=n))) for n in range(oauth.MOST_OF_CLIENT + 3)
        ]
        assert [await is_open(ticket) for ticket in tickets] == [False] * 3 + [True] * oauth.MOST_OF_CLIENT
        monkeypatch.setattr(oauth, "MOST_CONSENTS", oauth.MOST_OF_CLIENT)
        await run(app, oauth.SAVE_CLIENT, client=CLIENT | {"client_id": "c2"})
        later = at(app, start + timedelta(minutes=1))
        other = (await run(later, oauth.OPEN_CONSENT, client_id="c2", params=WISH)).ticket
        assert sum([await is_open(ticket) for ticket in tickets]) == oauth.MOST_OF_CLIENT - 1
        assert await is_open(other)

    async def test_the_owner_may_grant_less(self, app: App) -> None:
        answer = await run(
            app, oauth.GRANT_CODE, ticket=await asked(app), scopes=["memory", "everything else"]
        )
        pair = await run(app, oauth.REDEEM_CODE, code=answer.code)
        assert pair.scope == "memory"
        with pytest.raises(InvalidInput):
            await run(app, oauth.REFRESH_GRANT, token=pair.refresh_token, scopes=["memory", "more"])

    async def test_a_client_whose_grants_ended_makes_room(
        self, app: App, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        pair = await let_in(app)
        monkeypatch.setattr(oauth, "MOST_CLIENTS", 1)
        newcomer = CLIENT | {"client_id": "c2"}
        with pytest.raises(Refused, match="Too many clients"):
            await run(app, oauth.SAVE_CLIENT, client=newcomer)
        await run(app, oauth.REVOKE_GRANT, token=pair.access_token)
        await run(app, oauth.SAVE_CLIENT, client=newcomer)
        assert not (await run(app, oauth.FIND_CLIENT, id="c1")).found

    async def test_a_client_outlives_its_grant_and_not_much_more(self, app: App) -> None:
        start = now()
        await let_in(at(app, start))
        assert (await run(at(app, start + timedelta(days=366)), oauth.FIND_CLIENT, id="c1")).found
        assert not (await run(at(app, start + timedelta(days=396)), oauth.FIND_CLIENT, id="c1")).found

    async def test_strangers_are_forgotten_and_those_let_in_stay(self, app: App) -> None:
        start = now()
        await run(at(app, start), oauth.SAVE_CLIENT, client=CLIENT | {"client_id": "stranger"})
        await let_in(at(app, start))
        later = at(app, start + timedelta(days=30))
        assert not (await run(later, oauth.FIND_CLIENT, id="stranger")).found
        assert (await run(later, oauth.FIND_CLIENT, id="c1")).found

    @pytest.mark.parametrize(
        "uri",
        [
            "javascript:alert(1)",
            "JavaScript:alert(1)",
            "data:text/html,x",
            "file:///etc/passwd",
            "http://client.example/back",
            "http://127.0.0.1.evil.example/back",
            "http://localhost@evil.example/",
            "https://user:word@client.example/",
            "https://client.example/#x",
            "https:///back",
            "//client.example",
            "back",
            "",
            "https://client.example/a b",
            "java\nscript:alert(1)",
            "https://[::1",
            7,
        ],
    )
    async def test_places_that_no_code_is_sent_to(self, app: App, uri: Any) -> None:
        with pytest.raises(InvalidInput):
            await run(app, oauth.SAVE_CLIENT, client=CLIENT | {"redirect_uris": [BACK, uri]})
        assert not (await run(app, oauth.FIND_CLIENT, id="c1")).found

    @pytest.mark.parametrize(
        "uri",
        ["http://localhost:4321/cb", "http://127.0.0.1/cb", "http://[::1]:9/cb", "com.example.app:/cb", BACK],
    )
    async def test_places_that_codes_are_sent_to(self, app: App, uri: str) -> None:
        await run(app, oauth.SAVE_CLIENT, client=CLIENT | {"redirect_uris": [uri]})

    async def test_registrations_that_say_too_much_or_too_little(self, app: App) -> None:
        with pytest.raises(ContentTooLarge):
            await run(app, oauth.SAVE_CLIENT, client=CLIENT | {"client_name": "x" * 20_000})
        wrongs: list[dict[str, Any]] = [
            {"client_id": ""},
            {"client_id": 7},
            {"redirect_uris": []},
            {"redirect_uris": None},
        ]
        for wrong in wrongs:
            with pytest.raises(InvalidInput):
                await run(app, oauth.SAVE_CLIENT, client=CLIENT | wrong)

    async def test_wishes_that_cannot_be(self, app: App) -> None:
        await asked(app)
        for wish, error in (
            ({"code_challenge": ""}, InvalidInput),
            ({"code_challenge": "plain" * 10}, InvalidInput),
            ({"code_challenge": CHALLENGE[:-1] + "="}, InvalidInput),
            ({"redirect_uri": "https://evil.example/"}, Refused),
            ({"redirect_uri": None}, Refused),
            ({"scopes": "memory"}, InvalidInput),
            ({"state": 7}, InvalidInput),
            ({"state": "x" * 2_001}, ContentTooLarge),
            ({"resource": "x" * 9_000}, ContentTooLarge),
        ):
            with pytest.raises(error):
                await asked(app, **wish)
        with pytest.raises(NotFound):
            await run(app, oauth.OPEN_CONSENT, client_id="nobody", params=WISH)


class TestVisits:
    """They outlive a restart, and nobody goes on with another's."""

    async def test_another_server_goes_on_with_it(self, opened: Open) -> None:
        given = {
            "id": "visit-1",
            "owner": "key:1",
            "protocol_version": "2025-11-25",
            "client": {"name": "x", "capabilities": {"sampling": {}}},
        }
        async with opened() as app:
            kept = await run(app, client_sessions.KEEP_VISIT, **given, ttl_minutes=5)
            assert timedelta(minutes=4) < kept.expires - now() <= timedelta(minutes=5)
            assert on_disk(app, "visit-1") == []
        async with opened() as app:
            found = await run(app, client_sessions.FIND_VISIT, id="visit-1")
            assert found.found
            assert found.model_dump(exclude={"found"}) == {k: v for k, v in given.items() if k != "id"}
            assert not (await run(app, client_sessions.FIND_VISIT, id="visit-2")).found
            assert (await run(app, client_sessions.END_VISIT, id="visit-1")).ended
            assert not (await run(app, client_sessions.END_VISIT, id="visit-1")).ended
            assert not (await run(app, client_sessions.FIND_VISIT, id="visit-1")).found

    async def test_keeping_makes_it_longer(self, app: App) -> None:
        start = now()
        visit = {"id": "v", "owner": "o", "protocol_version": "1", "ttl_minutes": 10}
        await run(at(app, start), client_sessions.KEEP_VISIT, **visit)
        await run(at(app, start + timedelta(minutes=9)), client_sessions.KEEP_VISIT, **visit)
        assert (await run(at(app, start + timedelta(minutes=18)), client_sessions.FIND_VISIT, id="v")).found
        assert not (
            await run(at(app, start + timedelta(minutes=19)), client_sessions.FIND_VISIT, id="v")
        ).found

    async def test_nobody_takes_over_anothers(self, app: App) -> None:
        visit = {"id": "v", "protocol_version": "1"}
        await run(app, client_sessions.KEEP_VISIT, **visit, owner="ada")
        with pytest.raises(Refused):
            await run(app, client_sessions.KEEP_VISIT, **visit, owner="mallory")
        assert (await run(app, client_sessions.FIND_VISIT, id="v")).owner == "ada"

    async def test_what_no_visit_has(self, app: App) -> None:
        visit = {"id": "v", "owner": "o", "protocol_version": "1"}
        for wrong in ({"id": ""}, {"id": "x" * 201}, {"client": {"x": "y" * 20_000}}, {"owner": "x" * 501}):
            with pytest.raises(InvalidInput):
                await run(app, client_sessions.KEEP_VISIT, **visit | wrong)


class TestGate:
    """What a caller is given who isn't the owner."""

    @pytest.mark.parametrize(
        "name", [name for name, module in MODULES.items() if module.startswith("mindhold.access.")]
    )
    async def test_access_is_the_owners(self, app: App, name: str) -> None:
        found = operation(name)
        guest = Caller("ada", bound=True, owner=False)
        with pytest.raises(Refused):
            await app.run(found, found.takes.model_construct(), caller=guest)
        with pytest.raises(Refused):
            await app.run(found, found.takes.model_construct(), caller=Caller(scopes=("work",)))

    async def test_who_may_only_read_writes_nothing(self, app: App) -> None:
        reader = Caller(writes=False)
        remember, lists = operation("remember"), operation("list")
        with pytest.raises(Refused, match="only read"):
            await app.run(remember, remember.takes(content="The quay is closed"), caller=reader)
        assert (await app.run(lists, lists.takes(), caller=reader)).memories == []

    @pytest.mark.parametrize(
        "guest", [Caller("ada", bound=True), Caller(scopes=("work",)), Caller(owner=False)], ids=str
    )
    async def test_the_machines_own_conversations_are_the_owners(
        self, app: App, home: Path, guest: Caller
    ) -> None:
        folder = home.parent / "claude" / "projects" / "-quay"
        folder.mkdir(parents=True)
        said = {"type": "user", "cwd": "/quay", "message": {"role": "user", "content": "The quay is closed"}}
        line = said | {"sessionId": "s1", "timestamp": "2026-01-05T09:00:00Z"}
        (folder / "s1.jsonl").write_text(json.dumps(line), encoding="utf-8")
        await run(app, operation("create_scope"), name="work")
        projects = operation("history_projects")
        assert (await run(app, projects)).total_sessions == 1
        assert (await app.run(projects, projects.takes(), caller=guest)).total_sessions == 0


async def _accepted(app: App, presented: Operation[Any, Any], **given: Any) -> bool:
    """Whether the operation found or gave anything."""
    try:
        answer = await run(app, presented, **given)
    except Refused:
        return False
    return bool(getattr(answer, "found", True))


class TestScopes:
    """A caller who is bound to a scope, through the operations."""

    @pytest.fixture
    async def parted(self, app: App) -> tuple[App, dict[str, str]]:
        for name in ("work", "home"):
            await run(app, operation("create_scope"), name=name)
        ids = {
            "work": await stored(
                app, "The deploy key of work rotates on Mondays", scope="work", tags=["duty"]
            ),
            "home": await stored(
                app, "The zanzibar safe at home opens at noon", scope="home", tags=["zanzibar"]
            ),
            "global": await stored(app, "Everyone hears the zanzibar bell", tags=["zanzibar"]),
        }
        return app, ids

    async def as_guest(self, app: App, name: str, /, **fields: Any) -> Any:
        found = operation(name)
        return await app.run(
            found, found.takes(**fields), caller=Caller("default", scopes=("work",), owner=False)
        )

    @pytest.mark.parametrize(
        ("name", "fields"),
        [
            ("recall", {"query": "zanzibar safe bell deploy"}),
            ("recall", {"query": "zanzibar", "everywhere": True}),
            ("list", {}),
            ("tags", {}),
            ("timeline", {}),
            ("list_scopes", {}),
            ("context", {}),
            ("stats", {}),
            ("status", {}),
        ],
        ids=str,
    )
    async def test_reading_shows_work_alone(
        self, parted: tuple[App, dict[str, str]], name: str, fields: dict[str, Any]
    ) -> None:
        app, ids = parted
        answer = repr(await self.as_guest(app, name, **fields))
        for hidden in ("bell", "safe", ids["home"], ids["global"], "'home'"):
            assert hidden not in answer, name
        assert str(app.loaded.settings.database) not in answer

    async def test_by_id_and_by_name_nothing_else_is_there(self, parted: tuple[App, dict[str, str]]) -> None:
        app, ids = parted
        for hidden in (ids["home"], ids["global"]):
            for name, fields in (
                ("show", {"id": hidden}),
                ("amend", {"id": hidden, "content": "taken over"}),
                ("forget", {"ids": [hidden]}),
                ("forget", {"ids": [hidden], "hard": True, "force": True}),
                ("link", {"origin": ids["work"], "target": hidden}),
            ):
                with pytest.raises(MemoryNotFound):
                    await self.as_guest(app, name, **fields)
        for name, fields in (
            ("recall", {"query": "safe", "scope": "home"}),
            ("remember", {"content": "A note that is smuggled in", "scope": "home"}),
            ("remember", {"content": "A note that is smuggled in", "scope": "Global"}),
            ("show_scope", {"name": "home"}),
            ("change_scope", {"name": "home", "description": "mine"}),
        ):
            with pytest.raises(ScopeNotFound):
                await self.as_guest(app, name, **fields)
        for name, fields in (
            ("create_scope", {"name": "another"}),
            ("rename_scope", {"name": "work", "new_name": "away"}),
            ("delete_scope", {"name": "work"}),
            ("delete_scope", {"name": "home"}),
            ("doctor", {}),
        ):
            with pytest.raises(Refused):
                await self.as_guest(app, name, **fields)
        contents = {memory.id for memory in (await run(app, operation("list"), limit=100)).memories}
        assert contents == set(ids.values())

    async def test_writing_goes_to_work(self, parted: tuple[App, dict[str, str]]) -> None:
        app, ids = parted
        made = await self.as_guest(app, "remember", content="The staging host listens on port 5433")
        shown = await run(app, operation("show"), id=made.id)
        assert shown.memory.scope == "work"
        hits = (await self.as_guest(app, "recall", query="staging port")).hits
        assert made.id in [hit.id for hit in hits]
        await self.as_guest(app, "forget", ids=[ids["work"]])
        left = {memory.id for memory in (await run(app, operation("list"), limit=100)).memories}
        assert left == {ids["home"], ids["global"], made.id}

    async def test_an_export_holds_work_alone(
        self, parted: tuple[App, dict[str, str]], tmp_path: Path
    ) -> None:
        app, ids = parted
        path = tmp_path / "out.jsonl"
        try:
            await self.as_guest(app, "export", path=str(path))
        except MindholdError:
            assert not path.exists()
        else:
            text = path.read_text(encoding="utf-8")
            assert ids["work"] in text
            assert "zanzibar" not in text
            assert ids["home"] not in text

    async def test_a_scope_that_was_renamed_is_out_of_reach(self, parted: tuple[App, dict[str, str]]) -> None:
        app, _ids = parted
        await run(app, operation("rename_scope"), name="work", new_name="office")
        assert (await self.as_guest(app, "list")).memories == []
        with pytest.raises(ScopeNotFound):
            await self.as_guest(app, "remember", content="The quay is closed on Sundays")

    async def test_the_calls_own_scope_is_the_first_or_the_settings(
        self, parted: tuple[App, dict[str, str]]
    ) -> None:
        app, _ids = parted
        remember = operation("remember")
        at_home = replace(app, engine=app.engine.with_settings(scope="home"))
        for each, scopes, expected in (
            (app, ("home", "work"), "home"),
            (at_home, ("work", "home"), "home"),
            (at_home, ("work",), "work"),
        ):
            content = f"A note of {scopes} that goes where it belongs, {expected}"
            made = await each.run(remember, remember.takes(content=content), caller=Caller(scopes=scopes))
            assert (await run(app, operation("show"), id=made.id)).memory.scope == expected
