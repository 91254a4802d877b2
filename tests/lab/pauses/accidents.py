"""What happens to one instance, and whether it comes back: a table of restarts, crashes, a scale-in and a control."""

import os
import select
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from tests.interop.support.guarded import children
from tests.interop.support.members import wait_until
from tests.interop.support.streams_app import DEFAULT_CLIENT_ID, Instance, StreamsApp
from tests.interop.support.streams_stage import create_topics

ENDED_LIMIT_S = 180.0
FAILED = "ERROR"  # of KafkaStreams
MEMORY = Path("/sys/fs/cgroup/memory")
MEMORY_LEFT_MB = 48
BYSTANDER_S = 8.0  # about what the return of an instance takes with 201 tasks


def application_pid(instance: Instance, *, guarded: bool) -> int:
    """The process of the application itself, not of the guard in front of it."""
    return children(instance.pid)[0] if guarded else instance.pid


def out_of_memory(instance: Instance, pid: int) -> None:
    """The kernel kills it for the limit of its memory cgroup, which counts what it takes from now on. Needs a writable
    cgroup v1 hierarchy."""
    group = MEMORY / f"pauses-{pid}"
    group.mkdir()
    (group / "cgroup.procs").write_text(str(pid))
    used = int((group / "memory.usage_in_bytes").read_text())
    (group / "memory.limit_in_bytes").write_text(str(used + MEMORY_LEFT_MB * 1024 * 1024))
    instance.send("hog")


def can_run_out_of_memory() -> bool:
    return (MEMORY / "cgroup.procs").exists() and os.access(MEMORY, os.W_OK)


@dataclass(frozen=True, slots=True)
class Accident:
    """`happens` to an instance, and to the process of its application, by id. `returns`: whether the pause lasts until
    the instance is back, or until the others have its tasks. A process that it does not end is killed once the others
    have its tasks. In the control nothing happens: another application starts instead."""

    happens: Callable[[Instance, int], None] | None
    returns: bool = False
    ends: bool = True

    @property
    def control(self) -> bool:
        return self.happens is None


def terminated(instance: Instance, _pid: int) -> None:
    """SIGTERM to what runs the application: the guard where there is one. Both close in order."""
    os.kill(instance.pid, signal.SIGTERM)


# After an exception in every stream thread Streams closes all tasks, and the process ends with 3 or stays.
ACCIDENTS = {
    "restart": Accident(terminated, returns=True),
    "scale-in": Accident(terminated),
    "kill": Accident(lambda _, pid: os.kill(pid, signal.SIGKILL)),
    "exception": Accident(lambda instance, _: instance.send("fail")),
    "exception-stays": Accident(lambda instance, _: instance.send("fail-and-stay"), ends=False),
    "out-of-memory": Accident(out_of_memory),
    "bystander": Accident(None, returns=True),
}


@dataclass(frozen=True, slots=True)
class Lived:
    """One accident in wall-clock milliseconds: it began, the process had ended and started again (0 where the pause
    does not last so long), all was settled."""

    began_ms: int
    ended_ms: int
    started_ms: int
    settled_ms: int


@dataclass(frozen=True, slots=True)
class Instances:
    """How the instances of an application are run: with a guard each; evacuated by an order before they are restarted;
    by these settings. `spread`: how many tasks apart they are when one that is back has settled, None: any."""

    guarded: bool
    empty: Callable[[str], None] | None
    settings: Mapping[str, str]
    spread: int | None
    limit_s: float


def live_through(app: StreamsApp, name: str, accident: Accident, how: Instances) -> Lived:
    """Raises AssertionError where the application does not settle in time."""
    if accident.happens is None:
        return _waited(app)
    instance, began_ms, guarded = app.instances[name], _now_ms(), how.guarded
    if how.empty is not None:
        how.empty(name)
    with _watched(app, instance, guarded=guarded):
        accident.happens(instance, application_pid(instance, guarded=guarded))
        if not accident.ends:
            wait_until(lambda: instance.state == FAILED and app.complete(), how.limit_s, app.send)
            os.kill(application_pid(instance, guarded=guarded), signal.SIGKILL)
    wait_until(lambda: not instance.alive, ENDED_LIMIT_S, app.send)
    ended_ms = _now_ms()
    instance.stop()  # its pipes
    started_ms = 0
    if accident.returns:
        started_ms = _now_ms()
        come_back(app, name, how)
    else:
        app.wait_settled(limit_s=how.limit_s)
    return Lived(began_ms, ended_ms, started_ms, app.timeline().last_change_ms(began_ms))


def _waited(app: StreamsApp) -> Lived:
    """An instance of another application starts on the same machine, with one task of each kind and no records. The
    group does not learn of it: what pauses then pauses for want of a processor."""
    began_ms = _now_ms()
    name = f"{app.application.application_id}-bystander-{began_ms}"
    other = replace(app.application, application_id=name, topics=(f"{name}-in",), output=f"{name}-out", partitions=1)
    create_topics(app.cluster, other)
    with StreamsApp(app.cluster, other) as bystander:
        began_ms = _now_ms()
        bystander.add("bystander", settings=DEFAULT_CLIENT_ID)
        time.sleep(BYSTANDER_S)
        return Lived(began_ms, began_ms, began_ms, _now_ms())


@contextmanager
def _watched(app: StreamsApp, instance: Instance, *, guarded: bool) -> Iterator[None]:
    """Waits until the application's process has ended, and notes when. Its guard lives a little longer, and the others
    may have its tasks by then. Raises AssertionError where it does not end."""
    descriptor = os.pidfd_open(application_pid(instance, guarded=guarded))
    try:
        yield
        assert select.select([descriptor], [], [], ENDED_LIMIT_S)[0], app.send()
    finally:
        os.close(descriptor)
    instance.gone()


def come_back(app: StreamsApp, name: str, how: Instances) -> None:
    app.start(name, settings=how.settings)
    app.wait_settled(spread=how.spread, limit_s=how.limit_s)


def _now_ms() -> int:
    return int(time.time() * 1000)
