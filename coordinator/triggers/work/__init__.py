"""Watches whether members can work by Bellwether's plans, and decides what follows if they cannot."""

from bellwether_kafka.coordinator.triggers.work.owners import OwnerWork
from bellwether_kafka.coordinator.triggers.work.progress import NOTHING_COMMITTED
from bellwether_kafka.coordinator.triggers.work.verdict import HandBack, Verdict
from bellwether_kafka.coordinator.triggers.work.work_watch import WorkWatch
