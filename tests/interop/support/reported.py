"""Commands on real brokers, and the documents that they print."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.interop.support.bellwether import run_to_end, toml


def reported(command: str, group: str, path: Path, *more: str, code: int = 0) -> Any:
    ended = run_to_end([command, group, *more, "--config", str(path), "--output", "json"])
    assert ended.code == code, ended.text
    return json.loads(ended.stdout)


def configured(path: Path, kafka: Mapping[str, str], group: Mapping[str, Any], **settings: Any) -> Path:
    file = path / "bellwether.toml"
    file.write_text(toml(dict(kafka), [group], http_address="", **settings))
    return file
