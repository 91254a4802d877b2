"""The read-only page and its HTTP server."""

from bellwether_kafka.coordinator.web.app import GroupStatus, RoleStatus, Web, role_status
from bellwether_kafka.coordinator.web.lags import LagWatch
from bellwether_kafka.coordinator.web.observed import Present, present
from bellwether_kafka.coordinator.web.picture import Move, Picture, picture_of
from bellwether_kafka.coordinator.web.rounds import Rounds
from bellwether_kafka.coordinator.web.server import HttpAddressError, HttpServer
