"""Rows about what comes in: plug-ins that go wrong, members of odd bytes and sizes, a wedged broker, weights, topics
that change in the middle of a round.
"""

import math
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

from confluent_kafka import Producer

from bellwether_kafka.assignors.shared.entry_points import PLUGIN_GROUP
from bellwether_kafka.coordinator.events.avro import SchemaSet
from bellwether_kafka.coordinator.ghosts.coexistence import BETWEEN_EVICTIONS_S, WEDGED_S
from bellwether_kafka.protocol.messages.consumer import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from bellwether_kafka.protocol.primitives.types import TopicPartition
from tests.interop.support.bellwether import COMMAND
from tests.interop.support.members import Member, partitions_of, wait_settled, wait_until
from tests.interop.support.proxy import Fate, honest
from tests.interop.support.raw import LEAVE, RawError, RawMember, connect_to_coordinator, describe, text
from tests.interop.support.scenes.kill_points import LIMIT_S, PARTITIONS, TOPIC, Group
from tests.measure.faults.crowd import crowd
from tests.measure.faults.rows import Row
from tests.measure.faults.scene import DECISION_S, Scene, Stage, measure
from tests.measure.faults.wire import JOIN, SYNC, once

PLUGINS = """
from tests.unit.coordinator import plugins_gone_wrong as gone_wrong


class Hangs(gone_wrong.Hangs):
    def __init__(self):
        super().__init__("hangs")


class Raises(gone_wrong.Raises):
    def __init__(self):
        super().__init__("raises")


class Dies(gone_wrong.Dies):
    def __init__(self):
        super().__init__("dies")


class Eats(gone_wrong.Eats):
    def __init__(self):
        super().__init__("eats")
"""
MISCHIEF = {
    "hangs": "a plug-in that never ends",
    "raises": "a plug-in that raises",
    "dies": "a plug-in that ends its process",
    "eats": "a plug-in that eats all the memory it may have",
}
MALFORMED = b"\0\1\x7f\xff\xff\xff"  # a version, and an array that is longer than the request
SOUND = ConsumerProtocolSubscription(version=0, topics=()).encode()
BLOB_BYTES, BLOBS = 290_000, 3  # together above 80 % of message.max.bytes and below all of it
# Our watch looks every second, and rounds that we begin ourselves are ten seconds apart.
FOLLOWED_S = 1.5 + 10.0 + 3.0


class Topics(Group):
    """A group of Java members with topics of its own. What must be owned is what `counts` says at that moment.

    `idle`: a member may have got nothing. Nobody commits: before a round Java clients insist on a commit for their
    partitions, for as long as max.poll.interval.ms where the topic is gone, whoever leads.
    """

    def __init__(
        self, stage: Stage, name: str, counts: Mapping[str, int], also: Sequence[str] = (), *, idle: bool = False
    ) -> None:
        super().__init__(stage.cluster, stage.flock, name)
        self.counts, self._subscribed, self._idle = dict(counts), (*counts, *also), idle

    def member(self) -> Member:
        more = {"property.enable.auto.commit": "false"}
        return self.flock.member("java", self.name, self._subscribed, ["range"], metadata_ms="1000", more=more)

    def settle(self, quiet_s: float = 0.3) -> None:
        wait_settled(self.members, lambda: partitions_of(self.counts), limit_s=LIMIT_S, quiet_s=quiet_s)

    def owned(self) -> bool:
        held = [tp for member in self.members for tp in member.owned()]
        served = all(member.owned() or (self._idle and member.count("assigned")) for member in self.members)
        return served and sorted(held) == sorted(partitions_of(self.counts))


def plugins(stage: Stage, wanted: Callable[[str], bool]) -> Iterator[Row]:
    for name, fault in MISCHIEF.items():
        if wanted(name):
            with _installed() as folder:
                found = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
                command = ("env", f"PYTHONPATH={found}", *COMMAND)
                promised_s, options = DECISION_S + stage.at_once_s, {"policy": name}
                yield measure(
                    stage, "solver", name, fault, promised_s, _planned_cheaply, command=command, options=options
                )


@contextmanager
def _installed() -> Iterator[Path]:
    """A distribution with the plug-ins."""
    with tempfile.TemporaryDirectory(prefix="bellwether-plugins-") as directory:
        folder = Path(directory)
        info = folder / "gone_wrong-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: gone-wrong\nVersion: 1.0\n")
        points = "\n".join(f"{name} = gone_wrong_plugins:{name.capitalize()}" for name in MISCHIEF)
        (info / "entry_points.txt").write_text(f"[{PLUGIN_GROUP}]\n{points}\n")
        (folder / "gone_wrong_plugins.py").write_text(PLUGINS)
        yield folder


