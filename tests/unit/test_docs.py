"""Generated pages say what the code says."""

import importlib.util

import pytest

from tests.paths import DOCS


@pytest.mark.parametrize("page", ["commands.md", "configuration.md", "metrics.md", "states.md"])
def test_generated_pages_are_fresh(page: str) -> None:
    spec = importlib.util.spec_from_file_location("generate_docs", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    written = (DOCS / "reference" / page).read_text(encoding="utf-8")
    assert module.PAGES[page]() == written, "run python docs/generate.py"
