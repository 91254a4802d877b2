"""Every vector decodes to Java's fields and encodes to Java's bytes."""

from collections import Counter
from typing import Any

from bellwether_kafka.protocol import blob_to_json
from tests.seeds import together
from tests.vectors import CLASSES, VECTORS

NAMED = {f"{n}-{v['kind']}-v{v['version']}": v for n, v in enumerate(VECTORS)}


def test_all_kinds_and_versions_are_there() -> None:
    seen = Counter((v["kind"], v["version"]) for v in VECTORS)
    streams = {(kind, version) for kind in ("SubscriptionInfo", "AssignmentInfo") for version in range(1, 12)}
    plain = {(k, v) for k in ("ConsumerProtocolSubscription", "ConsumerProtocolAssignment") for v in range(4)}
    assert set(seen) == streams | plain
    assert set(seen.values()) == {12}


@together("vector", NAMED, parts=4)
def test_decodes_to_javas_fields(vector: dict[str, Any]) -> None:
    described = blob_to_json(vector["kind"], bytes.fromhex(vector["hex"]))
    assert described == vector
    assert list(described) == list(vector)


@together("vector", NAMED, parts=4)
def test_encodes_to_javas_bytes(vector: dict[str, Any]) -> None:
    message = CLASSES[vector["kind"]].decode(bytes.fromhex(vector["hex"]))
    assert message.encode().hex() == vector["hex"]
    assert CLASSES[vector["kind"]].decode(message.encode()) == message
