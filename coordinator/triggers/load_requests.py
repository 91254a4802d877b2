"""How often uneven load may request a rebalance of a group, of consumers or of an application.

If a rebalance after a request leaves all owners as they were, then the plan did not do what the check foresaw, and the
next one would not either: the interval doubles until owners change. A request that led to no rebalance shows nothing,
and is repeated after the same interval.
"""

from dataclasses import dataclass, replace

LOAD_INTERVAL_S = 60.0
LOAD_INTERVAL_MAX_S = 3_600.0


@dataclass(frozen=True, slots=True)
class LoadRequests:
    """The seconds until the next request may follow, and until the last one could. `owners` are those of the last
    request; None if there was none, or if they have changed since."""

    interval_s: float = LOAD_INTERVAL_S
    last_interval_s: float = LOAD_INTERVAL_S
    owners: object = None

    def planned(self, owners: object) -> "LoadRequests":
        """Takes the owners by a plan that was delivered, and that no other follows."""
        if self.owners is None:
            return self
        if owners != self.owners:
            return LoadRequests()
        return replace(self, interval_s=min(2 * self.last_interval_s, LOAD_INTERVAL_MAX_S))

    def requested(self, owners: object) -> "LoadRequests":
        """Takes a request for a rebalance, made while items had these owners."""
        return LoadRequests(interval_s=self.interval_s, last_interval_s=self.interval_s, owners=owners)
