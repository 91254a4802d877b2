"""plan, describe, explain, simulate and the leader say the same of a group: at rest, after joins, leaves, a take-over,
orders and a restart of Bellwether."""

import json
import time
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.interop.support.bellwether import Bellwether, toml
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.groups import without_members_in_the_way
from tests.interop.support.members import Flock, partitions_of, wait_settled, wait_until
from tests.interop.support.ports import LOOPBACK, PortLease
from tests.interop.support.streams_app import StreamsApp
from tests.interop.support.streams_led import app_without_members_in_the_way, application, sending, settings_of
from tests.interop.support.streams_load import Load
from tests.kit.commands import on_real_brokers as bellwether
from tests.patience import PATIENCE

PARTITIONS = 6
COUNTS = ("kept", "moved", "new", "lost", "total", "unowned", "cross_rack", "pending")
COPIES = ("standby", "warm-up")

Owners = Mapping[str, str]


class Voices:
    """All who speak of one group: four commands, each in this process, and the leader's page."""

    def __init__(self, group: str, config: Path, address: str) -> None:
        self.group, self.config, self.address = group, config, address

    def reported(self, command: str, *more: str) -> Any:
        ended = bellwether(command, self.group, *more, "--config", str(self.config), "-o", "json")
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return json.loads(ended.stdout)

    def fetched(self, path: str) -> Any:
        with urllib.request.urlopen(f"http://{self.address}{path}", timeout=10) as answer:
            return json.load(answer)

    def differences(self, members: int, *, led: bool, rebalance_led: bool) -> list[str]:
        """What two of them say differently of the group as it is now, "" for nothing. `led`: Bellwether leads it;
        `rebalance_led`: and its last rebalance was Bellwether's."""
        seen, plan, simulated = self.reported("describe"), self.reported("plan"), self.reported("simulate")
        shadow, first = seen["shadow"], simulated[0]
        if shadow is None:
            return [f"describe has no plan: {seen['trouble']}"]
        holds = {item: m["member_id"] for m in seen["members"] for item in _items_of(m)}
        target = owners(plan)
        pairs = [
            ("members", len(seen["members"]), members),
            ("members of plan", sum(len(h["members"]) for h in plan["holders"]), members),
            ("bellwether_members", len(seen["bellwether_members"]), int(led)),
            *((f"{name} of plan and simulate", plan[name], first[name]) for name in COUNTS),
            *((f"{name} of plan and describe", plan[name], shadow["moves"][name]) for name in COUNTS[:4]),
            ("owners of plan and simulate", target, owners(first)),
            ("cost before", plan["cost"]["before"], shadow["current"]),
            ("cost after", plan["cost"]["after"], shadow["planned"]),
            ("generation of a dry run", plan["generation"], None),
            ("hypothetical", (plan["hypothetical"], first["hypothetical"]), (False, False)),
            ("nothing is without an owner", len(holds), plan["kept"] + plan["moved"] + plan["lost"]),
        ]
        moves = {move["item"]: (move["source"], move["target"]) for move in plan["moves"]}
        reported = {answer["item"]: (answer["before"], answer["after"]) for answer in self.reported("explain")}
        pairs.append(("moves of plan and explain", moves, reported))
        item = min(target)
        (explanation,) = self.reported("explain", item)
        pairs.append(("explain's owner", explanation["after"], target[item]))
        processes = {member: h["name"] for h in plan["holders"] for member in h["members"]}
        now = {item: processes[member] for item, member in holds.items()}
        pairs.append(("explain's present owner", explanation["before"], now[item]))
        pairs.append(("who stays", {i: o for i, o in now.items() if i not in moves}, _without(target, moves)))
        if led:
            (status,) = [g for g in self.fetched("/api/groups") if g["group"] == self.group]
            pairs += [("leading", status["leading"], True), ("members of /api", status["members"], members)]
        if rebalance_led:
            pairs += self._of_the_leader(now)
        return [f"{what}: {own_value} and {other}" for what, own_value, other in pairs if own_value != other]

    def _of_the_leader(self, now: Owners) -> list[tuple[str, Any, Any]]:
        """The leader's report is of its last rebalance: what that gave to whom is what members have."""
        led, (line, *_) = self.fetched(f"/api/groups/{self.group}"), self._lines()
        return [
            ("owners of /api and describe", owners(led), dict(now)),
            *((f"{name} of /api and /decisions", led[name], line[name]) for name in COUNTS[:4]),
            ("generation of /api and /decisions", led["generation"], line["generation"]),
            ("what a round does not lose adds up", led["kept"] + led["moved"] + led["new"], led["total"]),
        ]

    def _lines(self) -> list[Any]:
        return [line for line in self.fetched("/decisions") if line["group"] == self.group]

    def agree(
        self,
        step: str,
        members: int,
        *,
        led: bool = True,
        rebalance_led: bool = True,
        moves: bool = False,
        send: Callable[[], str] = str,
    ) -> None:
        """Nobody contradicts another as soon as the group is at rest. `moves`: the plan wants to move something."""
        limit = time.monotonic() + 90 * PATIENCE
        while contradictions := self._contradictions(members, led=led, rebalance_led=rebalance_led, moves=moves):
            assert time.monotonic() < limit, f"{step}: {'; '.join(contradictions)}\n{send()}"
            time.sleep(0.2)

    def _contradictions(self, members: int, *, led: bool, rebalance_led: bool, moves: bool) -> list[str]:
        """A rebalance between the answers makes them differ, so what counts is a second comparison of the same
        group."""
        try:
            contradictions = self.differences(members, led=led, rebalance_led=rebalance_led)
        except (AssertionError, KeyError, ValueError, OSError) as error:
            # It rebalances just now, has led no rebalance yet, or does not listen yet.
            return [repr(error)]
        return contradictions or ["the plan moves nothing"] * (moves and not self.reported("plan")["moved"])


