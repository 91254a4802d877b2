"""Plug-ins by name, from the entry-point group `bellwether.assignors`."""

from collections.abc import Mapping, Sequence
from importlib.metadata import entry_points

PLUGIN_GROUP = "bellwether.assignors"


class UnknownNameError(LookupError):
    """Raised for a configured name that does not exist. The message has it and the known names."""


def load_plugins(names: Sequence[str]) -> dict[str, object]:
    """Loads the plug-ins with these names from the entry-point group `bellwether.assignors`; classes are instantiated.

    Other plug-ins are not imported. Raises UnknownNameError.
    """
    installed = {point.name: point for point in entry_points(group=PLUGIN_GROUP)}
    loaded: dict[str, object] = {}
    for name in names:
        if name not in installed:
            raise UnknownNameError(f"unknown plug-in {name!r} in {PLUGIN_GROUP}; installed are {_listed(installed)}")
        item = installed[name].load()
        loaded[name] = item() if isinstance(item, type) else item
    return loaded


def _listed(names: Sequence[str] | Mapping[str, object] | set[str]) -> str:
    return ", ".join(sorted(names)) or "none"
