"""Compares two readings of the settings: what differs, and what takes effect without a restart. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from bellwether_kafka.coordinator.settings.group_settings import GroupSettings
from bellwether_kafka.coordinator.settings.process_settings import Settings

OBSERVE = "observe"
KAFKA, GROUPS = "kafka", "groups"


@dataclass(frozen=True, slots=True)
class SettingsChange:
    """The result of a comparison. `settings` are in force from now on. `added`, `removed` and `changed` are group
    entries by name or pattern; `changed` also lists the settings. `restart` has sentences on what needs a restart."""

    settings: Settings
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    restart: tuple[str, ...] = ()

    @property
    def groups_differ(self) -> bool:
        return bool(self.added or self.removed or self.changed)


def change(old: Settings, new: Settings) -> SettingsChange:
    """Compares the settings in force with those just read. Groups that are, or are to be, led or assisted do not
    change."""
    before, after = _entries(old), _entries(new)
    touched = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    held_back = [name for name in touched if _acts(before.get(name)) or _acts(after.get(name))]
    kept = {name: before[name] for name in held_back if name in before}
    groups = [kept.get(name, group) for name, group in after.items() if name in kept or name not in held_back]
    groups += [group for name, group in kept.items() if name not in after]
    free = [name for name in touched if name not in held_back]
    return SettingsChange(
        old.model_copy(update={GROUPS: tuple(groups)}),
        added=tuple(name for name in free if name not in before),
        removed=tuple(name for name in free if name not in after),
        changed=tuple(_changed(before[name], after[name]) for name in free if name in before and name in after),
        restart=(*_of_process(old, new), *(_of_group(name, before.get(name), after.get(name)) for name in held_back)),
    )


def _entries(settings: Settings) -> dict[str, GroupSettings]:
    return {group.called: group for group in settings.groups}


def _acts(group: GroupSettings | None) -> bool:
    return group is not None and group.mode != OBSERVE


def _changed(before: GroupSettings, after: GroupSettings) -> str:
    return f"{after.called} ({', '.join(_fields(before, after))})"


def _fields(before: GroupSettings, after: GroupSettings) -> list[str]:
    fields = type(before).model_fields.items()
    return [info.alias or name for name, info in fields if getattr(before, name) != getattr(after, name)]


def _of_process(old: Settings, new: Settings) -> Sequence[str]:
    names = [name for name in type(old).model_fields if name != GROUPS and getattr(old, name) != getattr(new, name)]
    if KAFKA in names:
        # Names only: values may be passwords.
        keys = sorted(key for key in {**old.kafka, **new.kafka} if old.kafka.get(key) != new.kafka.get(key))
        names[names.index(KAFKA) : names.index(KAFKA) + 1] = keys
    return [f"The setting {name} has changed and is read at the start only; restart to use it." for name in names]


def _of_group(name: str, before: GroupSettings | None, after: GroupSettings | None) -> str:
    mode = next(group.mode for group in (before, after) if group is not None and group.mode != OBSERVE)
    what = "led" if mode == "lead" else "assisted"
    if before is None:
        return f"Group {name} is to be {what}, which begins at a start only; restart to begin."
    if after is None:
        return f"Group {name} has been removed but goes on being {what} until the process ends; restart to end it."
    fields = ", ".join(_fields(before, after))
    if not _acts(before):
        return f"Group {name} is to be {what} ({fields}), which begins at a start only; restart to begin."
    return f"Group {name} is {what}, and its settings are read at the start only ({fields}); restart to use them."
