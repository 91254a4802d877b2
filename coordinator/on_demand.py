"""Exports of a package that are imported on first use.

The guard beside an application uses little of this service, and librdkafka and numpy are too large for it; kafka-python
takes longer to import than an application may wait for its start.
"""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def on_demand(package: str, homes: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """For a package's `__getattr__` (PEP 562). `homes` has the names that each of its modules defines."""
    modules = {name: module for module, names in homes.items() for name in names}

    def attribute(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{modules[name]}"), name)

    return attribute
