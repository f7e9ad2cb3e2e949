"""The gate before every operation: whether the caller may call it, and what part of the engine the call gets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mindhold.access.scoped_store import ScopedSidecar
from mindhold.access.secrets import checked_agent
from mindhold.engine import Engine, NoUseCounter
from mindhold.model.errors import Refused
from mindhold.model.scope import PRIVILEGED_AGENTS, Caller
from mindhold.operations import Effect, Operation
from mindhold.ports.cache import NO_SIDECAR
from mindhold.ports.history import NoArchive, NoHistory
from mindhold.ports.transcripts import NoTranscripts


def as_agent(caller: Caller, agent: str | None) -> Caller:
    """The caller acting as the agent that a call names. Raises Refused, or InvalidInput for an invalid name."""
    if agent is None or agent == caller.agent:
        return caller
    if caller.bound or checked_agent(agent) in PRIVILEGED_AGENTS:
        raise Refused("This call may not be made for that agent.", advice="Leave the agent's id out.")
    return replace(caller, agent=agent, bound=True)


def admitted_engine(engine: Engine, operation: Operation[Any, Any], caller: Caller) -> Engine:
    """The engine that this caller may use. Raises Refused."""
    if operation.owner_only and not caller.owner:
        raise Refused(f"{operation.name} is for the owner of this Mindhold.", advice="Use the owner's key.")
    if operation.effect is not Effect.READS and not caller.writes:
        raise Refused("This key may only read.", advice="Ask the owner for a key that may write.")
    if caller.scopes or caller.bound or not caller.owner:
        # Transcripts and history have no agent and no scope: they are the owner's.
        engine = replace(
            engine, transcripts=NoTranscripts(), history=NoHistory(), archive=NoArchive(), rlm=None
        )
    if not caller.writes:
        engine = replace(engine, use_counter=NoUseCounter(engine.store, engine.clock))
    return _limit_to_scopes(engine, operation, caller) if caller.scopes else engine


def _limit_to_scopes(engine: Engine, operation: Operation[Any, Any], caller: Caller) -> Engine:
    if operation.owner_only:
        raise Refused(
            f"{operation.name} concerns more than the scopes of this key.", advice="Use the owner's key."
        )
    from mindhold.access.scoped_store import ScopedStore, ScopedStoreRegistry

    scope = engine.settings.scope if engine.settings.scope in caller.scopes else caller.scopes[0]
    return replace(
        engine,
        store=ScopedStore(engine.store, caller.scopes),
        store_registry=ScopedStoreRegistry(engine.store_registry, caller.scopes),
        sidecar=engine.sidecar if engine.sidecar is NO_SIDECAR else ScopedSidecar(engine.sidecar),
        settings=replace(engine.settings, scope=scope),
        allowed_scopes=caller.scopes,
    )
