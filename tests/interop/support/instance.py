"""A Service in a thread and event loop of its own, as a process of its own would have, for tests to look into."""

import asyncio
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from bellwether_kafka.assignors.consumer import PartitionPlan
from bellwether_kafka.coordinator.membership import MembershipConfig, Note, NoteKind, State
from bellwether_kafka.coordinator.planning import Planned
from bellwether_kafka.coordinator.runtime import GroupsConfig, Observers, Outside, Service, ServiceOutcome
from tests.patience import PATIENCE

LIMIT_S = 40.0


class InstanceHarness:
    """Starts at once; `stop` is SIGTERM. As a context manager it stops at the end."""

    def __init__(
        self, properties: Mapping[str, str], *groups: MembershipConfig, outside: Outside | None = None, **options: Any
    ) -> None:
        self.decisions: list[Planned[PartitionPlan]] = []
        self.notes: list[tuple[str, Note]] = []
        self.outcome: ServiceOutcome | None = None
        observers = Observers((self.decisions.append,), (lambda group, note: self.notes.append((group, note)),))
        config = GroupsConfig(properties=properties, groups=groups, **options)
        self.service = Service(config, outside, observers=observers)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with asyncio.Runner() as runner:
            self._loop = runner.get_loop()
            self.outcome = runner.run(self.service.run(handle_signals=False))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    @property
    def states(self) -> list[State]:
        return [runner.membership.state for runner in list(self.service.runners.values())]

    @property
    def generation(self) -> int:
        """The generation of the only group."""
        (runner,) = self.service.runners.values()
        return runner.membership.generation

    def message(self, *kinds: NoteKind) -> list[str]:
        return [note.reason for _, note in self.notes if note.kind in kinds]

    def wait_for(self, state: State, limit_s: float = LIMIT_S) -> None:
        """Until every group is in this state."""
        self.wait_until(lambda: bool(self.states) and set(self.states) == {state}, f"{state} everywhere", limit_s)

    def wait_until(self, condition: Callable[[], bool], what: str, limit_s: float = LIMIT_S) -> None:
        limit = time.monotonic() + limit_s * PATIENCE
        while not condition():
            assert time.monotonic() < limit, f"{what}: {self.states} {self.outcome} {self._last()}"
            time.sleep(0.02)

    def wait_for_outcome(self, limit_s: float = LIMIT_S) -> ServiceOutcome:
        self.wait_until(lambda: self.outcome is not None, "an end", limit_s)
        assert self.outcome is not None
        return self.outcome

    def leave_all(self) -> None:
        """As SIGUSR1 does."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self.service.leave_all)

    def stop(self) -> ServiceOutcome:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.service.stop)
        self._thread.join(LIMIT_S)
        assert self.outcome is not None, f"did not stop: {self.states} {self._last()}"
        return self.outcome

    def _last(self) -> Sequence[str]:
        return [f"{note.kind.name}: {note.reason}" for _, note in self.notes[-5:]]
