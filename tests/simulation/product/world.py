"""A world whose instances are processes of the product: its own service, on a loop with virtual time."""

import asyncio
import random
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Self

import structlog

from bellwether_kafka.protocol.primitives import TopicPartition
from tests.simulation.brokers.topics import Sizes, partitions_of
from tests.simulation.checks import ViolationError
from tests.simulation.product.clock import LoopClock
from tests.simulation.product.control_log import ControlLog
from tests.simulation.product.instance import ServedInstance
from tests.simulation.product.loop import Process, VirtualLoop, silence
from tests.simulation.world import INSTANCE, World

READS_KEPT = 10  # of metadata, from which a plan may have been made


class ServedWorld(World):
    """To be entered: its processes are ended when it is left. `violation` is the first one, raised when the loop gives
    the control back."""

    def __init__(self, seed: int, *, lasting_hostile: bool = False) -> None:
        self.violation: ViolationError | None = None
        self.processes_run: list[Process] = []
        self.served: list[ServedInstance] = []
        self._read: deque[frozenset[TopicPartition]] = deque(maxlen=READS_KEPT)
        self.offsets_are_told = True  # those that are committed
        self.refuses_with = 0  # Kafka's error, to Bellwether's requests about the group; 0 for none
        self.loop = VirtualLoop(self._turned)
        super().__init__(seed, LoopClock(self.loop), lasting_hostile=lasting_hostile)
        self.log_of_orders = ControlLog(self)
        self.control = self.log_of_orders  # type: ignore[assignment]  # faults silence it
        self.served = [ServedInstance(self, f"{INSTANCE}-{name}", self.config) for name in "ab"]
        self.instances = list(self.served)  # type: ignore[arg-type]  # likewise

    def __enter__(self) -> Self:
        self._folder = TemporaryDirectory(prefix="bellwether-simulation-")
        self.folder = Path(self._folder.name)  # of the machines that processes run on
        self._random, self._logs = random.getstate(), structlog.get_config()
        random.seed(self.seed)  # for the product, which spreads what it asks for
        structlog.configure(processors=[silence], cache_logger_on_first_use=False)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self.processes_run:
            process.bury()
        self.loop.end()
        self._folder.cleanup()
        random.setstate(self._random)
        structlog.configure(**self._logs)

    def violate(self, text: str) -> None:
        self.log(f"VIOLATION {text}")
        self.violation = self.violation or ViolationError(f"seed {self.seed}, {self.clock.now:.3f} s: {text}")
        raise self.violation

    def run_until(self, when: float, enough: Callable[[], bool] | None = None) -> bool:
        """Lives on; True when `enough` came true, which is asked once a second."""
        return self.loop.run_until_complete(self._until(when, enough))

    async def _until(self, when: float, enough: Callable[[], bool] | None) -> bool:
        while self.clock.now < when:
            if enough is not None and enough():
                return True
            await asyncio.sleep(min(1.0, when - self.clock.now))
            if self.loop.unowned:
                self.violate(f"the world itself has failed: {self.loop.unowned[0]}")
            if self.violation is not None:
                raise self.violation
        return False

    def _turned(self) -> None:
        """After each turn of the loop."""
        if self.violation is None:
            try:
                for instance in self.served:
                    instance.step()
                self.checks.step()
            except ViolationError as violation:
                self.violation = violation

    # ---- what brokers answer ---------------------------------------------------------------------------------------

    def has_read(self, reported: Sizes) -> None:
        """A process has got this metadata."""
        self._read.append(partitions_of(reported))

    @property
    def partitions_read(self) -> frozenset[TopicPartition]:
        """Lately: a plan may give these."""
        return frozenset().union(*self._read)

    def committed_of(self, topics: Mapping[str, int]) -> dict[str, list[int]]:
        """What the group has committed, for partitions 0..n-1 of each topic, -1 for nothing."""
        return {topic: [self.commits - 1] * n for topic, n in topics.items()}

    def end_of(self, topic: str, partition: int) -> int:
        """The log end of a partition, -1 if there is none."""
        if partition >= self.topics.sizes.get(topic, 0):
            return -1
        return self.application.end_of(topic) if self.streams else 0
