"""`python -m tests.lab.conversions --groups 20`: groups of Java and librdkafka consumers on real brokers that are
converted to the `consumer` protocol and back while records arrive, each followed by `bellwether convert --watch`. It
prints what was predicted beside what is, and counts lost commits and records. Exit code 1 if anything was lost, or if
the watch showed something else than the members say.
"""

import argparse
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, islice, product
from statistics import median

from rich.console import Console
from rich.table import Table

from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.members import Flock
from tests.interop.support.scenes.conversions import (
    PROPERTIES,
    Consumption,
    ConvertedOneWay,
    ConvertibleGroup,
    RecordSource,
)
from tests.interop.support.scenes.settling import RELEASES

KINDS = ("java", "confluent")
AT_ONCE = 5
WAYS = ("static", "dynamic", "together")
COLUMNS = ("members", "restarted", "to", "groups", "moves: predicted", "seen", "across racks: predicted", "seen", "s")


def run(
    cluster: KafkaCluster, names: Sequence[tuple[str, str, str]]
) -> list[tuple[list[ConvertedOneWay], Consumption]]:
    """Converts these groups (name, kind, way) and back, all at once."""
    with Flock(cluster.bootstrap) as flock, ThreadPoolExecutor(len(names)) as pool:
        groups = list(pool.map(lambda named: ConvertibleGroup(cluster, flock, *named), names))
        with RecordSource(cluster, [group.name for group in groups]) as source:
            both = list(pool.map(lambda group: [group.convert(to) for to in ("consumer", "classic")], groups))
            source.stop()
        consumed = pool.map(lambda group: group.consumption(source.ends(group.name)), groups)
        return list(zip(both, consumed, strict=True))


def table(conversions: Sequence[ConvertedOneWay]) -> Table:
    shown = Table(*COLUMNS)
    for to, kind, way in product(("consumer", "classic"), KINDS, WAYS):
        alike = [c for c in conversions if (c.last["to"], c.kind, c.way) == (to, kind, way)]
        if alike:
            cells = [
                between([(c.last[source] or {}).get(count) for c in alike])
                for count in ("moved", "cross_rack")
                for source in ("predicted", "placement")
            ]
            shown.add_row(kind, way, to, str(len(alike)), *cells, f"{median(c.took_s for c in alike):.0f}")
    return shown


def between(values: Sequence[int | None]) -> str:
    """Returns the range of these values, "-" if there are none."""
    present = [value for value in values if value is not None]
    if not present:
        return "-"
    return str(min(present)) if min(present) == max(present) else f"{min(present)} to {max(present)}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.lab.conversions", description=__doc__)
    parser.add_argument("--groups", type=int, default=20)
    parser.add_argument("--release", choices=RELEASES, default="4.3", help="of the brokers")
    arguments = parser.parse_args()
    sorts = islice(cycle(product(KINDS, WAYS)), arguments.groups)
    named = [(f"converted-{number}", kind, way) for number, (kind, way) in enumerate(sorts)]
    ended: list[tuple[list[ConvertedOneWay], Consumption]] = []
    with KafkaCluster(properties=PROPERTIES, release=RELEASES[arguments.release]) as cluster:
        for first in range(0, len(named), AT_ONCE):
            ended += run(cluster, named[first : first + AT_ONCE])
            print(f"{len(ended)} groups converted and back", flush=True)
    conversions = [conversion for both, _ in ended for conversion in both]
    consumed = [consumption for _, consumption in ended]
    Console(width=140).print(table(conversions))
    differences = [sentence for conversion in conversions for sentence in conversion.differences]
    print("\n".join(differences) or f"the watch showed what members say in all {len(conversions)} conversions")
    totals = {name: sum(getattr(c, name) for c in consumed) for name in Consumption.__slots__ if name != "group"}
    print(", ".join(f"{name} {value}" for name, value in totals.items()))
    lost = totals["lost"] or totals["backwards"] or totals["uncommitted"]
    return 1 if differences or lost else 0


if __name__ == "__main__":
    sys.exit(main())
