"""The two Bellwether processes of the soak: one that only a defect ends, and one that is ended and started again.

Every second each one's page and metrics are compared with the brokers (`tests.lab.role`); a process that ends by
itself is a violation, and is started again so that the run goes on.
"""

import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.interop.support.bellwether import Bellwether
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.ports import LOOPBACK, PortLease
from tests.interop.support.raw import RawError
from tests.lab.role import BrokersView, Comparison, Durations, Shown, reported
from tests.lab.soak.slopes import SAMPLE_INTERVAL_S, Sample, sampled

LED_WITHIN_S = 60.0  # what the product promises
ANSWERS_WITHIN_S = 30.0
RESTART_PAUSE_S = (20.0, 60.0)
WITHIN_SESSION_S, BEYOND_SESSION_S = (2.0, 6.0), (12.0, 30.0)  # `session_timeout_ms` is 10 s by default
REFRESH_INTERVAL_S = 1.0

Log = Callable[[str], None]


@dataclass
class Process:
    """One process and its groups. `role` compares what it reports; `violations` are everything else."""

    name: str
    groups: tuple[str, ...]
    lead: Bellwether
    address: str
    lease: PortLease
    role: Comparison = field(default_factory=Comparison)
    violations: list[str] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    stops: dict[str, int] = field(default_factory=lambda: {"SIGTERM": 0, "SIGKILL": 0})
    unled: Durations = field(default_factory=lambda: Durations(LED_WITHIN_S))
    wanted: bool = True  # it should run now
    lock: threading.Lock = field(default_factory=threading.Lock)
    answered_at: float = 0.0
    excused: set[str] = field(default_factory=set)  # groups that it was ordered to leave

    def start(self, *, wait: bool = False) -> None:
        """`wait`: until it is a member of all its groups."""
        self.lead.start(wait=wait)
        self.answered_at = time.monotonic()
        self.wanted = True
        self.unled.begin(self.answered_at)

    def stop(self, how: str) -> None:
        with self.lock:
            self.wanted = False
            self.stops[how] += 1
            if how == "SIGKILL":
                self.lead.kill()
            elif code := self.lead.stop():
                self.violations.append(f"exit code {code} after SIGTERM: {self.lead.tail(5)}")

    def revive(self) -> None:
        """After it has ended by itself."""
        code = self.lead.stop()
        self.violations.append(f"it ended by itself with exit code {code}:\n{self.lead.tail(15)}")
        self.samples.clear()
        self.role.durations.forget()
        self.start()


def make(cluster: KafkaCluster, name: str, groups: Sequence[str], settings: Mapping[str, Any]) -> Process:
    """Not started yet; with the product's defaults but for these settings and the address of its page."""
    lease = PortLease()
    address = f"{LOOPBACK}:{lease.port}"
    return Process(name, tuple(groups), Bellwether(cluster, groups, http_address=address, **settings), address, lease)


class Watch:
    """Compares all processes with the brokers every second until it is stopped."""

    def __init__(self, cluster: KafkaCluster, processes: Sequence[Process], message: Log) -> None:
        self._brokers = BrokersView(cluster)
        self._processes = processes
        self._message = message
        self._began = time.monotonic()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(60)
        self._brokers.close()

    def _run(self) -> None:
        sample_at = 0.0
        while not self._stopping.wait(REFRESH_INTERVAL_S):
            for process in self._processes:
                with process.lock:
                    self._refresh(process)
                    if time.monotonic() >= sample_at:
                        self._sample(process)
            if time.monotonic() >= sample_at:
                sample_at = time.monotonic() + SAMPLE_INTERVAL_S

    def _refresh(self, process: Process) -> None:
        if not process.wanted:
            process.role.durations.forget()
            return
        if not process.lead.running:
            self._message(f"{process.name} has ended by itself")
            process.revive()
            return
        try:
            pages = reported(process.address)
        except OSError:
            process.role.durations.forget()
            self._silent(process)
            return
        process.answered_at = time.monotonic()
        for group in process.groups:
            try:
                shown = self._brokers.shown(group)
            except (OSError, RawError):
                continue
            now_s = time.monotonic()
            for page, message in pages.items():
                role = message.get(group)
                # Alone in a group a process may report that it leads, or that there is nobody to lead.
                alone = not shown.others and role is not None and not role.leading
                process.role.add(now_s, page, group, role, leads=shown.led_by_bellwether and not alone)
            self._led(process, group, shown, now_s)

    def _led(self, process: Process, group: str, shown: Shown, now_s: float) -> None:
        excused = not shown.others or group in process.excused
        lasted_s = process.unled.add(now_s, group, wrong=not (shown.led_by_bellwether or excused))
        if lasted_s is not None:
            text = f"{group} has not been led for {lasted_s:.0f} s, {shown.leader or 'nobody'} leads"
            process.violations.append(f"{text}\n{process.lead.log_of(group, 5)}")
            self._message(f"{process.name}: {text}")

    def _silent(self, process: Process) -> None:
        silent_s = time.monotonic() - process.answered_at
        if silent_s > ANSWERS_WITHIN_S:
            process.answered_at = time.monotonic()
            process.violations.append(f"its page has not answered for {silent_s:.0f} s")

    def _sample(self, process: Process) -> None:
        if not process.wanted:
            return
        try:
            process.samples.append(sampled(process.lead.pid, time.monotonic() - self._began))
        except (OSError, RuntimeError):
            return  # it ends at this moment


def restart_until(process: Process, until: float, dice: random.Random, message: Log) -> None:
    """SIGTERM and SIGKILL in turn by chance; back at once, within its session, or later than that."""
    while (pause_s := dice.uniform(*RESTART_PAUSE_S)) < until - time.monotonic():
        time.sleep(pause_s)
        how = dice.choice(tuple(process.stops))
        span = dice.choice(((0.0, 0.0), WITHIN_SESSION_S, BEYOND_SESSION_S))
        absent_s = dice.uniform(*span)
        process.stop(how)
        time.sleep(absent_s)
        with process.lock:
            process.start()
        process.samples.clear()
        message(f"{process.name} was away for {absent_s:.0f} s after {how}")
    time.sleep(max(0.0, until - time.monotonic()))
