"""The sticky assignors: balanced plans with the fewest moves, and within that as many partitions near a replica as
possible.

`sticky_assignors.place` is the overview. It splits the group into components, between which nothing can be exchanged:

* `constrained`: all members of a component subscribe to the same topics. Each member has a quota; owners keep
  partitions up to their quota, and free partitions fill the rest. Linear in the partitions.
* `general`: subscriptions differ. `general.balance` works on counts per (topic, class of interchangeable members), so
  that its work does not grow with partitions times members, and picks the partitions last. On these counts `filling`
  distributes free partitions and levels coarsely, `steal` passes partitions along chains of members until no member can
  be better off, and `cycles` exchanges partitions around rings while that saves foreign racks or moves, with equal
  loads.
* `exchange` then does so between single members, in both kinds of components, which makes the plan exact.

All choices follow member ids and partition numbers, so equal groups get equal plans.
"""

from bellwether_kafka.assignors.consumer.sticky.cycles import reduce_cost
from bellwether_kafka.assignors.consumer.sticky.exchange import dealt
from bellwether_kafka.assignors.consumer.sticky.filling import ClassCounts
from bellwether_kafka.assignors.consumer.sticky.sticky_assignors import CooperativeStickyAssignor, StickyAssignor, place
