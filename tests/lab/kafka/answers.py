"""What Kafka's unit tests ask, answered by Bellwether's assignors and codecs: a line of JSON in, a line out.

The other side is tests/java/kafka-tests. An error of Bellwether becomes an answer, too, and an exception there.
Argument: the policy in place of HighAvailabilityTaskAssignor.
"""

import base64
import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from bellwether_kafka.assignors.consumer import Policy, decide
from bellwether_kafka.assignors.shared import ClusterView, Decision, Memory, RawGroup, RawMember
from bellwether_kafka.protocol.messages import AssignmentInfo, SubscriptionInfo
from tests.lab.kafka import api_answers, task_answers
from tests.lab.kafka.views import GENERATION, Question

CODECS: dict[str, type[AssignmentInfo] | type[SubscriptionInfo]] = {
    "AssignmentInfo": AssignmentInfo,
    "SubscriptionInfo": SubscriptionInfo,
}


def consumers(question: Question) -> dict[str, Any]:
    """A whole rebalance of a leader that remembers nothing: every member's bytes, and what is pending for a
    rebalance."""
    members = tuple(RawMember(m["id"], m["instance"], base64.b64decode(m["metadata"])) for m in question["members"])
    raw = RawGroup("group", GENERATION, question["protocol"], members)
    decision = decide(raw, _cluster(question), Memory.empty(), Policy("kafka"), 0)
    if not isinstance(decision, Decision):
        return {"error": decision.reason}
    plan = decision.plan
    return {
        "assignments": {member: base64.b64encode(blob).decode() for member, blob in decision.assignments},
        "withheld": [
            [*plan.cluster.name(flat), plan.group.members[int(plan.owner[flat])].member_id]
            for flat in np.flatnonzero(plan.pending).tolist()
        ],
    }


def _cluster(question: Question) -> ClusterView:
    """Topics come with their number of partitions, or for each partition with the number of its set of racks."""
    sets = question["racks"]
    topics = {
        topic: [[]] * configs if isinstance(configs, int) else [sets[number] for number in configs]
        for topic, configs in question["topics"].items()
    }
    return ClusterView.of({topic: racks for topic, racks in topics.items() if racks})


def codec(question: Question) -> dict[str, Any]:
    """The same message, decoded and encoded again; of a future version nobody can read more than the head."""
    message = CODECS[question["message"]].decode(base64.b64decode(question["bytes"]))
    if isinstance(message, SubscriptionInfo) and message.future:
        return {"bytes": question["bytes"]}
    return {"bytes": base64.b64encode(message.encode()).decode()}


ABOUT: Mapping[str, Callable[[Question], dict[str, Any]]] = {
    "consumers": consumers,
    "codec": codec,
    "tasks": task_answers.plan,
    "actives": task_answers.rack_actives,
    "standbys": task_answers.rack_standbys,
    "spread": task_answers.spread,
    "movable": task_answers.movable,
    "movements": task_answers.movements,
    "sticky": api_answers.sticky,
    "identity": api_answers.identity,
    "api_standbys": api_answers.default_standbys,
    "api_rack_actives": api_answers.rack_actives,
    "api_rack_standbys": api_answers.rack_standbys,
    "validate": api_answers.validate,
}


def main() -> None:
    for line in sys.stdin:
        question = json.loads(line)
        try:
            answer = ABOUT[question["about"]](question)
        except Exception as error:  # noqa: BLE001 - it is the test's verdict, on the other side
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
