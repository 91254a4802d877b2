"""The configuration file and its checks."""

from bellwether_kafka.coordinator.settings.change import SettingsChange, change
from bellwether_kafka.coordinator.settings.errors import AmbiguousGroupError, SettingsError
from bellwether_kafka.coordinator.settings.group import GroupSettings
from bellwether_kafka.coordinator.settings.pipeline import CostSettings, EventSettings, WeightSettings
from bellwether_kafka.coordinator.settings.process import Settings, load, named
from bellwether_kafka.coordinator.settings.sources import PREFIX
