"""`python -m tests.measure.bench.idle`: what Bellwether costs while it leads one quiet group on a real broker.

Resident memory and CPU of the process over a minute, after the group has settled. Reads /proc, so Linux only.
"""

import argparse
import sys
import time

from rich.console import Console

from tests.interop.support.bellwether import Bellwether, cpu_s, resident_mb
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.members import Flock, partitions_of, wait_settled

PARTITIONS = 12
MEMBERS = 3
GROUP = "quiet"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.measure.bench.idle", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    console = Console(soft_wrap=True)
    if sys.platform != "linux":
        console.print("Reads /proc, so it runs on Linux only.")
        return 2
    every = partitions_of({GROUP: PARTITIONS})
    with KafkaCluster(nodes=1) as cluster:
        cluster.create_topic(GROUP, PARTITIONS)
        # The product's own defaults, as far as the test harness sets others; the HTTP server runs too.
        lead = Bellwether(cluster, [GROUP], metadata_interval_ms=10_000, http_address="127.0.0.1:0")
        with lead, Flock(cluster.bootstrap) as flock:
            members = [flock.member("confluent", GROUP, [GROUP]) for _ in range(MEMBERS)]
            wait_settled(members, every, spread=0)
            before, began = cpu_s(lead.pid), time.monotonic()
            time.sleep(options.seconds)
            share = (cpu_s(lead.pid) - before) / (time.monotonic() - began)
            memory = resident_mb(lead.pid)
            wait_settled(members, every, spread=0)
    console.print(
        f"leading one quiet group ({MEMBERS} members, {PARTITIONS} partitions) for {options.seconds:.0f} s:"
        f" {memory:.0f} MB resident, {share:.2%} of a core"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
