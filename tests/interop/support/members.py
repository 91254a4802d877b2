"""Drives real consumers of several languages as child processes and knows from them alone who owns what.

A `Flock` starts at most one shared host process per kind of client (one JVM for twenty Java consumers is cheaper than
twenty) and, for members that are to be killed, processes of their own. Nothing here asks the coordinator under test.
"""

import importlib.util
import json
import shutil
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from tests.interop.support.golang import go_members
from tests.interop.support.jvm import BROKER_44, CURRENT, STREAMS_39, java
from tests.paths import ROOT
from tests.patience import PATIENCE

TopicPartition = tuple[str, int]


Range = tuple[int, int]


KINDS = ("java", "confluent", "kafka-python", "aiokafka", "franz-go", "sarama", "kafka-go")


SETTLE_TIMEOUT_S = 60.0


QUIET_S = 1.0


STOP_TIMEOUT_S = 20.0
JAVA = {"java": CURRENT, "java-3.9": STREAMS_39, "java-4.4": BROKER_44}


def _command(kind: str) -> list[str]:
    if kind in JAVA:
        options = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
        return java(JAVA[kind]).command("bellwether.MemberMain", options=options)
    if kind in ("franz-go", "sarama", "kafka-go"):
        return [str(go_members()), kind]
    module = {"confluent": "confluent", "kafka-python": "kafka_python", "aiokafka": "aio"}[kind]
    return [sys.executable, "-W", "ignore", "-m", f"tests.interop.support.clients.{module}"]


def why_unavailable(kind: str) -> str | None:
    """Why members of this kind cannot run here, or None."""
    if kind in ("franz-go", "sarama", "kafka-go") and shutil.which("go") is None:
        return f"Go is not installed: no {kind} members"
    if kind == "aiokafka" and importlib.util.find_spec("aiokafka") is None:
        return "aiokafka is not installed: no aiokafka members"
    return None


@dataclass(frozen=True, slots=True)
class Event:
    """What a member reported: "assigned", "revoked", "lost", "joined", "stopped" or "error", and when (wall clock)."""

    kind: str
    member: str
    partitions: tuple[TopicPartition, ...]
    t_ms: int
    text: str = ""


class Host:
    """One child process and the members inside it."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.members: dict[str, Member] = {}
        self._stderr: list[str] = []
        self._sending = threading.Lock()
        self._process = subprocess.Popen(
            _command(kind),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        self._readers = [
            threading.Thread(target=self._read, daemon=True),
            threading.Thread(target=self._log, daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, verb: str, fields: Mapping[str, str]) -> None:
        assert self._process.stdin is not None
        line = "\t".join([verb, *(f"{key}={value}" for key, value in fields.items())]) + "\n"
        with self._sending:
            self._process.stdin.write(line)
            self._process.stdin.flush()

    def kill(self) -> None:
        """SIGKILL: every member in it is gone without a word."""
        self._process.kill()
        self._finish()
        for member in self.members.values():
            member.died()

    def close(self) -> None:
        """Lets every member leave its group, then waits for the process."""
        if self._process.poll() is None and self._process.stdin is not None:
            self._process.stdin.close()
        self._finish()

    def complaints(self) -> str:
        return "\n".join(self._stderr[-20:])

    def _finish(self) -> None:
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(STOP_TIMEOUT_S)
        for reader in self._readers:
            reader.join(STOP_TIMEOUT_S)
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if not line.startswith("{"):
                continue
            try:
                message = json.loads(line)
            except json.JSONDecodeError:
                continue  # the half line of a killed process
            member = self.members.get(message["member"])
            if member is not None:
                member.received(message)

    def _log(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._stderr.append(line.rstrip())
            del self._stderr[:-200]


@dataclass(eq=False)
class Member:
    """One real consumer. `owned()` is what its own callbacks add up to; a dead member owns nothing."""

    name: str
    kind: str
    group: str
    host: Host
    fields: Mapping[str, str]
    events: list[Event] = field(default_factory=list)
    consumed: dict[TopicPartition, list[Range]] = field(default_factory=lambda: defaultdict(list))
    running: bool = True
    _owned: set[TopicPartition] = field(default_factory=set)
    _changed_at: float = field(default_factory=time.monotonic)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self) -> None:
        self.running = True
        self.host.send("join", self.fields)

    def stop(self, limit_s: float = STOP_TIMEOUT_S) -> None:
        """Leaves the group (a static member of most clients does not) and waits until the member says that it has."""
        self.host.send("leave", {"name": self.name})
        deadline = time.monotonic() + limit_s * PATIENCE
        while self.running and time.monotonic() < deadline:
            time.sleep(0.02)
        assert not self.running, f"{self.name} did not stop within {limit_s:.0f} s"

    def kill(self) -> None:
        """SIGKILL to its process; members that share the process die too, so give it one of its own."""
        self.host.kill()

    def owned(self) -> frozenset[TopicPartition]:
        with self._lock:
            return frozenset(self._owned)

    @property
    def quiet_s(self) -> float:
        """Seconds since it last reported a change of ownership."""
        return time.monotonic() - self._changed_at

    @property
    def errors(self) -> list[str]:
        with self._lock:
            return [event.text for event in self.events if event.kind == "error"]

    def count(self, kind: str) -> int:
        with self._lock:
            return sum(1 for event in self.events if event.kind == kind)

    def died(self) -> None:
        with self._lock:
            self._owned.clear()
            self.running = False
            self.events.append(Event("killed", self.name, (), int(time.time() * 1000)))

    def received(self, message: Mapping[str, Any]) -> None:
        """Takes one line of its report."""
        with self._lock:
            if message["event"] == "consumed":
                for topic, partition, first, last in message["ranges"]:
                    self.consumed[topic, partition].append((first, last))
                return
            partitions = tuple((topic, partition) for topic, partition in message.get("partitions", ()))
            self.events.append(Event(message["event"], self.name, partitions, message["t_ms"], message.get("text", "")))
            self._changed_at = time.monotonic()
            if message["event"] == "assigned":
                self._owned |= set(partitions)
            elif message["event"] in ("revoked", "lost"):
                self._owned -= set(partitions)
            elif message["event"] == "stopped":
                self._owned.clear()
                self.running = False


class Flock:
    """Members of any kinds in any groups of one cluster; a context manager that ends what it started."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._shared: dict[str, Host] = {}
        self._own: list[Host] = []
        self._made = 0
        self._making = threading.Lock()
        self.members: list[Member] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def member(
        self,
        kind: str,
        group: str,
        topics: Sequence[str],
        assignors: Sequence[str] = ("range",),
        *,
        rack: str | None = None,
        instance: str | None = None,
        session_ms: int = 10_000,
        own_process: bool = False,
        start: bool = True,
        more: Mapping[str, str] | None = None,
        **fields: str,
    ) -> Member:
        """Makes a member and starts it. `more` and `fields` go to the program, for example protocol="consumer"."""
        with self._making:
            self._made += 1
            name = f"{group}-{kind}-{self._made}"
            host = self._host(kind, own_process=own_process)
        reported = {
            "name": name,
            "bootstrap": self._bootstrap,
            "group": group,
            "topics": ",".join(topics),
            "assignors": ",".join(assignors),
            "session_ms": str(session_ms),
            **fields,
            **(more or {}),
        }
        if rack is not None:
            reported["rack"] = rack
        if instance is not None:
            reported["instance"] = instance
        member = Member(name, kind, group, host, reported)
        host.members[name] = member
        self.members.append(member)
        if start:
            member.start()
        return member

    def live(self, group: str) -> list[Member]:
        return [m for m in self.members if m.group == group and m.running]

    def close(self) -> None:
        hosts = [*self._shared.values(), *self._own]
        closers = [threading.Thread(target=host.close) for host in hosts]
        for closer in closers:
            closer.start()
        for closer in closers:
            closer.join()

    def _host(self, kind: str, *, own_process: bool) -> Host:
        if own_process:
            host = Host(kind)
            self._own.append(host)
            return host
        if kind not in self._shared:
            self._shared[kind] = Host(kind)
        return self._shared[kind]


