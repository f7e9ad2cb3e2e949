"""Which scopes a call sees."""

from __future__ import annotations

from collections.abc import Sequence

from mindhold.engine.core import Engine
from mindhold.model.errors import ScopeNotFound
from mindhold.model.scope import Scope, lineage


async def reach(engine: Engine, name: str | None) -> tuple[str, ...]:
    """The scopes that a call in `name` sees, that one first, whatever the case of its name. Raises ScopeNotFound."""
    scopes = await engine.store.scopes()
    wanted = _called(name or engine.policy.scope, scopes).name
    active = {scope.name for scope in scopes if scope.active}
    return tuple(name for name in lineage(wanted, scopes) if name in active or name == wanted)


async def everywhere(engine: Engine, among: Sequence[str] = ()) -> tuple[str, ...]:
    """All scopes (or these) without those that were switched off, which answer only who names them; none: all there are."""
    scopes = await engine.store.scopes()
    off = {scope.name for scope in scopes if not scope.active}
    if not off:
        return tuple(among)
    return tuple(name for name in among or [scope.name for scope in scopes] if name not in off)


async def find_scope(engine: Engine, name: str) -> Scope:
    """The one of exactly that name. Raises ScopeNotFound."""
    for scope in await engine.store.scopes():
        if scope.name == name:
            return scope
    raise ScopeNotFound(name)


async def scope_called(engine: Engine, name: str) -> str:
    """The name as the scope has it, whatever the case of this one. Raises ScopeNotFound."""
    return _called(name, await engine.store.scopes()).name


def _called(name: str, scopes: Sequence[Scope]) -> Scope:
    """No two names differ in case alone."""
    for scope in scopes:
        if scope.name == name:
            return scope
    for scope in scopes:
        if scope.name.casefold() == name.casefold():
            return scope
    raise ScopeNotFound(name)
