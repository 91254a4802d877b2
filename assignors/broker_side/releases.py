"""The releases of Kafka whose assignors are modelled."""

OLDEST, NEWEST = "4.3", "4.4"
NEWEST_FROM = (4, 4)


def modelled(version: tuple[int, ...]) -> str:
    """Returns the release whose assignors apply to brokers of this version; the newest one if it is not known."""
    return OLDEST if version and version < NEWEST_FROM else NEWEST
