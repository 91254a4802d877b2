"""The settings of the stages: immutable, validated, and independent of the libraries that read settings."""

from dataclasses import dataclass, field

from bellwether_kafka.assignors.shared import Clock, Rule, no_clock
from bellwether_kafka.assignors.streams.application import TAG_CHARS_MAX, AssignmentConfigError

_INT_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class StageConfigs:
    """The settings of the stages; a zero or an empty value turns a stage off. Raises AssignmentConfigError.

    `host_affinity_ms`: how long a process that left is expected back, and then preferred for its tasks. `colocate`:
    groups of subtopology ids whose tasks with the same partition number should share a process. `capacity_tag`: the
    client tag with the weight of a process, a whole number; "" weighs by threads. `max_concurrent_moves`: active tasks
    that may be on their way from one live process to another at once. `rules`: the operator's, which change at run
    time. `clock` measures the stages.
    """

    host_affinity_ms: int = 0
    colocate: tuple[tuple[int, ...], ...] = ()
    capacity_tag: str = ""
    max_concurrent_moves: int = 0
    rules: tuple[Rule, ...] = ()
    clock: Clock = field(default=no_clock, compare=False)

    def __post_init__(self) -> None:
        for name in ("host_affinity_ms", "max_concurrent_moves"):
            value = getattr(self, name)
            if not 0 <= value <= _INT_MAX:
                raise AssignmentConfigError(f"{name} must be 0 to {_INT_MAX}, but it is {value}.")
        if len(self.capacity_tag) > TAG_CHARS_MAX:
            raise AssignmentConfigError(
                f"capacity_tag must be a client tag key of at most {TAG_CHARS_MAX} characters, but it is"
                f" {self.capacity_tag!r}."
            )
        _check_groups(self.colocate)

    @property
    def any(self) -> bool:
        return self != NO_STAGES


def _check_groups(groups: tuple[tuple[int, ...], ...]) -> None:
    seen: set[int] = set()
    for group in groups:
        if len(group) < 2:
            raise AssignmentConfigError(
                f"colocate must hold groups of two or more subtopology ids, but it holds {list(group)}."
            )
        for subtopology in group:
            if subtopology < 0 or subtopology in seen:
                raise AssignmentConfigError(
                    f"colocate must name each subtopology once and none below 0, but it holds {subtopology}"
                    f"{' twice' if subtopology in seen else ''}."
                )
            seen.add(subtopology)


NO_STAGES = StageConfigs()
