"""The command `bellwether`."""

from bellwether_kafka.coordinator.cli.main import main
from bellwether_kafka.coordinator.cli.render import NOTHING, RACK_WIDTH, ROWS_MAX, Caption, decision_panel, ranges

__all__ = ["NOTHING", "RACK_WIDTH", "ROWS_MAX", "Caption", "decision_panel", "main", "ranges"]
