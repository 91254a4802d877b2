"""What the steps of the trial stand on: one broker, Bellwether as a user runs it, consumers, and what was found.

Commands, HTTP, logs and brokers alone judge, so that a step can be tried on any version of the product.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.interop.support.bellwether import Bellwether, Ended, run_to_end, toml
from tests.interop.support.brokers import LOOPBACK, KafkaCluster, PortLease
from tests.interop.support.members import Flock, Member, partitions_of, wait_settled
from tests.interop.support.raw import RawError
from tests.measure.role import API, METRICS, BrokersView, Reported, Shown, answer, reported

POLL_S = 0.2
LED_WITHIN_S = 60.0  # what the product promises
PARTITIONS = 6
RACKS = ("az1", "az2", "az3")
WIDE = {"COLUMNS": "200"}


@dataclass(frozen=True, slots=True)
class Outcome:
    """One step: the defect that it belongs to, what must hold, what was seen, whether it held, and how long it took."""

    defect: str
    must_hold: str
    observed: str
    held: bool
    seconds: float


@dataclass(slots=True)
class Findings:
    """What a step sees, in its order."""

    seen: list[str] = field(default_factory=list)
    broken: int = 0

    def check(self, holds: bool, seen: str) -> None:
        """`seen` says what is the case, whether it should be or not."""
        self.broken += not holds
        self.seen.append(seen if holds else f"NOT HELD: {seen}")

    def note(self, seen: str) -> None:
        """What is worth telling and is not judged."""
        self.seen.append(seen)


def within(limit_s: float, condition: Callable[[], bool]) -> float | None:
    """Seconds until the condition holds, None where it does not in time. Who does not answer now is asked again."""
    began = time.monotonic()
    while time.monotonic() - began <= limit_s:
        try:
            if condition():
                return time.monotonic() - began
        except (OSError, RawError):
            pass
        time.sleep(POLL_S)
    return None


def after(took_s: float | None, limit_s: float = LED_WITHIN_S) -> str:
    return f"after {took_s:.1f} s" if took_s is not None else f"not within {limit_s:.0f} s"


@dataclass(frozen=True, slots=True)
class Product:
    """A `bellwether run`, its page and its file of settings."""

    process: Bellwether
    address: str
    config: Path

    def reported(self, group: str) -> Mapping[str, Reported | None]:
        """By page. Raises OSError where it does not answer."""
        pages = reported(self.address)
        return {page: groups.get(group) for page, groups in pages.items()}

    def get(self, path: str) -> tuple[int, str]:
        return answer(self.address, path)

    def reports_leading(self, group: str) -> bool:
        return all(message is not None and message.leading for message in self.reported(group).values())

    def reason(self, group: str) -> str:
        """Why it does not lead, by the page or the metrics; "" where neither says so."""
        message = self.reported(group)
        return next((r.reason for r in (message[API], message[METRICS]) if r is not None and r.reason), "")

    def lines(self, group: str, after_generation: int = 0) -> list[Mapping[str, Any]]:
        """What /decisions has of a group, the newest first."""
        found = json.loads(self.get("/decisions")[1])
        return [line for line in found if line["group"] == group and line["generation"] > after_generation]


class Stage:
    """One broker for all steps, which choose names of their own. `folder` is for files."""

    def __init__(self, cluster: KafkaCluster, folder: Path) -> None:
        self.cluster = cluster
        self.folder = folder
        self.brokers = BrokersView(cluster)

    @contextmanager
    def bellwether(self, *groups: str, options: Mapping[str, Any] | None = None, **settings: Any) -> Iterator[Product]:
        """README's own configuration: brokers, names and `mode = "lead"`, and what the step adds. Does not wait."""
        lease = PortLease()
        address = f"{LOOPBACK}:{lease.port}"
        # `metadata_interval_ms` is the product's default; the support code of the tests has a shorter one.
        given = {"metadata_interval_ms": 10_000, "http_address": address, **settings}
        process = Bellwether(self.cluster, groups, options=options, **given)
        try:
            process.start(wait=False)
            yield Product(process, address, self.config(*groups, options=options, **settings))
        finally:
            process.__exit__(None, None, None)
            lease.release()

    def config(self, *groups: str, options: Mapping[str, Any] | None = None, **settings: Any) -> Path:
        """A file of settings for commands."""
        file = self.folder / f"{groups[0]}.toml"
        named = [{"name": name, "mode": "lead", **(options or {})} for name in groups]
        file.write_text(toml({"bootstrap.servers": self.cluster.bootstrap}, named, http_address="", **settings))
        return file

    def run(self, *arguments: str, config: Path | None = None) -> Ended:
        """A command against the brokers, by --config or --bootstrap."""
        where = ("--bootstrap", self.cluster.bootstrap) if config is None else ("--config", str(config))
        return run_to_end([*arguments, *where], environment=WIDE)

    def json(self, *arguments: str, config: Path | None = None) -> Any:
        """What a command prints with -o json. Raises AssertionError where it is not JSON."""
        ended = self.run(*arguments, "--output", "json", config=config)
        try:
            return json.loads(ended.stdout)
        except json.JSONDecodeError as error:
            message = f"{' '.join(arguments)} (exit code {ended.code}) is not JSON: {ended.text[-500:]}"
            raise AssertionError(message) from error

    def shown(self, group: str) -> Shown:
        return self.brokers.shown(group)

    def wait_led(self, product: Product, group: str, limit_s: float = LED_WITHIN_S) -> float | None:
        """Seconds until brokers and the process agree that it leads, or that it waits alone for members to lead."""

        def leads() -> bool:
            now = self.shown(group)
            return now.led_by_bellwether and (now.others == 0 or product.reports_leading(group))

        return within(limit_s, leads)

    def led(self, product: Product, group: str) -> None:
        """For steps that begin with a led group. Raises AssertionError where it is not."""
        assert self.wait_led(product, group) is not None, f"{group} is not led:\n{product.process.tail(15)}"

    def members(
        self, flock: Flock, group: str, count: int = 2, assignor: str = "cooperative-sticky", topic: str | None = None
    ) -> list[Member]:
        """Consumers in racks az1, az2, ... of a topic that is made if it has the group's name; does not wait."""
        if topic is None:
            self.cluster.create_topic(group, PARTITIONS)
        return [self.joining(flock, group, assignor, topic or group, rack=rack) for rack in RACKS[:count]]

    def joining(
        self, flock: Flock, group: str, assignor: str = "cooperative-sticky", topic: str = "", *, rack: str | None
    ) -> Member:
        return flock.member("confluent", group, [topic or group], [assignor], rack=rack)

    def settled(self, members: Sequence[Member], topic: str) -> None:
        """Raises AssertionError where these members do not come to own the topic together."""
        wait_settled(members, partitions_of({topic: PARTITIONS}), limit_s=30)

    def rests(self, group: str, quiet_s: float = 4.0, limit_s: float = 60.0) -> int:
        """Waits until no generation has passed for a while; returns the newest."""
        generation, since = self.brokers.generation(group), time.monotonic()
        deadline = since + limit_s
        while time.monotonic() - since < quiet_s:
            assert time.monotonic() < deadline, f"{group} does not come to rest"
            time.sleep(POLL_S)
            now = self.brokers.generation(group)
            if now != generation:
                generation, since = now, time.monotonic()
        return generation

    def topics(self) -> set[str]:
        return set(self.cluster.admin.list_topics(timeout=10).topics)
