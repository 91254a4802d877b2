"""Assignors that misbehave, for the process in which plug-ins plan: importable there, as an installed one would be."""

import os
import time

import numpy as np

from bellwether_kafka.assignors.consumer import BUILT_IN
from bellwether_kafka.assignors.shared import ClusterView, GroupView, IntArray


class Plugin:
    """Range, after `mischief`; how often it was asked is on standard output, where it must do no harm."""

    cooperative = False

    def __init__(self, name: str) -> None:
        self.name = name
        self.asked = 0

    def assign(self, group: GroupView, cluster: ClusterView) -> IntArray:
        self.asked += 1
        print(f"asked {self.asked} times")
        self.mischief()
        return BUILT_IN["range"].assign(group, cluster)

    def mischief(self) -> None:
        """None."""


class Hangs(Plugin):
    def mischief(self) -> None:
        while True:
            time.sleep(1)


class Eats(Plugin):
    def mischief(self) -> None:
        eaten = []
        while True:
            eaten.append(np.empty(64 << 20, dtype=np.int8))  # counts, though untouched it costs this machine nothing


class Raises(Plugin):
    def mischief(self) -> None:
        raise KeyError("nonsense")


class Dies(Plugin):
    def mischief(self) -> None:
        os._exit(7)


class ShowsItsProcess(Plugin):
    """Fails with the number of its process: how a test finds out where it ran."""

    def mischief(self) -> None:
        raise RuntimeError(f"process {os.getpid()} request {self.asked} {sorted(k for k in os.environ if 'BELL' in k)}")


def slow_answer(_subject: object) -> str:
    time.sleep(60)
    return "too late"
