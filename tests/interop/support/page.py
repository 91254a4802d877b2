"""What a process of Bellwether says over HTTP of one group."""

import json
import re
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tests.interop.support.ports import LOOPBACK, PortLease
from tests.kit.commands import check_page


class Page:
    """What a process says over HTTP; nothing while it does not answer."""

    def __init__(self, address: str, group: str) -> None:
        self._address, self._group = address, group

    def get(self, path: str) -> Any:
        text = self.text(path)
        document = json.loads(text) if text else None
        if text and path.startswith("/api/"):
            check_page(path, document)
        return document

    def text(self, path: str) -> str:
        try:
            with urllib.request.urlopen(f"http://{self._address}{path}", timeout=30) as answer:
                return str(answer.read().decode())
        except OSError:
            return ""

    def row(self) -> Mapping[str, Any]:
        rows = self.get(f"/api/overview/{self._group}")
        return rows[0] if rows else {}

    def series(self) -> dict[str, float]:
        """Values by name of what has no label but the group."""
        pattern = rf'^bellwether_(\w+)\{{group="{self._group}"\}} (\S+)$'
        return {name: float(value) for name, value in re.findall(pattern, self.text("/metrics"), re.MULTILINE)}

    def items_shown(self) -> set[str]:
        document = self.get(f"/api/groups/{self._group}") or {"holders": []}
        return {item["name"] for holder in document["holders"] for item in holder["items"]}


@contextmanager
def served() -> Iterator[str]:
    lease = PortLease()
    try:
        yield f"{LOOPBACK}:{lease.port}"
    finally:
        lease.release()
