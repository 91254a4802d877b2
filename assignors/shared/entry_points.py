"""Plug-ins by name, from the entry-point group `bellwether.assignors`."""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from importlib.metadata import entry_points

PLUGIN_GROUP = "bellwether.assignors"


class UnknownNameError(LookupError):
    """Raised for a configured name that does not exist. The message has it and the known names."""


def load_plugins(names: Sequence[str], stock: Sequence[str] = ()) -> dict[str, object]:
    """Loads the plug-ins with these names from the entry-point group `bellwether.assignors`; classes are instantiated.

    Other plug-ins are not imported. Raises UnknownNameError, which names the nearest name and the `stock` ones too.
    """
    installed = {point.name: point for point in entry_points(group=PLUGIN_GROUP)}
    loaded: dict[str, object] = {}
    for name in names:
        if name not in installed:
            raise UnknownNameError(_unknown(name, stock, sorted(installed)))
        item = installed[name].load()
        loaded[name] = item() if isinstance(item, type) else item
    return loaded


def _unknown(name: str, stock: Sequence[str], installed: Sequence[str]) -> str:
    near = get_close_matches(name, (*stock, *installed), n=1)
    perhaps = f", perhaps {near[0]!r} is meant" if near else ""
    plugins = (
        f"installed plug-ins ({PLUGIN_GROUP}) are {_listed(installed)}" if installed else "no plug-in is installed"
    )
    own = f"Bellwether has {_listed(stock)}, and " if stock else ""
    return f"there is no policy {name!r}{perhaps}; {own}{plugins}"


def _listed(names: Sequence[str] | Mapping[str, object] | set[str]) -> str:
    return ", ".join(sorted(names)) or "none"
