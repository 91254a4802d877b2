"""Assigns the tasks of a process to its threads."""

from bellwether_kafka.assignors.streams.threads.deal import assign_threads
from bellwether_kafka.assignors.streams.threads.keep import spread
