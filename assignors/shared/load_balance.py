"""Moves weighted items between places until loads are even, within limits: the core of the policy `load-aware`.

It places partitions on members and Streams tasks on processes. It takes greedy steps from the given placement: an item
moves, or two items are exchanged. Every step makes the fuller of two places lighter, so the result is never worse, and
a placement that is even within the dead band does not change. Pure.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from bellwether_kafka.assignors.shared.arrays import BoolArray, FloatArray, IntArray, LongArray

# How many of the lightest places are tried for each of the fullest. More help only with unusual subscriptions.
_RECEIVERS = 8
_LEAST_GAIN = 1e-9
_NEVER = 1 << 30
_BAND_MIN = 0.02
_ERRORS_IN_BAND = 3.0
_SETTLE_SHARE, _CHARGE_SHARE = 1 / 3, 1 / 2  # of the band, for weights whose error is known
# Bounds on work, far above what groups of ordinary size need.
_ATTEMPTS_MAX = 20_000
_WORK_MAX = 100_000_000

Step = tuple[int, int, int]  # item, from, to


@dataclass(frozen=True, slots=True)
class Rules:
    """Limits of the balancing. Shares are relative to the mean load per unit of capacity.

    `band`: a place that exceeds the mean by at most this share is left alone. `settle`: once a place exceeds the band,
    all places are brought below this, so that the next small change does not exceed the band again. `moving_charge`:
    added to the score of a plan that moves anything, so that it must gain more than that. `moves_max`: items moved per
    rebalance, None for a tenth of all (at least 4).
    """

    band: float = 0.10
    settle: float = 0.04
    moving_charge: float = 0.10
    moves_max: int | None = None

    def for_error(self, error: float | None, places: int) -> "Rules":
        """Returns the rules for weights with this error, as in `Weights`: the better loads are known, the narrower the
        dead band. It never becomes wider, and stays as it is if the error is not known."""
        if error is None:
            return self
        # The load of one of n places is a sum of an nth of the items, so its relative error is larger by the root of n.
        band = min(self.band, _BAND_MIN + _ERRORS_IN_BAND * error * math.sqrt(places))
        return replace(
            self,
            band=band,
            settle=min(self.settle, band * _SETTLE_SHARE),
            moving_charge=min(self.moving_charge, band * _CHARGE_SHARE),
        )

    def limit(self, items: int) -> int:
        return self.moves_max if self.moves_max is not None else max(4, items // 10)


@dataclass(frozen=True, slots=True, eq=False)
class Targets:
    """What places should have per unit of capacity: `mean`, but `heaviest` if they have one of `items`.

    An item cannot be split. So one that alone outweighs the mean fills a place, and `mean` is that of all other load
    over all other places: beside such an item they are evened out, too. `heaviest` is what the heaviest item is on the
    largest place.
    """

    mean: float
    heaviest: float
    items: LongArray

    @classmethod
    def of(cls, load: FloatArray, capacity: FloatArray, weight: FloatArray) -> "Targets":
        total, room = float(load.sum()), float(capacity.sum())
        places, alone = np.sort(capacity)[::-1].tolist(), 0
        most = max(0, min(len(weight), len(capacity) - 1))
        items = np.argpartition(-weight, most - 1)[:most] if most else np.zeros(0, dtype=np.int64)
        items = items[np.lexsort((items, -weight[items]))]
        for item, place in zip(items.tolist(), places, strict=False):
            if weight[item] / place <= total / room:
                break
            total, room, alone = total - weight[item], room - place, alone + 1
        heaviest = float(weight.max(initial=0.0)) / places[0]
        return cls(max(total / room, _LEAST_GAIN), heaviest, items[:alone])

    def of_places(self, owner: IntArray, places: int) -> FloatArray:
        """Returns the target of each place while items have these owners, -1 for none."""
        target, of_items = np.full(places, self.mean), owner[self.items]
        target[of_items[of_items >= 0]] = self.heaviest
        return target

    def excess(self, load: FloatArray, capacity: FloatArray, owner: IntArray, band: float) -> float:
        """Returns by how much a place exceeds its target by more than `band`, as a share of the target, at most."""
        if not len(load) or load.sum() <= 0:
            return 0.0
        return max(0.0, float((load / capacity / self.of_places(owner, len(load))).max()) - (1 + band))


def excess(load: FloatArray, capacity: FloatArray, weight: FloatArray, owner: IntArray, band: float) -> float:
    """Does the same as `Targets.excess`, with the targets of these loads."""
    if not len(load):
        return 0.0
    placed = owner >= 0  # the others are in no load
    return Targets.of(load, capacity, weight[placed]).excess(load, capacity, owner[placed], band)


@dataclass(frozen=True, slots=True, eq=False)
class Terms:
    """Which items may go where, and at what price, by kinds. Items have kinds (replica racks, subscribers of the
    topic), and so have places (rack, subscription). `open[item kind, place kind]` is whether it is allowed; `price`
    there is 1 across racks."""

    item: IntArray
    place: IntArray
    open: BoolArray
    price: IntArray


@dataclass(slots=True, eq=False)
class Balancer:
    """Balances items over places. `owner[i]` (changed in place) is the place of each item, -1 for none. `base` is load
    that places have anyway."""

    weight: FloatArray
    owner: IntArray
    capacity: FloatArray
    terms: Terms
    base: FloatArray | float = 0.0

    def deal(self, items: LongArray) -> None:
        """Places the items that have no place, heaviest first, each among its cheapest places (local racks) on the one
        that is least full afterwards. Every item must be allowed on some place."""
        placed = self.owner >= 0
        load = _summed(self.owner[placed], self.weight[placed], len(self.capacity)) + self.base
        count = np.bincount(self.owner[placed], minlength=len(self.capacity))
        terms = self.terms
        price = np.where(terms.open, terms.price, _NEVER)[:, terms.place]
        cheapest = price == price.min(axis=1)[:, None]
        for item in items[np.lexsort((items, -self.weight[items]))].tolist():
            full = np.where(cheapest[terms.item[item]], (load + self.weight[item]) / self.capacity, np.inf)
            # With equal weights loads are often equal; then the number of items decides.
            least = np.flatnonzero(full <= full.min() * (1 + _LEAST_GAIN))
            place = int(least[(count[least] / self.capacity[least]).argmin()])
            self.owner[item] = place
            load[place] += self.weight[item]
            count[place] += 1

    def run(self, rules: Rules, *, home_first: bool = False) -> int:
        """Evens out what exceeds the dead band, then moves items to local racks where that keeps loads settled.
        `home_first` reverses the order, because items that are already local restrict later moves less. Returns how
        many items moved. Every item must have a place."""
        load = _summed(self.owner, self.weight, len(self.capacity)) + self.base
        targets = Targets.of(load, self.capacity, self.weight)
        budget, settled = rules.limit(len(self.weight)), targets.mean * (1 + (rules.settle + rules.band) / 2)
        moved = self._localise(settled, budget, load) if home_first else 0
        if targets.excess(load, self.capacity, self.owner, rules.band) > 0:
            moved += self._even_out(targets, 1 + rules.settle, budget - moved, load)
        return moved if home_first else moved + self._localise(settled, budget - moved, load)

    def _even_out(self, targets: Targets, most: float, budget: int, load: FloatArray) -> int:
        items_by_place = _by_place(self.owner, len(self.capacity))
        moved = 0
        stuck = np.zeros(len(load), dtype=np.bool_)
        for _ in range(_ATTEMPTS_MAX):
            ratio = load / self.capacity / targets.of_places(self.owner, len(load))
            ratio[stuck] = 0.0
            source = int(ratio.argmax())
            if moved >= budget or ratio[source] <= most:
                break
            step = self._step(source, load, items_by_place, pairs=budget - moved >= 2)
            if step is None:
                stuck[source] = True
                continue
            for item, giver, taker in step:
                items_by_place[giver] = items_by_place[giver][items_by_place[giver] != item]
                items_by_place[taker] = np.append(items_by_place[taker], item)
            self._carry_out(step, load)
            moved += len(step)
        return moved

    def _step(
        self, source: int, load: FloatArray, items_by_place: list[LongArray], *, pairs: bool
    ) -> list[Step] | None:
        """Returns the best step for the fullest place: a move of one item, or an exchange of two."""
        order = np.argsort(load / self.capacity, kind="stable")[:_RECEIVERS].tolist()
        receivers = [place for place in order if place != source]
        for exchange in (False, True)[: 1 + pairs]:
            for place in receivers:
                step = self._between(source, place, load, items_by_place, exchange=exchange)
                if step is not None:
                    return step
        return None

    def _between(
        self, source: int, place: int, load: FloatArray, items_by_place: list[LongArray], *, exchange: bool
    ) -> list[Step] | None:
        mine = items_by_place[source][self._may(items_by_place[source], place)]
        price_change = self._price(mine, place) - self._price(mine, source)
        now = float(self._after(load, source, place, 0.0))
        if not exchange:
            best = _least(self._after(load, source, place, self.weight[mine]), price_change, now)
            return None if best is None else [(int(mine[best]), source, place)]
        theirs = items_by_place[place][self._may(items_by_place[place], source)]
        if not len(theirs) or not len(mine):
            return None
        back = self._price(theirs, source) - self._price(theirs, place)
        shift = self.weight[mine][:, None] - self.weight[theirs][None, :]
        after = self._after(load, source, place, shift)
        best = _least(after.ravel(), (price_change[:, None] + back[None, :]).ravel(), now)
        if best is None:
            return None
        i, j = divmod(best, len(theirs))
        return [(int(mine[i]), source, place), (int(theirs[j]), place, source)]

    def _localise(self, target: float, budget: int, load: FloatArray) -> int:
        """Moves remote items, heaviest first, to places where they are local: alone if there is room, else in
        exchange."""
        price = self.terms.price[self.terms.item, self.terms.place[self.owner]]
        remote = np.flatnonzero(price)
        moved = 0
        tries = max(1, _WORK_MAX // max(1, len(self.owner)))
        for item in remote[np.argsort(-self.weight[remote], kind="stable")][:tries].tolist():
            if moved >= budget:
                break
            step = self._homeward(item, target, load, pairs=budget - moved >= 2)
            if step is not None:
                self._carry_out(step, load)
                moved += len(step)
        return moved

    def _homeward(self, item: int, target: float, load: FloatArray, *, pairs: bool) -> list[Step] | None:
        terms, source, kind = self.terms, int(self.owner[item]), int(self.terms.item[item])
        offered = np.where(terms.open[kind], terms.price[kind], _NEVER)[terms.place]
        gain = terms.price[kind, terms.place[source]] - offered
        if gain[gain.argmax()] <= 0:
            return None
        full = np.where(gain > 0, (load + self.weight[item]) / self.capacity, np.inf)
        place = int(full.argmin())
        alone = load[place] <= 0 and full[place] <= load[source] / self.capacity[source]  # an item cannot be divided
        if full[place] <= target or alone:
            return [(item, source, place)]
        if not pairs:
            return None
        here, there = terms.place[source], terms.place[self.owner]
        price_change = terms.price[terms.item, here] - terms.price[terms.item, there]
        fit = np.flatnonzero(terms.open[terms.item, here] & (price_change < gain[self.owner]) & (self.owner != source))
        shift = self.weight[item] - self.weight[fit]
        places = self.owner[fit]
        after, now = self._after(load, source, places, shift), self._after(load, source, places, 0.0)
        good = np.flatnonzero(after <= np.maximum(now, target))
        if not len(good):
            return None
        best = good[np.lexsort((after[good], price_change[fit[good]]))[0]]
        return [(item, source, int(places[best])), (int(fit[best]), int(places[best]), source)]

    def _may(self, items: LongArray, place: int) -> BoolArray:
        return np.asarray(self.terms.open[self.terms.item[items], self.terms.place[place]], dtype=np.bool_)

    def _price(self, items: LongArray, place: int) -> IntArray:
        return np.asarray(self.terms.price[self.terms.item[items], self.terms.place[place]], dtype=np.int32)

    def _after(self, load: FloatArray, source: int, place: int | IntArray, shift: FloatArray | float) -> FloatArray:
        """Returns the load of the fuller of the two places after moving `shift` from `source` to `place`."""
        here = (load[source] - shift) / self.capacity[source]
        there = (load[place] + shift) / self.capacity[place]
        return np.asarray(np.maximum(here, there), dtype=np.float64)

    def _carry_out(self, step: list[Step], load: FloatArray) -> None:
        for item, source, place in step:
            self.owner[item] = place
            load[source] -= self.weight[item]
            load[place] += self.weight[item]


def _summed(owner: IntArray, weight: FloatArray, places: int) -> FloatArray:
    return np.bincount(owner, weight, places).astype(np.float64)


def _least(after: FloatArray, price_change: IntArray, now: float) -> int | None:
    """Returns the step after which the fuller place is lightest, among steps that cost no more, and the cheapest of
    equal ones; None if no step helps."""
    after = np.where(price_change <= 0, after, np.inf)
    best = float(after.min(initial=np.inf))
    if not best < now * (1 - _LEAST_GAIN):
        return None
    equal = np.flatnonzero(after <= best * (1 + _LEAST_GAIN))
    return int(equal[price_change[equal].argmin()])


def _by_place(owner: IntArray, places: int) -> list[LongArray]:
    order = np.argsort(owner, kind="stable").astype(np.int64)
    ends = np.cumsum(np.bincount(owner, minlength=places))
    return np.split(order, ends[:-1])
