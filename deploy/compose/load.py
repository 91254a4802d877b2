"""A little load for the example: records with running numbers per key on the topics orders and clicks."""

import itertools
import os
import time

from confluent_kafka import Producer

KEYS = 200
PAUSE_S = 0.01


def main() -> None:
    producer = Producer({"bootstrap.servers": os.environ["BOOTSTRAP_SERVERS"], "linger.ms": 50})
    for number in itertools.count():
        for topic in ("orders", "clicks"):
            producer.produce(topic, key=f"key-{number % KEYS}", value=str(number // KEYS + 1))
        producer.poll(0)
        time.sleep(PAUSE_S)


if __name__ == "__main__":
    main()
