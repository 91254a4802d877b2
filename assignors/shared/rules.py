"""The operator's rules on placement, as they are written in an order."""

from dataclasses import dataclass
from typing import Literal

EVERYTHING = "*"


@dataclass(frozen=True, slots=True)
class Rule:
    """One pin or ban. `where` and `item` are written as above."""

    kind: Literal["pin", "ban"]
    item: str
    where: str
