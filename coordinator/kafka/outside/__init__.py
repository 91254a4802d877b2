"""Everything that a connection needs and a broker cannot give: addresses of names, tokens, tickets, certificate files.

Rule: the I/O thread sends heartbeats and never makes a call that may wait for another system. Such calls run in daemon
threads with a deadline, and what they found last is used while a newer answer is late.
"""

from bellwether_kafka.coordinator.kafka.outside.addresses import Addresses
from bellwether_kafka.coordinator.kafka.outside.calls import GRACE_S, LastGood, OutsideCalls
from bellwether_kafka.coordinator.kafka.outside.daemon_threads import DaemonThreads
from bellwether_kafka.coordinator.kafka.outside.logins import Connection, Logins
