"""Restores a backup in place of a store that need not be open, or even sound."""

from __future__ import annotations

from collections.abc import Callable

from mindhold.app.application import open_app, person_zone, utc_now
from mindhold.app.stores import SettingsSites, make_home
from mindhold.backup.restore import (
    DropOldResult,
    OldView,
    ReplaceResult,
    RestoreContext,
    StoreReplacement,
    replace_store,
)
from mindhold.model.errors import NotFound
from mindhold.model.scope import GLOBAL
from mindhold.ports.backend import ReplacedStore
from mindhold.settings.loader import LoadedSettings
from mindhold.stores.registry import WHOLE

RestoreProgress = Callable[[str, int, int | None], None]


async def replace_all(loaded: LoadedSettings, file: str | None, *, told: RestoreProgress) -> ReplaceResult:
    """Put a backup in the place of everything that is there. Raises as replace_store() does."""
    settings = loaded.settings
    make_home(settings.home)
    done = await replace_store(
        RestoreContext(
            sites=SettingsSites(settings, clock=utc_now),
            home=settings.store.mode,
            folder=settings.home / "backups",
            zone=person_zone(settings.time_zone),
            clock=utc_now,
            passphrase=settings.backup.read_passphrase(),
            cleared_cursors=(WHOLE,),
            progress=told,
        ),
        file,
    )
    async with open_app(loaded) as app:
        app.written.add(GLOBAL)  # what hooks hand out is of the state before
    return _view(done)


async def old_stores(loaded: LoadedSettings) -> list[OldView]:
    """What restores have put aside, of the store that is home."""
    mode = loaded.settings.store.mode
    site = SettingsSites(loaded.settings, clock=utc_now).site(mode)
    return [_old(mode, old) for old in await site.olds()]


async def drop_old(loaded: LoadedSettings, name: str | None) -> DropOldResult:
    """One of them, or all. Raises NotFound."""
    mode = loaded.settings.store.mode
    site = SettingsSites(loaded.settings, clock=utc_now).site(mode)
    olds = [old for old in await site.olds() if name is None or old.name == name]
    if not olds:
        said = "No restore has put anything aside" if name is None else f"There is no old store {name!r}"
        raise NotFound(f"{said}.", advice="`mindhold status` names what there is.")
    for old in olds:
        await site.drop_old(old.name)
    return DropOldResult(dropped=[_old(mode, old) for old in olds])


def _view(done: StoreReplacement) -> ReplaceResult:
    def total(name: str) -> int:
        return sum(getattr(part.totals, name) for part in done.parts)

    return ReplaceResult(
        file=done.file.path.name,
        created=done.head.created,
        memories=total("memories"),
        vectors=total("vectors"),
        links=total("links"),
        versions=total("versions"),
        scopes=total("scopes"),
        entries=total("entries"),
        jobs=total("jobs"),
        old=[_old(mode, old) for mode, old in done.olds.items()],
        problems=list(done.notes),
    )


def _old(mode: str, old: ReplacedStore) -> OldView:
    return OldView(store=mode, name=old.name, location=old.location, bytes=old.size, since=old.since)
