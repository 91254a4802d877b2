"""`make faults`: a led group on three real brokers, and what goes wrong around it. Each row is measured against what is
promised. Needs root for the network and the disk, and libfaketime for the
clocks.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence

from tests.measure.faults.brokers import deaths, nodes
from tests.measure.faults.inputs import metadata, odd_members, plugins, wedged, weights
from tests.measure.faults.logins import logins
from tests.measure.faults.others import observers, storm, topology, twins
from tests.measure.faults.rights import rights
from tests.measure.faults.rows import KINDS, Row, line
from tests.measure.faults.scene import Stage, stage
from tests.measure.faults.wire import connections, disks, network, processes

Wanted = Callable[[str], bool]
# By name: rows around one group on the common brokers, and rows with brokers of their own.
ON_STAGE: dict[str, Callable[[Stage, Wanted], Iterator[Row]]] = {
    "connections": connections,
    "processes": processes,
    "disks": disks,
    "plugins": plugins,
    "members": odd_members,
    "wedged": wedged,
    "metadata": metadata,
    "weights": weights,
    "instances": twins,
    "observers": observers,
    "storm": storm,
    "topology": topology,
    "deaths": deaths,
    "nodes": nodes,
}
APART: dict[str, Callable[[Wanted], Iterator[Row]]] = {"network": network, "logins": logins, "rights": rights}

LONG = ("deaths", "nodes", "storm", "topology")  # only where they are asked for: together they take as long as the rest


def run(names: Sequence[str]) -> Iterator[Row]:
    """`names` of groups or of rows; without any, all that is not long."""
    chosen = names or [name for name in (*ON_STAGE, *APART) if name not in LONG]

    def wants(group: str) -> Wanted:
        return lambda row: group in chosen or row in chosen

    single = {name for name in chosen if name not in ON_STAGE and name not in APART}
    staged = {name: rows for name, rows in ON_STAGE.items() if name in chosen or single}
    if staged:
        with stage() as common:
            for name, rows in staged.items():
                yield from rows(common, wants(name))
    for name, apart in APART.items():
        yield from apart(wants(name))


def main() -> int:
    parser = argparse.ArgumentParser(description="What goes wrong around an instance, and what it costs its group.")
    parser.add_argument("rows", nargs="*", help=f"only these, or these groups: {', '.join((*ON_STAGE, *APART))}")
    options = parser.parse_args()
    found: list[Row] = []
    for row in run(options.rows):
        if not found or found[-1].kind != row.kind:
            print(f"\n{KINDS[row.kind].name}: {KINDS[row.kind].must}.")
        print(line(row), flush=True)
        found.append(row)
    return 0 if found and all(row.passed for row in found) else 1


if __name__ == "__main__":
    sys.exit(main())
