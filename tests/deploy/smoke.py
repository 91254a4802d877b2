"""The smoke script of the composition, imported from where it lies."""

import importlib.util
from types import ModuleType

from tests.paths import ROOT


def smoke() -> ModuleType:
    """The composition's smoke script."""
    spec = importlib.util.spec_from_file_location("smoke", ROOT / "deploy" / "compose" / "smoke.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