def partitions_of(topics: Mapping[str, int]) -> frozenset[TopicPartition]:
    """Every partition of topics given with their partition counts."""
    return frozenset((topic, p) for topic, count in topics.items() for p in range(count))


def wait_until(condition: Callable[[], bool], limit_s: float, what: Callable[[], str]) -> None:
    """Until the condition holds; AssertionError with `what` says what there is instead, after `limit_s` or more."""
    deadline = time.monotonic() + limit_s * PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"after {limit_s:.0f} s: {what()}")
        time.sleep(0.05)


def wait_settled(
    members: Iterable[Member],
    expected: Iterable[TopicPartition] | Callable[[], Iterable[TopicPartition]],
    *,
    spread: int | None = None,
    limit_s: float = SETTLE_TIMEOUT_S,
    quiet_s: float = QUIET_S,
) -> dict[TopicPartition, Member]:
    """Waits until these members together own exactly `expected`, each partition once, unchanged for `quiet_s`.

    `expected` may be a function, asked again each time, where topics grow meanwhile. With `spread`, also until the
    fullest has at most so many more than the emptiest (a newcomer has nothing at first).
    Returns the owner of every partition. Raises AssertionError, naming what is missing, doubled and foreign.
    """
    present = list(members)
    fixed = () if callable(expected) else tuple(expected)

    def wanted_now() -> frozenset[TopicPartition]:
        return frozenset(expected() if callable(expected) else fixed)

    def settled() -> bool:
        wanted = wanted_now()
        if any(member.quiet_s < quiet_s for member in present):
            return False
        owned = [tp for member in present for tp in member.owned()]
        if len(owned) != len(wanted) or frozenset(owned) != wanted:
            return False
        loads = [len(member.owned()) for member in present]
        return spread is None or max(loads) - min(loads) <= spread

    wait_until(settled, limit_s, lambda: _describe(present, wanted_now()))
    return {tp: member for member in present for tp in member.owned()}


def _describe(members: Sequence[Member], wanted: frozenset[TopicPartition]) -> str:
    holders: dict[TopicPartition, list[str]] = defaultdict(list)
    for member in members:
        for tp in member.owned():
            holders[tp].append(member.name)
    lines = [
        f"not settled, loads {sorted(len(member.owned()) for member in members)}",
        f"missing: {sorted(wanted - set(holders))}",
        f"owned twice: {sorted((tp, names) for tp, names in holders.items() if len(names) > 1)}",
        f"not expected: {sorted(set(holders) - wanted)}",
    ]
    for member in members:
        last = [(e.kind, len(e.partitions), e.t_ms % 1_000_000) for e in member.events[-6:]]
        lines.append(f"{member.name}: owns {len(member.owned())}, {last} {member.errors[-2:]}")
    hosts = {member.host for member in members}
    lines += [f"stderr of {host.kind}: {host.complaints()[-1500:]}" for host in hosts if host.complaints()]
    return "\n".join(lines)
