"""What has changed between two sets of orders on places, in sentences. Pure."""

from collections.abc import Mapping, Sequence

from bellwether_kafka.coordinator.control.records import OnPlaces


def order_news(
    before: Sequence[OnPlaces],
    in_force: Sequence[OnPlaces],
    now_ms: int,
    why: Mapping[str, str],
) -> str:
    """Returns the sentences of new orders, and of ended ones with the reason. `why` has the reasons, by key, of orders
    that this instance ended."""
    effects, kept = [order.effect for order in before], {order.key for order in in_force}
    message = [order.sentence for order in in_force if order.effect not in effects]
    ended = [order for order in before if order.key not in kept]
    how = ["expired" if order.expires_ms <= now_ms else why.get(order.key, "withdrawn") for order in ended]
    return "; ".join(message + [f"{order.sentence}: {end}" for order, end in zip(ended, how, strict=True)])
