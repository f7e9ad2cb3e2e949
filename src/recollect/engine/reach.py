"""Which scopes a call sees."""

from __future__ import annotations

from recollect.engine.core import Engine
from recollect.model.errors import ScopeNotFound
from recollect.model.scope import Scope, lineage


async def reach(engine: Engine, name: str | None) -> tuple[str, ...]:
    """The scopes that a call in `name` sees. Raises ScopeNotFound."""
    scopes = await engine.store.scopes()
    wanted = name or engine.policy.scope
    if all(scope.name != wanted for scope in scopes):
        raise ScopeNotFound(wanted)
    active = {scope.name for scope in scopes if scope.active}
    return tuple(name for name in lineage(wanted, scopes) if name in active or name == wanted)


async def find_scope(engine: Engine, name: str) -> Scope:
    """Raises ScopeNotFound."""
    for scope in await engine.store.scopes():
        if scope.name == name:
            return scope
    raise ScopeNotFound(name)
