"""Generated pages say what the code says."""

import pytest

from tests.module_files import module_at
from tests.paths import DOCS

SCHEMAS = DOCS / "reference" / "schemas"


@pytest.mark.parametrize("page", ["alerts.md", "commands.md", "configuration.md", "metrics.md", "states.md"])
def test_generated_pages_are_fresh(page: str) -> None:
    module = module_at(DOCS / "generate.py", "generate_docs")
    written = (DOCS / "reference" / page).read_text(encoding="utf-8")
    assert module.PAGES[page]() == written, "run python docs/generate.py"


def test_generated_schemas_are_fresh_and_each_has_an_example(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(DOCS)
    module = module_at(DOCS / "generate_schemas.py", "generate_schemas")
    made = {name: module.text_of(schema) for name, schema in module.schemas().items()}
    suffix = ".schema.json"
    written = {path.name.removesuffix(suffix): path.read_text(encoding="utf-8") for path in SCHEMAS.glob(f"*{suffix}")}
    assert written == made, "run python docs/generate_schemas.py"
    for name, text in module.weight_files().items():
        assert (SCHEMAS / name).read_text(encoding="utf-8") == text, "run python docs/generate_schemas.py"
    assert (DOCS / "reference" / "schemas.md").read_text(encoding="utf-8") == module.page()
    assert {path.stem for path in (SCHEMAS / "examples").iterdir()} == made.keys()
