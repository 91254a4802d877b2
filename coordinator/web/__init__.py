"""The read-only page and its HTTP server."""

from bellwether_kafka.coordinator.web.app import Web
from bellwether_kafka.coordinator.web.led_lags import LagWatch
from bellwether_kafka.coordinator.web.led_rebalances import LedRebalances
from bellwether_kafka.coordinator.web.observed import Present, present
from bellwether_kafka.coordinator.web.picture import ITEMS_MAX as ITEMS_MAX
from bellwether_kafka.coordinator.web.picture import Move, Picture, picture_of
from bellwether_kafka.coordinator.web.server import HttpAddressError, HttpServer
