"""The smoke script of the composition, imported from where it lies."""

from types import ModuleType

from tests.module_files import module_at
from tests.paths import ROOT


def smoke() -> ModuleType:
    """The composition's smoke script."""
    return module_at(ROOT / "deploy" / "compose" / "smoke.py", "smoke")
