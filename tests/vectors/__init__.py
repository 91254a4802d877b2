"""Bytes made by the Java classes: ProtocolVectors.java wrote protocol-vectors.jsonl with Kafka's own serializers."""

import json
from pathlib import Path
from typing import Any

from bellwether_kafka.protocol.messages import (
    AssignmentInfo,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    SubscriptionInfo,
)

VECTORS: tuple[dict[str, Any], ...] = tuple(
    json.loads(line) for line in (Path(__file__).parent / "protocol-vectors.jsonl").read_text("utf-8").splitlines()
)
CLASSES: dict[str, Any] = {
    "ConsumerProtocolSubscription": ConsumerProtocolSubscription,
    "ConsumerProtocolAssignment": ConsumerProtocolAssignment,
    "SubscriptionInfo": SubscriptionInfo,
    "AssignmentInfo": AssignmentInfo,
}
