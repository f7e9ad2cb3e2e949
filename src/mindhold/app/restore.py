"""Restores a backup in place of a store that need not be open, or even sound."""

from __future__ import annotations

from mindhold.app.application import open_app, person_zone
from mindhold.app.stores import SettingsSites, make_home, utc_now
from mindhold.backup.restore import DropOldResult, OldView, ReplaceResult, RestoreContext, replace_store
from mindhold.interfaces.runtime import ProgressCallback
from mindhold.model.errors import NotFound
from mindhold.model.scope import GLOBAL
from mindhold.settings.loader import LoadedSettings
from mindhold.stores.registry import WHOLE


async def replace_all(loaded: LoadedSettings, file: str | None, *, told: ProgressCallback) -> ReplaceResult:
    """Replace everything in the store with a backup. Raises as replace_store() does."""
    settings = loaded.settings
    make_home(settings.home)
    result = await replace_store(
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
        app.written.add(GLOBAL)  # the hook caches are of the state before
    return result


async def drop_old(loaded: LoadedSettings, name: str | None) -> DropOldResult:
    """Remove one replaced store, or all. Raises NotFound."""
    mode = loaded.settings.store.mode
    site = SettingsSites(loaded.settings, clock=utc_now).site(mode)
    olds = [old for old in await site.olds() if name is None or old.name == name]
    if not olds:
        problem = "No restore has put anything aside" if name is None else f"There is no old store {name!r}"
        raise NotFound(f"{problem}.", advice="`mindhold status` names what there is.")
    for old in olds:
        await site.drop_old(old.name)
    return DropOldResult(dropped=[OldView.of(mode, old) for old in olds])
