"""The sticky assignors: balanced with the fewest moves, and as many partitions near a replica as that allows.

`assignor.place` is the overview. It splits the group into components, between which nothing can be exchanged:

* `constrained`: all members of a component subscribe to the same topics. Each has a quota; owners keep what they have
  up to theirs, and what is free fills the places that are left. Linear in the partitions.
* `general`: subscriptions differ. `general.balance` works on counts per (topic, class of members that are alike), so
  its work does not grow with partitions times members, and names partitions at the end. On these counts `filling` pours
  what is free and levels coarsely, `steal` passes partitions along chains of members until nobody can be better off,
  and `cycles` exchanges around rings as long as that saves foreign racks or moves, loads unchanged.

Everything is decided by member ids and partition numbers, so equal groups get equal plans.
"""

from bellwether_kafka.assignors.consumer.sticky.assignor import CooperativeStickyAssignor, StickyAssignor, place
