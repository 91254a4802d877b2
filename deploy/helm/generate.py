"""Writes the chart's README.md from its values.yaml: `python deploy/helm/generate.py`. A test compares.

Each value has a comment above it or behind it, and a table of values has one above it.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

CHART = Path(__file__).parent / "bellwether"
HEAD = """\
# Chart of Bellwether

Made from `values.yaml` by `python deploy/helm/generate.py`.

```
helm install bellwether deploy/helm/bellwether --set-file config=bellwether.toml
```

`values.schema.json` refuses values that the chart does not have. The templates refuse what cannot work, such as two
pods that lead under one `instance_id` without standby. [Deployment](../../../docs/guides/deployment.md) explains both
shapes, upgrades, and logins to AWS.

| value | default | what it is for |
|---|---|---|
"""
IN_FILE = "see `values.yaml`"
WHOLE = ("resources", "grafanaDashboards.labels", "application.podSpec")  # tables for Kubernetes: one value each


def page() -> str:
    text = (CHART / "values.yaml").read_text(encoding="utf-8")
    comments = dict(_comments(text))
    rows = [f"| `{path}` | {default} | {comments.get(path, '')} |" for path, default in _values(yaml.safe_load(text))]
    return HEAD + "\n".join(rows) + "\n"


def _values(table: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yields the path of each value and table, such as "image.tag", with the default of a value."""
    for name, default in table.items():
        path = f"{prefix}{name}"
        if isinstance(default, dict) and default and path not in WHOLE:
            yield path, ""
            yield from _values(default, f"{path}.")
        else:
            yield path, f"`{json.dumps(default)}`" if "\n" not in str(default) else IN_FILE


def _comments(text: str) -> Iterator[tuple[str, str]]:
    """Yields the comment of each path that has one."""
    above: list[str] = []
    path: list[str] = []
    for line in text.splitlines():
        code, _, comment = line.partition("#")
        name, colon, _ = code.strip().partition(":")
        if colon and name.isidentifier():
            path = [*path[: (len(code) - len(code.lstrip())) // 2], name]
            if comment or above:
                yield ".".join(path), " ".join([*above, comment.strip()]).strip()
        above = [*above, comment.strip()] if comment and not code.strip() else []


if __name__ == "__main__":
    (CHART / "README.md").write_text(page(), encoding="utf-8")
