"""What a Bellwether process reports of its role in a group, beside what brokers show of it; for `soak`.

Brokers are asked without librdkafka, whose admin client may abort the process when a connection drops (its issue 4605),
and without the product. DescribeGroups does not name the leader, so two facts count together: Bellwether's instance id
is among the members that DescribeGroups lists, and the last assignment that the coordinator logged came from a member
with it. A member id is the instance id and a random end, so the static return of another process keeps the lead.
"""

import json
import urllib.error
import urllib.request
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from tests.interop.support.bellwether import INSTANCE
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.raw import (
    DESCRIBE,
    Connection,
    RawError,
    connect_to_coordinator,
    read_description,
    request_description,
)
from tests.interop.support.rebalances import ASSIGNED

HEARTBEAT_S = 1.0  # `heartbeat_interval_ms` by default
TOLERANCE_S = 2 * HEARTBEAT_S
HTTP_TIMEOUT_S = 5.0
API, METRICS = "/api/groups", "/metrics"


@dataclass(frozen=True, slots=True)
class Reported:
    """The role as one page of a process has it; `reason` says why it does not lead, "" where none is given."""

    leading: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Shown:
    """A group as brokers show it: `own` is the member id under Bellwether's instance id and `leader` who assigned
    last, "" for nobody; `others` counts the other members."""

    state: str
    own: str
    others: int
    leader: str

    @property
    def led_by_bellwether(self) -> bool:
        return bool(self.own) and self.leader.startswith(f"{INSTANCE}-")


def answer(address: str, path: str, timeout_s: float = HTTP_TIMEOUT_S) -> tuple[int, str]:
    """Status and text of a page. Raises OSError where nobody listens."""
    try:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=timeout_s) as message:
            return message.status, message.read().decode().strip()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode().strip()


def reported(address: str) -> Mapping[str, Mapping[str, Reported]]:
    """By page and group, what a process says of its role. Raises OSError where nobody listens."""
    groups = json.loads(answer(address, API)[1])
    return {
        API: {row["group"]: from_api(row) for row in groups},
        METRICS: from_metrics(answer(address, METRICS)[1]),
    }


def from_api(row: Mapping[str, object]) -> Reported:
    role = row["role"]
    return Reported(bool(row["leading"]), str(role["reason"]) if isinstance(role, Mapping) else "")


def from_metrics(text: str) -> dict[str, Reported]:
    families = {family.name: family.samples for family in text_string_to_metric_families(text)}
    leading = families.get("bellwether_group_leading", [])
    not_leading = families.get("bellwether_group_not_leading", [])
    reasons = {s.labels["group"]: s.labels["reason"] for s in not_leading if s.value == 1}
    return {s.labels["group"]: Reported(s.value == 1, reasons.get(s.labels["group"], "")) for s in leading}


class BrokersView:
    """Groups as the brokers of a cluster show them, asked as often as one likes: connections are kept, logs are read on
    from where they ended."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self._cluster = cluster
        self._connections: dict[str, Connection] = {}
        self._read: dict[Path, int] = {}
        self._last: dict[str, tuple[int, str]] = {}  # by group: generation and leader

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def shown(self, group: str) -> Shown:
        """Raises OSError, TimeoutError or RawError where the coordinator does not answer now."""
        try:
            if group not in self._connections:
                self._connections[group] = connect_to_coordinator(self._cluster.bootstrap, group)
            seen = read_description(self._connections[group].ask(DESCRIBE, request_description(group)))
        except (OSError, RawError):
            lost = self._connections.pop(group, None)
            if lost is not None:
                lost.close()
            raise
        self._follow_logs()
        own = next((m.member_id for m in seen.members if m.instance_id == INSTANCE), "")
        others = sum(m.instance_id != INSTANCE for m in seen.members)
        return Shown(seen.state, own, others, self._last.get(group, (0, ""))[1])

    def generation(self, group: str) -> int:
        """The newest generation whose assignment was logged, 0 for none; as of now."""
        self._follow_logs()
        return self._last.get(group, (0, ""))[0]

    def _follow_logs(self) -> None:
        for line in self._new_lines():
            hit = ASSIGNED.search(line)
            if hit and int(hit["generation"]) >= self._last.get(hit["group"], (0, ""))[0]:
                self._last[hit["group"]] = int(hit["generation"]), hit["leader"]

    def _new_lines(self) -> Iterator[str]:
        for path in self._cluster.log_paths():
            with path.open("rb") as log:
                log.seek(self._read.get(path, 0))
                fresh = log.read()
            whole = fresh.rfind(b"\n") + 1
            self._read[path] = self._read.get(path, 0) + whole
            yield from fresh[:whole].decode(errors="replace").splitlines()


@dataclass(slots=True)
class Durations:
    """For how long something is wrong, by key; times are monotonic. What lasts longer than `tolerance_s` is reported
    once, and `longest_s` goes on with it."""

    tolerance_s: float
    longest_s: float = 0.0
    _since: dict[Hashable, float] = field(default_factory=dict)
    _reported: set[Hashable] = field(default_factory=set)

    def add(self, now_s: float, key: Hashable, *, wrong: bool) -> float | None:
        """Returns once for each time that is too long for how many seconds it has lasted by now."""
        if not wrong:
            self._since.pop(key, None)
            self._reported.discard(key)
            return None
        lasted_s = now_s - self._since.setdefault(key, now_s)
        self.longest_s = max(self.longest_s, lasted_s)
        if lasted_s <= self.tolerance_s or key in self._reported:
            return None
        self._reported.add(key)
        return lasted_s

    def begin(self, now_s: float) -> None:
        """The process has started: what was wrong before counts from now."""
        self._since = dict.fromkeys(self._since, now_s)
        self._reported.clear()

    def forget(self) -> None:
        """The process cannot be asked: what it reported before does not go on."""
        self._since.clear()
        self._reported.clear()


@dataclass(slots=True)
class Comparison:
    """Reported against shown, over time. A difference counts if it lasts."""

    differences: list[str] = field(default_factory=list)
    compared: int = 0
    durations: Durations = field(default_factory=lambda: Durations(TOLERANCE_S))

    def add(self, now_s: float, page: str, group: str, message: Reported | None, *, leads: bool) -> None:
        """`now_s` is monotonic. A group that a page does not name is taken as not led."""
        self.compared += 1
        wrong = (message is not None and message.leading) != leads
        if (lasted_s := self.durations.add(now_s, (page, group), wrong=wrong)) is not None:
            truth = "leads" if leads else "does not lead"
            self.differences.append(f"{page} of {group} says {message}, and it {truth}, for {lasted_s:.1f} s")
