"""Where the weights of each group come from: the topic of weights if there is one, else the offsets of the group."""

from collections.abc import Callable
from dataclasses import dataclass

from bellwether_kafka.assignors.shared import Weights
from bellwether_kafka.coordinator.observation import GroupObserver, LagRefreshes


@dataclass(frozen=True, slots=True)
class GroupWeights:
    """Returns weights by group. `measured` returns those of the topic of weights, None without one."""

    measured: Callable[[], Weights] | None
    lags_of: Callable[[str], LagRefreshes]

    def of_led(self, group: str) -> Weights:
        return self.measured() if self.measured is not None else self.lags_of(group).weights()

    def of_observed(self, observer: GroupObserver | None) -> Weights:
        """Returns the weights of an observed group, none if it is not observed yet."""
        if self.measured is not None:
            return self.measured()
        return observer.weights() if observer is not None else Weights()

    def source(self, group: str) -> Callable[[], Weights]:
        """Returns a function for the weights of a group to lead. It cannot be pickled, so that no plan is made in a
        process that would have only the weights of its start."""
        return lambda: self.of_led(group)
