"""Tasks to the threads of a process."""

from bellwether_kafka.assignors.streams.threads.deal import assign_threads
from bellwether_kafka.assignors.streams.threads.keep import spread
