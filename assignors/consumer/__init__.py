"""Plans for plain consumer groups: from the bytes of a JoinGroup response to a decision, with the policies."""

from bellwether_kafka.assignors.consumer.broker_side import BROKER_SIDE, broker_side
from bellwether_kafka.assignors.consumer.chain import ConsumerAssignor
from bellwether_kafka.assignors.consumer.decide import RACKLESS, decide, planned_owners
from bellwether_kafka.assignors.consumer.load_aware import Load, LoadAware, holding
from bellwether_kafka.assignors.consumer.partition_plan import PartitionPlan
from bellwether_kafka.assignors.consumer.plan_cost import crossing, score
from bellwether_kafka.assignors.consumer.registry import (
    BUILT_IN,
    KAFKA,
    LOAD_AWARE,
    OF_ANY_PROTOCOL,
    POLICIES,
    STICKY_MIN_CHURN,
    TOPIC_BALANCE,
    Policy,
    load_policies,
    policy,
)
from bellwether_kafka.assignors.consumer.views import decode_group, group_view, recall, static_digests, topics_wanted
from bellwether_kafka.assignors.consumer.whatif import REBALANCES_MAX, changed, rebalances
