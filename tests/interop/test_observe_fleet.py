"""Groups that a pattern selects are found, looked at and dropped, and the file is read again, on a real broker."""

import json
import os
import signal
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.interop.support.bellwether import Bellwether, toml
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.members import Flock, partitions_of, wait_settled, wait_until
from tests.interop.support.ports import LOOPBACK, PortLease
from tests.interop.support.rebalances import rebalances

pytestmark = pytest.mark.broker

TEAM_A, TEAM_B, LED, TEST = "fleet-a-orders", "fleet-b-orders", "fleet-a-led", "fleet-a-test"


class Fleet(Bellwether):
    """Observes by patterns; its file can be written anew."""

    def __init__(self, kafka: KafkaCluster, address: str, *entries: dict[str, Any]) -> None:
        super().__init__(kafka, (), http_address=address)
        self._kafka, self._address = kafka, address
        self._config = self.text_of(*entries)

    def text_of(self, *entries: dict[str, Any]) -> str:
        login = {"bootstrap.servers": self._kafka.bootstrap}
        return toml(login, entries, http_address=self._address, instance_id="bellwether")

    def write(self, text: str) -> None:
        """As an editor does: another file in its place."""
        other = Path(self._directory.name) / "other"
        other.write_text(text)
        other.replace(Path(self._directory.name) / "bellwether.toml")

    def get(self, path: str) -> Any:
        try:
            with urllib.request.urlopen(f"http://{self._address}{path}", timeout=30) as answer:
                return json.load(answer)
        except OSError:
            return []

    def shown(self) -> dict[str, str]:
        """State by group."""
        return {group["group"]: group["state"] for group in self.get("/api/groups")}


@pytest.mark.timeout(300)
def test_groups_are_found_by_a_pattern_and_the_file_is_read_again(kafka: KafkaCluster) -> None:
    names = (TEAM_A, TEAM_B, TEST)
    for name in names:
        kafka.create_topic(name, 4, rf=3)
    lease = PortLease()
    address = f"{LOOPBACK}:{lease.port}"
    entries = ({"match": "fleet-a-*", "exclude": ["*-test"]}, {"match": "nobody-*"})
    with Flock(kafka.bootstrap) as flock:
        members = [flock.member("confluent", name, [name], ["range"], rack="az1") for name in names]
        for name, member in zip(names, members, strict=True):
            wait_settled([member], partitions_of({name: 4}))
        before = rebalances(kafka, TEAM_A)
        with Fleet(kafka, address, *entries) as fleet:
            wait_until(lambda: fleet.shown() == {TEAM_A: "stable"}, 60, fleet.tail)
            document = fleet.get(f"/api/groups/{TEAM_A}")
            assert sorted(item["name"] for holder in document["holders"] for item in holder["items"]) == [
                f"{TEAM_A}-{partition}" for partition in range(4)
            ]
            assert document["observed"]["shadow"]["current"]["unowned"] == 0
            assert "No group fits the pattern nobody-* yet" in fleet.logged("pattern_matches_nothing")[0]["reason"]

            fleet.write("[[groups")
            os.kill(fleet.pid, signal.SIGHUP)
            assert "is not valid TOML" in fleet.logged("configuration_refused")[0]["reason"]
            fleet.write(fleet.text_of({"match": "fleet-b-*"}, {"name": LED, "mode": "lead"}))
            wait_until(lambda: fleet.shown() == {TEAM_B: "stable"}, 60, fleet.tail)
            (waits,) = fleet.logged("restart_needed")
            assert waits["reason"].startswith(f"Group {LED} is to be led, which begins at a start only")
        assert rebalances(kafka, TEAM_A) == before
    lease.release()
