"""Plans for groups whose broker assigns: the server to which a broker's own assignor connects (deploy/broker-
assignor)."""

from bellwether_kafka.coordinator.serving.answers import Answers, NewestPlan, Served
from bellwether_kafka.coordinator.serving.assignor_server import AssignorAddressError, AssignorServer
from bellwether_kafka.coordinator.serving.broker_rebalances import RETRY_S, BrokerRebalances
from bellwether_kafka.coordinator.serving.known import Incomplete, KnownGroups, KnownMember, TopicNames
from bellwether_kafka.coordinator.serving.task_plans import tasks_by_process
from bellwether_kafka.coordinator.serving.task_request_views import KnownApplication