def _planned_cheaply(scene: Scene) -> float:
    took_s = scene.joined()
    generation = scene.group.last().generation
    (reported, *_) = scene.lead.logged("decision", generation=generation)
    assert scene.led_by() == "the sidecar"
    why = "; ".join(map(str, (*reported["not_taken"], *reported["warnings"])))[:90]
    scene.message.append(f"{reported['source']} sent ({why})")
    return took_s


def odd_members(stage: Stage, wanted: Callable[[str], bool]) -> Iterator[Row]:
    claims = ConsumerProtocolSubscription(
        version=1, topics=(), owned_partitions=tuple(TopicPartition(TOPIC, p) for p in range(PARTITIONS))
    )
    nonsense = ConsumerProtocolSubscription(version=0, topics=(), user_data=os.urandom(400))
    for kind, name, fault, metadata in (
        ("poison", "broken-off", "a subscription whose last list is longer than its bytes", _longer_than_it_is()),
        ("poison", "liar", "a member that claims every partition and subscribes to nothing", claims.encode()),
        ("poison", "nonsense", "400 random bytes as userData", nonsense.encode()),
        (
            "version",
            "version-99",
            "a subscription of version 99 with unknown fields",
            b"\0\x63" + SOUND[2:] + b"x" * 40,
        ),
    ):
        if wanted(name):
            yield measure(stage, kind, name, fault, stage.at_once_s, partial(_beside, metadata))
    if wanted("oversized"):
        fault = f"{BLOBS} members with {BLOB_BYTES:,} bytes of userData each"
        yield measure(stage, "size", "oversized", fault, 2 * stage.at_once_s + DECISION_S, _oversized)


def _longer_than_it_is() -> bytes:
    """Sound up to what the broker reads itself, then a list of owned partitions that is longer than the bytes left."""
    return b"\0\1" + SOUND[2:] + b"\x7f\xff\xff\xff"


def _beside(metadata: bytes, scene: Scene) -> float:
    with crowd(scene.cluster.bootstrap, scene.group.name, [metadata]) as odd:
        took_s = scene.joined()
        wait_until(lambda: odd.resting, LIMIT_S, lambda: "the odd member does not rest")
        assert ConsumerProtocolAssignment.decode(odd.given[0]).partitions == (), "it got partitions"
        assert scene.led_by() == "the sidecar"
    scene.message.append("the odd member gets nothing and stays")
    scene.group.settle()
    return took_s


def _oversized(scene: Scene) -> float:
    """From the third such member's coming until everybody rests again."""
    subscription = ConsumerProtocolSubscription(version=0, topics=(), user_data=bytes(BLOB_BYTES)).encode()
    with crowd(scene.cluster.bootstrap, scene.group.name, [subscription] * (BLOBS - 1)):
        assert scene.led_by() == "the sidecar"
        began = time.monotonic()
        with crowd(scene.cluster.bootstrap, scene.group.name, [subscription]):
            took_s = scene.group.until_owned(began)
            (refused, *_) = scene.lead.logged("membership", what="REFUSED")
            scene.message.append(f"refused: {refused['reason']}"[:150])
    return took_s


def wedged(stage: Stage, wanted: Callable[[str], bool]) -> Iterator[Row]:
    for name, fault, promised_s, evict in (
        (
            "wedged",
            "a subscription that wedges the broker, until it is named; nobody is removed",
            WEDGED_S + 5.0,
            False,
        ),
        (
            "wedge-ended",
            "the same, where the operator allows its removal",
            WEDGED_S + 2 * BETWEEN_EVICTIONS_S + 5.0 + stage.at_once_s,
            True,
        ),
    ):
        if wanted(name):
            # Whoever joins last gets the broker's error, and a Java client dies of it, whoever leads: let that be us.
            options = {"evict_malformed": evict, "heartbeat_interval_ms": 2_000}
            yield measure(stage, "wedge", name, fault, promised_s, partial(_wedged, evict), options=options)


def _wedged(evict: bool, scene: Scene) -> float:
    cluster, group, lead = scene.cluster, scene.group, scene.lead
    lead.logged("online_conversion", group=group.name)  # it has seen the group at rest
    with ExitStack() as stack:
        raw = RawMember(cluster.bootstrap, group.name, [("range", MALFORMED)])
        stack.callback(raw._connection.close)
        began = time.monotonic()
        joining = threading.Thread(target=_join_with_nonsense, args=(raw,), daemon=True)
        joining.start()
        lead.wait_for_words("KAFKA-20570", LIMIT_S)
        named_s = time.monotonic() - began
        scene.message.append(f"named after {named_s:.1f} s")
        if evict:
            group.members.append(group.member())
            return group.until_owned(began)
        assert "so that the rebalance can end" not in lead.text()
        for member in describe(cluster.bootstrap, group.name).members:
            if member.client_id == "raw":
                body = text(group.name) + text(member.member_id)
                connect_to_coordinator(cluster.bootstrap, group.name).ask(LEAVE, body)
        group.settle()
        return named_s


