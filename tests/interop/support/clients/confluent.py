"""Hosts confluent-kafka (librdkafka) consumers."""

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tests.interop.support.clients.host import HostedMember, emit, serve


class ConfluentMember(HostedMember):
    """Offsets are stored only after the report: librdkafka commits stored offsets in the background at any time."""

    def consume(self) -> None:
        consumer = Consumer(self._configuration())
        consumer.subscribe(
            self.fields["topics"].split(","), on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost
        )
        emit("joined", self.name)
        try:
            while not self.stopping.is_set():
                self._poll(consumer)
        finally:
            consumer.close()

    def _poll(self, consumer: Consumer) -> None:
        batch = consumer.consume(200, timeout=0.1)
        good = []
        for message in batch:
            error = message.error()
            if error is None:
                good.append((str(message.topic()), int(message.partition() or 0), int(message.offset() or 0)))
            elif error.code() != KafkaError._PARTITION_EOF:
                emit("error", self.name, text=str(error))
        self.consumed(good)
        following = {(topic, partition): offset + 1 for topic, partition, offset in good}
        if following:
            self._store(consumer, following)

    def _store(self, consumer: Consumer, following: dict[tuple[str, int], int]) -> None:
        for (topic, partition), offset in following.items():
            try:
                consumer.store_offsets(offsets=[TopicPartition(topic, partition, offset)])
            except KafkaException:
                continue  # revoked while the batch was handed over: its next owner reads it again

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.moved("assigned", [(p.topic, p.partition) for p in partitions])

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.moved("revoked", [(p.topic, p.partition) for p in partitions])

    def _lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.moved("lost", [(p.topic, p.partition) for p in partitions])

    def _configuration(self) -> dict[str, str | int | bool]:
        fields = self.fields
        config: dict[str, str | int | bool] = {
            "bootstrap.servers": fields["bootstrap"],
            "group.id": fields["group"],
            "client.id": self.name,
            "max.poll.interval.ms": max(30_000, int(fields["session_ms"])),
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 500,
            "enable.auto.offset.store": False,
            "log_level": 0,
        }
        if fields.get("protocol") == "consumer":
            config["group.protocol"] = "consumer"
        else:
            config["partition.assignment.strategy"] = fields["assignors"]
            config["session.timeout.ms"] = int(fields["session_ms"])
            config["heartbeat.interval.ms"] = int(fields.get("heartbeat_ms", "500"))
        if "rack" in fields:
            config["client.rack"] = fields["rack"]
        if "instance" in fields:
            config["group.instance.id"] = fields["instance"]
        if "metadata_ms" in fields:
            config["topic.metadata.refresh.interval.ms"] = int(fields["metadata_ms"])
        return config | {k.removeprefix("property."): v for k, v in fields.items() if k.startswith("property.")}


if __name__ == "__main__":
    serve(ConfluentMember)
