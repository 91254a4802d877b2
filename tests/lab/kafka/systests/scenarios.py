"""The table of scenarios: Kafka's tests (tests/kafkatest/tests/streams in apache/kafka), by name."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from tests.interop.support.jvm import BROKER_39, BROKER_40, CURRENT, Release
from tests.lab.kafka.systests.broker_down import down_at_start, killed_while_down, remains_down, scaled_in_while_down
from tests.lab.kafka.systests.relational import relational
from tests.lab.kafka.systests.repartition import named, optimized
from tests.lab.kafka.systests.scene import Scene
from tests.lab.kafka.systests.small import compatible, shutdown_deadlock
from tests.lab.kafka.systests.smoke import bounced, brokers_fail
from tests.lab.kafka.systests.standby_replicas import replicas
from tests.lab.kafka.systests.static_membership import rolling_bounces
from tests.lab.kafka.systests.upgrades import probed, upgraded

LIMIT_S = 600.0


@dataclass(frozen=True, slots=True)
class Scenario:
    """`steps` raise FailedError, or AssertionError, where Kafka's test would fail. `limit_s` bounds them. A scenario
    that cannot be run has its reason in `missing`. There is one broker where the test does nothing to brokers and needs
    no replicas, if Kafka has three there."""

    name: str
    test: str
    what: str
    steps: Callable[[Scene], None] | None = None
    nodes: int = 3
    properties: Mapping[str, str] = field(default_factory=dict)
    brokers: Release = CURRENT
    limit_s: float = LIMIT_S
    missing: str = ""


def _smoke(name: str, guarantee: str, *, crash: bool) -> Scenario:
    what = f"{'kill -9' if crash else 'clean stop'} of one instance after another, `{guarantee}`"
    return Scenario(name, "streams_smoke_test", what, partial(bounced, guarantee=guarantee, crash=crash))


def _brokers_fail(failure: str, what: str) -> Scenario:
    steps = partial(brokers_fail, failure=failure.replace("-", "_"))
    return Scenario(f"brokers-{failure}", "streams_broker_bounce_test", what, steps)


def _broker_down(name: str, what: str, steps: Callable[[Scene], None]) -> Scenario:
    return Scenario(f"broker-down-{name}", "streams_broker_down_resilience_test", what, steps, nodes=1)


def _relational(name: str, guarantee: str, *, crash: bool) -> Scenario:
    what = f"foreign-key join, {'kill -9' if crash else 'clean stop'} of two of three instances, `{guarantee}`"
    steps = partial(relational, guarantee=guarantee, crash=crash)
    return Scenario(f"relational-{name}", "streams_relational_smoke_test", what, steps, nodes=1)


def _compatible(name: str, brokers: Release, guarantee: str) -> Scenario:
    what = f"brokers of {name.split('-', maxsplit=1)[0]}, `{guarantee}`"
    steps = partial(compatible, guarantee=guarantee)
    return Scenario(f"brokers-{name}", "streams_broker_compatibility_test", what, steps, nodes=1, brokers=brokers)


UNPUBLISHED = "its programs (EosTestClient, StreamsEosTest) are in no jar of 4.3.0"
COOPERATIVE = "StreamsUpgradeToCooperativeRebalanceTest is in no jar of 4.3.0; it starts from releases before 2.4"

SCENARIOS = (
    _smoke("smoke-eos-kill", "exactly_once_v2", crash=True),
    _smoke("smoke-eos-stop", "exactly_once_v2", crash=False),
    _smoke("smoke-alos-kill", "at_least_once", crash=True),
    _smoke("smoke-alos-stop", "at_least_once", crash=False),
    Scenario(
        "static-membership",
        "streams_static_membership_test",
        "three rolling bounces of three static instances, no rebalance",
        rolling_bounces,
    ),
    _brokers_fail("hard-shutdown", "smoke, a leading broker is killed and stays away"),
    _brokers_fail("hard-bounce", "smoke, leading brokers are killed and started again, five times"),
    _brokers_fail("clean-bounce", "smoke, leading brokers are restarted, five times"),
    Scenario(
        "standby-replicas",
        "streams_standby_replica_test",
        "three instances with a standby replica each come and go; tasks and replicas stay even",
        replicas,
        nodes=1,
    ),
    _relational("kill", "exactly_once_v2", crash=True),
    _relational("stop", "exactly_once_v2", crash=False),
    Scenario(
        "named-repartition",
        "streams_named_repartition_topic_test",
        "operations are added before a named repartition topic, rolling",
        named,
        nodes=1,
    ),
    Scenario(
        "optimized",
        "streams_optimized_test",
        "reset, and back with `topology.optimization=all`",
        optimized,
        nodes=1,
    ),
    _broker_down("stays", "the only broker is away for 70 s", remains_down),
    _broker_down("start", "three instances start while the only broker is away", down_at_start),
    _broker_down("scale-in", "two of three instances stop while the only broker is away", scaled_in_while_down),
    _broker_down("kill", "all instances are killed and start again while the only broker is away", killed_while_down),
    Scenario(
        "shutdown-deadlock",
        "streams_shutdown_deadlock_test",
        "an instance that fails while it starts ends",
        shutdown_deadlock,
        nodes=1,
    ),
    Scenario(
        "version-probing",
        "streams_upgrade_test",
        "three instances are replaced by such as claim a newer protocol;"
        " as Bellwether knows none, the last is probed down too",
        probed,
        nodes=1,
    ),
    Scenario(
        "upgrade-3.9",
        "streams_upgrade_test",
        "3.9.2 to 4.3.0 in two rolling bounces, foreign-key join",
        upgraded,
        nodes=1,
    ),
    _compatible("3.9-alos", BROKER_39, "at_least_once"),
    _compatible("3.9-eos", BROKER_39, "exactly_once_v2"),
    _compatible("4.0-alos", BROKER_40, "at_least_once"),
    _compatible("4.0-eos", BROKER_40, "exactly_once_v2"),
    Scenario("eos", "streams_eos_test", "instances come and go under exactly once", missing=UNPUBLISHED),
    Scenario("to-cooperative", "streams_cooperative_rebalance_upgrade_test", "2.3 to now", missing=COOPERATIVE),
)
