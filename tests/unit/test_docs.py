"""Generated pages say what the code says."""

import importlib.util

import pytest

from tests.paths import DOCS


@pytest.mark.parametrize("page", ["metrics.md", "configuration.md", "commands.md", "states.md"])
def test_generated_pages_are_fresh(page: str) -> None:
    spec = importlib.util.spec_from_file_location("generate_docs", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.PAGES[page]() == (DOCS / page).read_text(encoding="utf-8"), "run python docs/generate.py"
