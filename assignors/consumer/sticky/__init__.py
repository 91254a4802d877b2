"""The sticky assignor: keeps partitions where they are and balances with the fewest moves."""

from bellwether_kafka.assignors.consumer.sticky.assignor import CooperativeStickyAssignor, StickyAssignor, place

__all__ = ["CooperativeStickyAssignor", "StickyAssignor", "place"]
