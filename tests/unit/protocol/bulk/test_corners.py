"""What the bulk readers do with the few that are not like the others: the same as the plain readers, whatever it is."""

import pytest

from bellwether_kafka.protocol.bulk import read_subscriptions
from bellwether_kafka.protocol.messages import (
    ConsumerProtocolSubscription,
)
from bellwether_kafka.protocol.primitives import RemoteProtocolError
from tests.kit.consumers import subscription

GOOD = [subscription(3, ["orders", f"t{i}"], b"user data", [("orders", i)], 4, "az1") for i in range(40)]
BAD_RACK = subscription(3, ["orders"], None, (), 4, "RACK").replace(b"RACK", b"\xff\xfe\xfd\xfc")


def test_a_rack_that_is_no_text_is_an_error_of_its_member() -> None:
    with pytest.raises(RemoteProtocolError):
        ConsumerProtocolSubscription.decode(BAD_RACK)
    assert read_subscriptions([*GOOD, BAD_RACK]).errors.keys() == {len(GOOD)}
