"""`python -m tests.lab.served_orders --trials 10`: how long an evacuation of a rack takes in a group whose broker
assigns by Bellwether's plans: from the order until the members in the rack have nothing, and until every partition has
its new owner. Exit code 1 if a partition was lost, or if the rack did not have its share again afterwards.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tests.interop.support.bellwether import Bellwether, ordered
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.members import Flock, Member, wait_until
from tests.interop.support.scenes.served import (
    RACKS,
    SETTLE_S,
    address_in,
    asking_cluster,
    create_topic,
    joined,
    settled,
    settled_with_shares,
    started,
)

GROUP, CONTROL = "served-orders", "served-control"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evacuation:
    """Seconds from the order, by the wall clock that orders and members share. `rebalances` are those that Bellwether
    began for it."""

    rack: str
    empty_s: float
    owned_s: float
    rebalances: int


def evacuated(cluster: KafkaCluster, bellwether: Bellwether, members: Sequence[Member], rack: str) -> Evacuation:
    """Evacuates a rack, and withdraws the order. Raises AssertionError."""
    inside = [member for member in members if member.fields["rack"] == rack]
    begun = len(bellwether.log("rebalance_begun"))
    answer = ordered(cluster, CONTROL, "evacuate", GROUP, f"rack:{rack}", "-o", "json")
    at_ms = json.loads(answer.stdout)["order"]["at_ms"]
    wait_until(lambda: not any(member.owned() for member in inside), SETTLE_S, bellwether.tail)
    settled(members)
    rebalances = len(bellwether.log("rebalance_begun")) - begun
    empty_s, owned_s = (last_s(members, at_ms, kind) for kind in ("revoked", "assigned"))
    ordered(cluster, CONTROL, "unpin", GROUP, "--all")
    settled_with_shares(members)
    return Evacuation(rack=rack, empty_s=empty_s, owned_s=owned_s, rebalances=rebalances)


def last_s(members: Sequence[Member], since_ms: int, kind: str) -> float:
    """Returns when the last event of this kind came, in seconds."""
    times = [event.t_ms for member in members for event in member.events if event.kind == kind and event.partitions]
    return (max(times) - since_ms) / 1000


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.lab.served_orders", description=__doc__)
    parser.add_argument("--trials", type=int, default=10)
    trials = parser.parse_args().trials
    with tempfile.TemporaryDirectory(prefix="bellwether-assignor-") as name, asking_cluster(Path(name)) as cluster:
        create_topic(cluster)
        bellwether = Bellwether(
            cluster,
            [GROUP],
            options={"mode": "observe"},
            assignor_address=address_in(Path(name)),
            control_topic=CONTROL,
        )
        with Flock(cluster.bootstrap) as flock:
            try:
                started(bellwether)
                members = [joined(flock, GROUP, "bellwether-rack-first", rack) for rack in RACKS * 2]
                settled(members)
                every = [evacuated(cluster, bellwether, members, RACKS[n % len(RACKS)]) for n in range(trials)]
            finally:
                bellwether.stop()
    for e in every:
        print(f"{e.rack}: empty after {e.empty_s:.2f} s, owned after {e.owned_s:.2f} s, {e.rebalances} rebalance")
    for what, took_s in (("empty", [e.empty_s for e in every]), ("owned", [e.owned_s for e in every])):
        print(f"{what}: {min(took_s):.2f} to {max(took_s):.2f} s, {median(took_s):.2f} s in the median of {len(every)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
