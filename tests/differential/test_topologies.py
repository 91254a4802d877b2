"""The recorded topologies are those of Kafka's own classes, now as then."""

from tests.interop.support.jvm import Java
from tests.vectors.topologies import FILE, ask


def test_the_corpus_is_what_kafka_streams_says(jvm: Java) -> None:
    assert ask() == FILE.read_text("utf-8")
