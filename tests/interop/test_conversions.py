"""A running group that is converted to the protocol in which its broker assigns, and back, while records arrive."""

from collections.abc import Iterator

import pytest

from tests.conftest import missing_tool
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.jvm import MissingToolError, java
from tests.interop.support.members import Flock
from tests.interop.support.scenes.conversions import PROPERTIES, ConvertibleGroup, RecordSource

pytestmark = [pytest.mark.broker, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def brokers(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    try:
        java()
    except MissingToolError as missing:
        missing_tool(request.config, f"{missing}: no real broker")
    with KafkaCluster(properties=PROPERTIES) as cluster:
        yield cluster


@pytest.mark.parametrize("way", ["static", "dynamic"])
def test_the_watch_shows_what_members_have_and_no_record_is_lost(brokers: KafkaCluster, way: str) -> None:
    """Static members keep their partitions, as `convert` predicts."""
    with Flock(brokers.bootstrap) as flock:
        group = ConvertibleGroup(brokers, flock, f"convert-{way}", "java", way)
        with RecordSource(brokers, [group.name]) as source:
            there, back = group.convert("consumer"), group.convert("classic")
            source.stop()
        assert not [*there.differences, *back.differences]
        assert (there.last["protocol"], back.last["protocol"]) == ("consumer", "classic")
        assert there.last["members"] == {"consumer": 3}
        if way == "static":
            assert there.last["placement"] == there.last["predicted"]
        consumed = group.consumption(source.ends(group.name))
        assert consumed.records > 0
        assert (consumed.lost, consumed.backwards, consumed.uncommitted) == (0, 0, 0), consumed
