"""Where the repository is: tests find documents and examples from here, wherever they stand themselves."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
