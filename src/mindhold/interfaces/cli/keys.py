"""`mindhold keys`: API keys and OAuth grants."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mindhold.interfaces.cli.command import Group, with_open_session, words
from mindhold.interfaces.cli.output import local_time, neutral
from mindhold.interfaces.cli.session import OpenSession
from mindhold.model.errors import NotFound
from mindhold.model.scope import DEFAULT_AGENT, PRIVILEGED_AGENTS

if TYPE_CHECKING:
    from mindhold.access.grants import GrantView
    from mindhold.access.keys import KeyView


OPEN = "Keys restrict nobody on this machine until MINDHOLD_ACCESS_KEY is set: who sends none is let in as the owner."


@click.group(
    "keys",
    cls=Group,
    examples=["mindhold keys create laptop", "mindhold keys list", "mindhold keys revoke laptop"],
)
def keys() -> None:
    """Keys for those who come in over HTTP, and the clients that you let in by consent."""


@keys.command(
    "create",
    examples=[
        "mindhold keys create laptop",
        "mindhold keys create 'build server' --for-agent ci --scope work --read-only --days 90",
    ],
)
@click.argument("name")
@click.option(
    "--for-agent", "agent", metavar="NAME", help="It speaks for this agent and no other. Default: default."
)
@words(
    "--scope", "scopes", metavar="NAME", help="Bound to these scopes: it reaches no other, not even Global."
)
@click.option("--read-only", is_flag=True, help="It may look, and change nothing.")
@click.option("--days", "expires_days", type=int, metavar="N", help="It ends after so many days.")
@with_open_session
async def create_key(
    session: OpenSession,
    /,
    *,
    name: str,
    agent: str | None,
    scopes: tuple[str, ...],
    read_only: bool,
    expires_days: int | None,
) -> None:
    """Make a key. It is shown now and never again: the store has only its hash.

    Keys restrict nobody on this machine until MINDHOLD_ACCESS_KEY is set.
    """
    from mindhold.access.keys import CREATE_KEY

    access = "read" if read_only else "write"
    made = await session.run(
        CREATE_KEY, name=name, agent=agent, scopes=scopes, access=access, expires_days=expires_days
    )
    if not session.running.loaded.settings.access_key:
        session.console.warn(OPEN)
    if session.console.json:
        session.console.document(made)
        return
    session.console.line(made.key)
    session.console.note(f"Keep it: it is not shown again. `mindhold keys revoke {made.id}` ends it.")
    if agent in ALL_SEEING:
        session.console.warn(f"Whoever has it sees every agent's memories: {agent} does.")


@keys.command("list", examples=["mindhold keys list --json"])
@with_open_session
async def list_keys(session: OpenSession) -> None:
    """Keys that open the door, and clients that you let in."""
    from mindhold.access.grants import LIST_GRANTS
    from mindhold.access.keys import LIST_KEYS

    found = await session.run(LIST_KEYS)
    let_in = await session.run(LIST_GRANTS)
    if session.console.json:
        session.console.document(found.model_dump(mode="json") | let_in.model_dump(mode="json"))
        return
    rows = [_key_row(session, key) for key in found.keys] + [
        _grant_row(session, one) for one in let_in.grants
    ]
    if rows:
        session.console.table(["id", "name", "for", "scopes", "may", "made", "ends"], rows)
    else:
        session.console.line("No key was made, and no client let in.")


@keys.command("revoke", examples=["mindhold keys revoke laptop"])
@click.argument("id")
@with_open_session
async def revoke_key(session: OpenSession, /, *, id: str) -> None:
    """End a key (by its name, its id, or the beginning of that), or a client's grant (by its id)."""
    from mindhold.access.grants import REVOKE_GRANT
    from mindhold.access.keys import REVOKE_KEY

    try:
        ended = await session.run(REVOKE_KEY, id=id)
    except NotFound:
        grant = await session.run(REVOKE_GRANT, token=id)
        if not grant.revoked:
            raise
        told, document = f"grant {id}", grant.model_dump(mode="json") | {"id": id}
    else:
        told, document = f"key {ended.name!r}", ended.model_dump(mode="json")
    if session.console.json:
        session.console.document(document)
    else:
        session.console.line(f"The {neutral(told)} is ended, at once and everywhere.")


def _key_row(session: OpenSession, key: KeyView) -> list[object]:
    may = "read" if key.access == "read" else "read and write"
    ends = local_time(key.expires, session.zone) if key.expires else ""
    made = local_time(key.created, session.zone)
    return [key.id, key.name, key.agent or DEFAULT_AGENT, ", ".join(key.scopes) or "all", may, made, ends]


def _grant_row(session: OpenSession, grant: GrantView) -> list[object]:
    ends = local_time(grant.expires, session.zone) if grant.expires else ""
    made = local_time(grant.created, session.zone)
    return [grant.id, grant.client_name, "a client", "", " ".join(grant.scopes), made, ends]
