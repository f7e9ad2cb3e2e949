"""The policy of the engine, from the settings."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta

from mindhold.engine import Policy
from mindhold.model.lifecycle import Level, LifecycleRules, RetentionRules, steered
from mindhold.model.memory import Kind
from mindhold.model.policies import (
    CAPTURED_KINDS,
    BackupRules,
    CaptureRules,
    HistoryRules,
    MaintenanceRules,
    RecapRules,
    RlmRules,
)
from mindhold.settings.loader import LoadedSettings, home_agent
from mindhold.settings.schema import LifeSettings
from mindhold.settings.sections import (
    BackupSettings,
    CaptureSettings,
    HistorySettings,
    MaintenanceSettings,
    RetentionSettings,
    RlmSettings,
    comma_list,
    hour_of,
    passphrase_of,
)


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
        history=_history(settings.history, also=comma_list(settings.capture.exclude)),
        rlm=_rlm(settings.rlm),
        recaps=RecapRules(**asdict(settings.recaps)),
        backup=_backup(settings.backup),
    )


def _life(life: LifeSettings) -> LifecycleRules:
    return LifecycleRules(
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


def _retention(chosen: RetentionSettings) -> RetentionRules:
    return RetentionRules(
        level=Level(chosen.level),
        keep_months=chosen.keep_months,
        unused_days=chosen.unused_days,
        most_items=chosen.most_items,
        most_megabytes=chosen.most_megabytes,
        keep_pruned_files=chosen.keep_pruned_files,
    )


def _maintenance(chosen: MaintenanceSettings) -> MaintenanceRules:
    return MaintenanceRules(
        schedule=chosen.schedule,
        hour=hour_of(chosen.hour),
        idle=timedelta(minutes=chosen.idle_minutes),
        seconds=float(chosen.seconds),
    )


def _history(chosen: HistorySettings, *, also: tuple[str, ...]) -> HistoryRules:
    return HistoryRules(
        enabled=chosen.enabled,
        agents=comma_list(chosen.agents),
        exclude=(*comma_list(chosen.exclude), *also),
        subagents=chosen.subagents,
        vectors=chosen.vectors,
        archive=chosen.archive,
        archive_hours=chosen.archive_hours,
        archive_room=chosen.archive_max_mb << 20,
        by_model=chosen.read_with == "auto",
        most_calls=chosen.most_calls,
    )


def _rlm(chosen: RlmSettings) -> RlmRules:
    return RlmRules(
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


def capture_of(chosen: CaptureSettings) -> CaptureRules:
    """What is captured, and what is told."""
    return CaptureRules(
        enabled=chosen.enabled,
        kinds=frozenset(Kind(name) for name in comma_list(chosen.kinds)) or CAPTURED_KINDS,
        exclude=comma_list(chosen.exclude),
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