def owners(picture: Mapping[str, Any]) -> dict[str, str]:
    """Partition or task -> member or process, as a picture has it."""
    items = [(item, h["name"]) for h in picture["holders"] for item in h["items"]]
    return {item["name"]: name for item, name in items if item["state"] not in COPIES}


def _items_of(member: Mapping[str, Any]) -> list[str]:
    return member["active"] or [f"{topic}-{partition}" for topic, partition in member["owned"]]


def _without(target: Owners, moves: Mapping[str, object]) -> dict[str, str]:
    return {item: owner for item, owner in target.items() if item not in moves}


@pytest.mark.timeout(600)
def test_nobody_contradicts_another_of_consumers(kafka: KafkaCluster, tmp_path: Path) -> None:
    group, control = "agreed-orders", "agreed-control"
    kafka.create_topic(group, PARTITIONS, rf=3)
    expected = partitions_of({group: PARTITIONS})
    lease = PortLease()
    # It is restarted within its session.
    options = {"adopt": "take-over", "policy": "sticky-min-churn", "session_timeout_ms": 60_000}
    voices = _voices(kafka, tmp_path, group, lease, control, options)

    def order(*arguments: str) -> None:
        ended = bellwether(*arguments, "--bootstrap", kafka.bootstrap, "--topic", control)
        assert ended.returncode == 0, ended.stdout + ended.stderr

    with Flock(kafka.bootstrap) as flock:
        members = [flock.member("confluent", group, [group], ["cooperative-sticky"], rack="az1") for _ in range(2)]
        without_members_in_the_way(kafka, members, group, expected)
        voices.agree("led by a member", 2, led=False, rebalance_led=False)
        http = {"http_address": voices.address, "control_topic": control, "standby": True}
        with Bellwether(kafka, [group], options=options, **http) as lead:
            wait_until(lambda: bool(lead.log("decision", group=group)), 60, lead.tail)
            voices.agree("after a take-over", 2, send=lead.tail)
            members.append(flock.member("confluent", group, [group], ["cooperative-sticky"], rack="az2"))
            wait_settled(members, expected, spread=0)
            voices.agree("after a join", 3, send=lead.tail)
            members.pop(0).stop()
            wait_settled(members, expected)
            voices.agree("after a leave", 2, send=lead.tail)
            order("pin", group, f"{group}-0", "rack:az1")
            order("evacuate", group, "rack:az2")
            wait_until(lambda: members[0].owned() == expected, 60, lead.tail)
            voices.agree("under orders", 2, send=lead.tail)
            order("unpin", group, f"{group}-0")
            order("unpin", group, "*")
            wait_settled(members, expected, spread=0)
            voices.agree("after orders", 2, send=lead.tail)
            lead.stop()
            lead.start()
            voices.agree("after a restart", 2, rebalance_led=False, send=lead.tail)
    lease.release()


@pytest.mark.proof
@pytest.mark.timeout(900)
def test_nobody_contradicts_another_of_an_application(kafka: KafkaCluster, tmp_path: Path) -> None:
    """A Java member leads first; after the take-over nobody had what the last follow-up had handed out."""
    common = application(kafka, "agreed-counts", standbys=1, session_timeout_ms=30_000, probing_interval_ms=600_000)
    options = settings_of(common, tmp_path, adopt="take-over", stores="persistent", leave_on_stop=False)
    lease = PortLease()
    voices = _voices(kafka, tmp_path, common.application_id, lease, "", options)
    with StreamsApp(kafka, common) as app, Load(kafka, common.topics[0], keys=100) as load:
        load.produce(1_000)
        for name, rack in (("one", "az1"), ("two", "az2")):
            app.add(name, rack)
        app.wait_settled(limit_s=240)
        app_without_members_in_the_way(kafka, app)
        app.wait_counted(load.expected)
        threads = _threads(voices)
        voices.agree("led by Java", threads, led=False, rebalance_led=False, send=app.send)
        with (
            Bellwether(kafka, [common.application_id], options=options, http_address=voices.address) as lead,
            sending(lead, app),
        ):
            wait_until(lambda: bool(lead.log("streams_decision")), 120, lead.tail)
            app.wait_settled(limit_s=240)
            voices.agree("after a take-over", threads, send=lead.tail)
            app.add("three", "az3")
            app.wait_settled(limit_s=240)
            voices.agree("after a join", _threads(voices), send=lead.tail)
            app.instances["three"].stop()
            app.wait_settled(limit_s=240)
            voices.agree("after a leave", threads, send=lead.tail)
            lead.stop()
            lead.start()
            voices.agree("after a restart", threads, rebalance_led=False, send=lead.tail)
    lease.release()


def _threads(voices: Voices) -> int:
    return len(voices.reported("describe")["members"])


def _voices(
    kafka: KafkaCluster, folder: Path, group: str, lease: PortLease, control: str, options: Mapping[str, Any]
) -> Voices:
    """The commands go by the settings of the leader."""
    config = folder / "bellwether.toml"
    led, topics = (
        {"name": group, "mode": "lead", "subscribes": True, **options},
        {"control_topic": control} if control else {},
    )
    config.write_text(toml({"bootstrap.servers": kafka.bootstrap}, [led], **topics))
    return Voices(group, config, f"{LOOPBACK}:{lease.port}")
