"""The exporter on each version of Kafka Streams: `python -m tests.differential.exported_topologies --count 200`.

Random topologies, each exported, read by Bellwether, and compared with what the builder of an equal one gives the
partition assignor (tests/differential/exported.py).
"""

import argparse
import sys
import time

from tests.differential.exported import VERSIONS, as_built, as_read, exporter, random_topologies


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200)
    count = parser.parse_args().count
    wrong = 0
    print("| Kafka Streams | topologies | subtopologies | equal | seconds |\n|---|---|---|---|---|")
    for version in VERSIONS:
        exporter(version)  # fetched and compiled outside of the time
        began = time.monotonic()
        lines = list(random_topologies(version, count))
        equal = sum(as_read(line["file"], line["subscribed"]) == as_built(line) for line in lines)
        parts = sum(len(line["parts"]) for line in lines)
        wrong += len(lines) - equal
        print(f"| {version} | {len(lines)} | {parts} | {equal} | {time.monotonic() - began:.1f} |", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
