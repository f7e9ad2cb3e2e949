"""The knobs of the engine, from the settings."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta

from mindhold.engine.core import Policy
from mindhold.model.backup import BackupRules
from mindhold.model.capture import CAPTURED_KINDS, Capture
from mindhold.model.history import History, Rlm
from mindhold.model.life import Life
from mindhold.model.maintenance import Maintenance
from mindhold.model.memory import Kind
from mindhold.model.recap import Recaps
from mindhold.model.retention import Level, Retention, steered
from mindhold.settings import LoadedSettings, home_agent
from mindhold.settings.backup import BackupSettings, passphrase_of
from mindhold.settings.capture import CaptureSettings, listed
from mindhold.settings.declared import LifeSettings
from mindhold.settings.history import HistorySettings, RlmSettings
from mindhold.settings.maintenance import MaintenanceSettings, hour_of
from mindhold.settings.retention import RetentionSettings


def policy_of(loaded: LoadedSettings) -> Policy:
    """All of it. Raises SettingsError."""
    settings = loaded.settings
    intake, recall = settings.intake, settings.recall
    retention = _retention(settings.retention)
    return Policy(
        export_dir=settings.export_dir,
        home=settings.home,
        agent=settings.agent,
        home_agent=home_agent(loaded),
        tells_hooks=loaded.sources.get("store.path") != "argument",
        scope=settings.scope,
        date_order=settings.date_order,
        longest=intake.longest,
        part_length=intake.part_length,
        redact=intake.redact,
        noise_gate=intake.noise_gate,
        link_threshold=intake.link_threshold,
        near_duplicate=intake.near_duplicate,
        most_links=intake.most_links,
        limit=recall.limit,
        floor=None if recall.floor < 0 else recall.floor,
        local_model=settings.embedding.provider == "local",
        longest_hit=recall.longest_hit,
        longest_answer=recall.longest_answer,
        daily_tokens=settings.llm.daily_tokens,
        daily_dollars=settings.llm.daily_dollars,
        importance_weight=recall.importance_weight,
        recency_weight=recall.recency_weight,
        composite_from=recall.composite_from,
        most_linked=recall.most_linked,
        session_ttl=timedelta(minutes=settings.serve.session_ttl_minutes),
        reflect=settings.life.reflect,
        life=steered(_life(settings.life), retention),
        retention=retention,
        maintenance=_maintenance(settings.maintenance),
        capture=capture_of(settings.capture),
        history=_history(settings.history, also=listed(settings.capture.exclude)),
        rlm=_rlm(settings.rlm),
        recaps=Recaps(**asdict(settings.recaps)),
        backup=_backup(settings.backup),
    )


def _life(life: LifeSettings) -> Life:
    return Life(
        stale_days={
            Kind.PROCEDURE: life.stale_days_procedure,
            Kind.FACT: life.stale_days_fact,
            Kind.DECISION: life.stale_days_decision,
            Kind.NOTE: life.stale_days_note,
        },
        other_stale_days=life.stale_days_other,
        hot_days=life.hot_days,
        archive_below=life.archive_below,
        keep_archived_days=life.keep_archived_days,
        anchor_uses=life.anchor_uses,
        anchor_importance=life.anchor_importance,
        batch=life.batch,
        seconds=float(life.seconds),
        consolidate_hours=life.consolidate_hours,
    )


def _retention(chosen: RetentionSettings) -> Retention:
    return Retention(
        level=Level(chosen.level),
        keep_months=chosen.keep_months,
        unused_days=chosen.unused_days,
        most_items=chosen.most_items,
        most_megabytes=chosen.most_megabytes,
        keep_pruned_files=chosen.keep_pruned_files,
    )


def _maintenance(chosen: MaintenanceSettings) -> Maintenance:
    return Maintenance(
        schedule=chosen.schedule,
        hour=hour_of(chosen.hour),
        idle=timedelta(minutes=chosen.idle_minutes),
        seconds=float(chosen.seconds),
    )


def _history(chosen: HistorySettings, *, also: tuple[str, ...]) -> History:
    return History(
        enabled=chosen.enabled,
        agents=listed(chosen.agents),
        exclude=(*listed(chosen.exclude), *also),
        subagents=chosen.subagents,
        vectors=chosen.vectors,
        archive=chosen.archive,
        archive_hours=chosen.archive_hours,
        archive_room=chosen.archive_max_mb << 20,
        by_model=chosen.read_with == "auto",
        most_calls=chosen.most_calls,
    )


def _rlm(chosen: RlmSettings) -> Rlm:
    return Rlm(
        provider=chosen.provider,
        model=chosen.model,
        concurrency=chosen.concurrency,
        most_conversations=chosen.most_conversations,
        relevance=chosen.relevance,
        most_characters=chosen.most_characters,
        seconds=float(chosen.answer_seconds),
    )


def _backup(chosen: BackupSettings) -> BackupRules:
    return BackupRules(
        schedule=chosen.schedule,
        keep_daily=chosen.keep_daily,
        keep_weekly=chosen.keep_weekly,
        encrypt=chosen.encrypt,
        passphrase=passphrase_of(chosen),
    )


def capture_of(chosen: CaptureSettings) -> Capture:
    """What is captured, and what is told."""
    return Capture(
        enabled=chosen.enabled,
        kinds=frozenset(Kind(name) for name in listed(chosen.kinds)) or CAPTURED_KINDS,
        exclude=listed(chosen.exclude),
        subagents=chosen.subagents,
        by_model=chosen.extract_with == "model",
        most_calls=chosen.most_calls,
        start_tokens=chosen.start_tokens,
        prompt_tokens=chosen.prompt_tokens,
        prompt_most=chosen.prompt_most,
        errors=chosen.errors,
        condense_every=chosen.condense_every,
        condense_above=chosen.condense_above,
        condense_from=chosen.condense_from,
        keep_dropped_days=chosen.keep_dropped_days,
        document_lines=chosen.document_lines,
    )
