"""Where the repository is: tests find documents and examples from here, wherever they stand themselves."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"


def commit() -> str:
    """The commit that is checked out, which a measurement records beside its figures."""
    asked = subprocess.run(
        ["git", "rev-parse", "--short=8", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return asked.stdout.strip() or "-"