def _join_with_nonsense(raw: RawMember) -> None:
    with suppress(RawError, OSError):  # it is removed, or the row has ended
        raw.rebalance()


def metadata(stage: Stage, wanted: Callable[[str], bool]) -> Iterator[Row]:
    promised_s = FOLLOWED_S + stage.at_once_s
    for when, reported, api, answer in (
        ("early", "before the plan, as Bellwether's JoinGroup is answered", JOIN, True),
        ("late", "after the plan, as Bellwether's SyncGroup leaves", SYNC, False),
    ):
        for name, fault, change in (
            ("deleted", "a topic is deleted", _delete),
            ("created", "a topic that is subscribed to appears", _create),
            ("grown", "a topic grows", _grow),
        ):
            if wanted(f"{name}-{when}"):
                work = partial(_changed, change, api, answer)
                row = f"{name}-{when}"
                yield measure(stage, "metadata", row, f"{fault} {reported}", promised_s, work, make=_two_topics)


def _two_topics(stage: Stage, name: str) -> Topics:
    counts = {f"{name}-stays": 6, f"{name}-changes": 6}
    for topic, partitions in counts.items():
        stage.cluster.create_topic(topic, partitions, rf=1)
    return Topics(stage, name, counts, also=(f"{name}-appears",))


def _changed(change: Callable[[Topics], None], api: int, answer: bool, scene: Scene) -> float:
    group = scene.group
    assert isinstance(group, Topics)
    began = time.monotonic()
    changed = threading.Event()

    def meanwhile() -> None:
        change(group)
        changed.set()

    scene.proxy.rule = once(api, Fate.PASS, answer=answer, meanwhile=meanwhile)
    group.members.append(group.member())
    wait_until(changed.is_set, LIMIT_S, scene.lead.tail)
    scene.proxy.rule = honest
    took_s = group.until_owned(began)
    assert scene.led_by() == "the sidecar"
    return took_s


def _delete(group: Topics) -> None:
    group.cluster.delete_topic(f"{group.name}-changes")
    del group.counts[f"{group.name}-changes"]


def _create(group: Topics) -> None:
    group.cluster.create_topic(f"{group.name}-appears", 4, rf=1)
    group.counts[f"{group.name}-appears"] = 4


def _grow(group: Topics) -> None:
    group.cluster.add_partitions(f"{group.name}-changes", 9)
    group.counts[f"{group.name}-changes"] = 9


def weights(stage: Stage, wanted: Callable[[str], bool]) -> Iterator[Row]:
    if not wanted("weights"):
        return
    topic = "faults-weights"
    stage.cluster.create_topic(topic, 1)
    _write_weights(stage.cluster.client_config("admin", "admin"), topic)
    fault = "weights of NaN, infinity, -5, 1e300, of three days ago and of tomorrow"
    yield measure(
        stage, "weights", "weights", fault, stage.at_once_s, _weighed, make=_any_spread,
        options={"policy": "load-aware"}, weights={"topic": topic},
    )  # fmt: skip


def _any_spread(stage: Stage, name: str) -> Topics:
    return Topics(stage, name, {TOPIC: PARTITIONS}, idle=True)


def _write_weights(properties: Mapping[str, str], topic: str) -> None:
    producer, schemas, now_ms = Producer(dict(properties)), SchemaSet.load(), int(time.time() * 1000)
    day_ms = 86_400_000
    absurd = [(math.nan, 0), (math.inf, 0), (-5.0, 0), (1e300, 0), (7.0, -3 * day_ms), (7.0, day_ms)]
    for partition, (size, off_ms) in enumerate([*absurd, *[(1_000.0, 0)] * (PARTITIONS - len(absurd))]):
        found = {"topic": TOPIC, "partition": partition, "bytes_per_s": size, "records_per_s": 1.0, "windows": 1}
        value = schemas.encode("weight", {**found, "estimated_at_ms": now_ms + off_ms})
        producer.produce(topic, value, f"{TOPIC}-{partition}".encode())
    assert producer.flush(20) == 0


def _weighed(scene: Scene) -> float:
    took_s = scene.joined()
    (reported, *_) = scene.lead.logged("weights_refused")
    left_out = {k: v for k, v in reported.items() if isinstance(v, int) and k != "used"}
    loads = sorted(len(member.owned()) for member in scene.group.members)
    assert scene.led_by() == "the sidecar"
    scene.message.append(
        f"{reported['used']} of {PARTITIONS} weights used, left out {left_out}; partitions per member {loads}"
    )
    return took_s
