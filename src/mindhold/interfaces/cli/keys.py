"""`mindhold keys`: API keys and OAuth grants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from mindhold.interfaces.cli.command import Group, with_open_session, words
from mindhold.interfaces.cli.output import local_time, neutral
from mindhold.interfaces.cli.session import OpenSession
from mindhold.model.errors import NotFound
from mindhold.model.scope import DEFAULT_AGENT, PRIVILEGED_AGENTS

if TYPE_CHECKING:
    from mindhold.access.keys import KeyView
    from mindhold.access.oauth import GrantView


OPEN = "Keys restrict nobody on this machine until MINDHOLD_ACCESS_KEY is set: who sends none is let in as the owner."


@click.group(
    "keys",
    cls=Group,
    examples=["mindhold keys create laptop", "mindhold keys list", "mindhold keys revoke laptop"],
)
def keys() -> None:
    """API keys for HTTP, and clients that you admitted."""


@keys.command(
    "create",
    examples=[
        "mindhold keys create laptop",
        "mindhold keys create 'build server' --for-agent ci --scope work --read-only --days 90",
    ],
)
@click.argument("name")
@click.option(
    "--for-agent", "agent", metavar="NAME", help="The only agent that it acts for (default: default)."
)
@words("--scope", "scopes", metavar="NAME", help="Limit it to these scopes; not even Global is included.")
@click.option("--read-only", is_flag=True, help="It may read but not write.")
@click.option("--days", "expires_days", type=int, metavar="N", help="It expires after this many days.")
@with_open_session
async def create_key(session: OpenSession, /, *, read_only: bool, **fields: Any) -> None:
    """Create a key. It is shown only now: the store keeps its hash.

    Keys restrict nobody on this machine until MINDHOLD_ACCESS_KEY is set.
    """
    from mindhold.access.keys import CREATE_KEY

    key = await session.run(CREATE_KEY, access="read" if read_only else "write", **fields)
    if not session.running.loaded.settings.access_key:
        session.console.warn(OPEN)
    if session.console.as_json(key):
        return
    session.console.line(key.key)
    session.console.note(f"Keep it: it is not shown again. `mindhold keys revoke {key.id}` ends it.")
    if fields["agent"] in PRIVILEGED_AGENTS:
        session.console.warn(f"Whoever has it sees every agent's memories: {fields['agent']} does.")


@keys.command("list", examples=["mindhold keys list --json"])
@with_open_session
async def list_keys(session: OpenSession) -> None:
    """List the valid keys and the admitted clients."""
    from mindhold.access.keys import LIST_KEYS
    from mindhold.access.oauth import LIST_GRANTS

    result = await session.run(LIST_KEYS)
    clients = await session.run(LIST_GRANTS)
    if session.console.as_json(result.model_dump(mode="json") | clients.model_dump(mode="json")):
        return
    rows = [_key_row(session, key) for key in result.keys]
    rows += [_grant_row(session, grant) for grant in clients.grants]
    if rows:
        session.console.table(["id", "name", "for", "scopes", "may", "made", "ends"], rows)
    else:
        session.console.line("No key was made, and no client let in.")


@keys.command("revoke", examples=["mindhold keys revoke laptop"])
@click.argument("id")
@with_open_session
async def revoke_key(session: OpenSession, /, *, id: str) -> None:
    """Revoke a key by its name or id, or a client's grant by its id. A prefix of a key's id is enough."""
    from mindhold.access.keys import REVOKE_KEY
    from mindhold.access.oauth import REVOKE_GRANT

    try:
        key = await session.run(REVOKE_KEY, id=id)
    except NotFound:
        grant = await session.run(REVOKE_GRANT, token=id)
        if not grant.revoked:
            raise
        name, document = f"grant {id}", grant.model_dump(mode="json") | {"id": id}
    else:
        name, document = f"key {key.name!r}", key.model_dump(mode="json")
    if not session.console.as_json(document):
        session.console.line(f"The {neutral(name)} is ended, at once and everywhere.")


def _key_row(session: OpenSession, key: KeyView) -> list[object]:
    may = "read" if key.access == "read" else "read and write"
    scopes = ", ".join(key.scopes) or "all"
    return [key.id, key.name, key.agent or DEFAULT_AGENT, scopes, may, *_times(session, key)]


def _grant_row(session: OpenSession, grant: GrantView) -> list[object]:
    return [grant.id, grant.client_name, "a client", "", " ".join(grant.scopes), *_times(session, grant)]


def _times(session: OpenSession, view: KeyView | GrantView) -> tuple[str, str]:
    ends = local_time(view.expires, session.zone) if view.expires else ""
    return local_time(view.created, session.zone), ends
