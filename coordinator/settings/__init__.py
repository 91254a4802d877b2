"""The configuration file and its checks."""

from bellwether_kafka.coordinator.settings.pipeline import CostSettings
from bellwether_kafka.coordinator.settings.process import GroupSettings, Settings, SettingsError, load

__all__ = ["CostSettings", "GroupSettings", "Settings", "SettingsError", "load"]
