"""What a connection needs from systems other than brokers: addresses, tokens, tickets, certificate files.

Rule: the I/O thread sends heartbeats and never makes a call that may wait for another system. Such calls run in daemon
threads with a deadline. While a new answer is late, the last one is used.
"""

from bellwether_kafka.coordinator.kafka.wire.outside.addresses import Addresses
from bellwether_kafka.coordinator.kafka.wire.outside.calls import GRACE_S, LastGood, OutsideCalls
from bellwether_kafka.coordinator.kafka.wire.outside.daemon_threads import DaemonThreads
from bellwether_kafka.coordinator.kafka.wire.outside.logins import Connection, Logins
