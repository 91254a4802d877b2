"""One real consumer of the demo, in a process of its own, so that it can be killed. It says what it owns, line by line.

Each line is JSON: {"name", "member_id", "owned": [[topic, partition], ...]}, on every change and a few times a second.
"""

import json
import os
import sys
import time

from confluent_kafka import Consumer, KafkaException

REPORT_SECONDS = 0.2
POLL_SECONDS = 0.05


def main() -> None:
    """Argument: JSON with "name", "topics" and "properties" of the consumer. Ends when its parent does."""
    task = json.loads(sys.argv[1])
    consumer = Consumer(task["properties"])
    consumer.subscribe(task["topics"])
    parent = os.getppid()
    last, reported_at = "", 0.0
    try:
        while os.getppid() == parent:
            consumer.poll(POLL_SECONDS)
            owned = sorted([p.topic, p.partition] for p in consumer.assignment())
            line = json.dumps({"name": task["name"], "member_id": consumer.memberid() or "", "owned": owned})
            if line != last or time.monotonic() - reported_at > REPORT_SECONDS:
                print(line, flush=True)
                last, reported_at = line, time.monotonic()
    except (KafkaException, BrokenPipeError, KeyboardInterrupt):
        return
    finally:
        consumer.close()


if __name__ == "__main__":
    main()
