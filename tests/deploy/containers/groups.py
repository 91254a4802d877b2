"""What a group of the composition's brokers has, asked of the brokers by `bellwether describe`."""

import contextlib
import json
from collections.abc import Mapping

from tests.deploy.containers.composition import Composition
from tests.deploy.containers.engine import EngineError
from tests.deploy.containers.play import IMAGE, NETWORK

BROKERS = ("kafka-1", "kafka-2", "kafka-3")
BOOTSTRAP = ",".join(f"{broker}:9092" for broker in BROKERS)


def owners(made: Composition, group: str) -> Mapping[str, int]:
    """How many partitions each member of the group has that has any, by member id."""
    asked = ("run", "--rm", "--network", NETWORK, IMAGE, "describe", group, "--bootstrap", BOOTSTRAP, "-o", "json")
    with contextlib.suppress(EngineError):  # the group may be unknown yet
        reported = json.loads(made.engine.run(*asked))
        has = {member["member_id"]: len(member["owned"]) for member in reported["members"]}
        return {member: count for member, count in has.items() if count}
    return {}
