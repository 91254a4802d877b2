"""A plain confluent-kafka consumer that knows nothing of Bellwether. BOOTSTRAP_SERVERS, GROUP, TOPICS, CLIENT_RACK;
where its broker assigns, also GROUP_PROTOCOL=consumer and GROUP_REMOTE_ASSIGNOR."""

import os

from confluent_kafka import Consumer, TopicPartition


def reported(what: str, partitions: list[TopicPartition]) -> None:
    print(what, sorted((p.topic, p.partition) for p in partitions), flush=True)  # noqa: T201 - its log


def protocol() -> dict[str, str]:
    if os.environ.get("GROUP_PROTOCOL") != "consumer":
        return {"partition.assignment.strategy": "range"}
    return {"group.protocol": "consumer", "group.remote.assignor": os.environ["GROUP_REMOTE_ASSIGNOR"]}


def main() -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": os.environ["BOOTSTRAP_SERVERS"],
            "group.id": os.environ["GROUP"],
            "client.rack": os.environ.get("CLIENT_RACK", ""),
            "auto.offset.reset": "earliest",
            **protocol(),
        }
    )
    consumer.subscribe(
        os.environ["TOPICS"].split(","),
        on_assign=lambda _, partitions: reported("assigned", partitions),
        on_revoke=lambda _, partitions: reported("revoked", partitions),
    )
    while True:
        consumer.poll(1.0)


if __name__ == "__main__":
    main()
