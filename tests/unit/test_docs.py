"""Generated pages say what the code says."""

import pytest

from tests.module_files import module_at
from tests.paths import DOCS


@pytest.mark.parametrize("page", ["alerts.md", "commands.md", "configuration.md", "metrics.md", "states.md"])
def test_generated_pages_are_fresh(page: str) -> None:
    module = module_at(DOCS / "generate.py", "generate_docs")
    written = (DOCS / "reference" / page).read_text(encoding="utf-8")
    assert module.PAGES[page]() == written, "run python docs/generate.py"
