"""The configuration file and its checks."""

from bellwether_kafka.coordinator.settings.group_settings import LEAD_FIELDS, GroupSettings
from bellwether_kafka.coordinator.settings.leaders import Leader, applications_of, leader_of, policies_of
from bellwether_kafka.coordinator.settings.patterns import pattern
from bellwether_kafka.coordinator.settings.process_settings import Settings, load, named
from bellwether_kafka.coordinator.settings.removed import GROUPS, PROCESS, REMOVED
from bellwether_kafka.coordinator.settings.settings_change import SettingsChange, change
from bellwether_kafka.coordinator.settings.settings_errors import AmbiguousGroupError, SettingsError
from bellwether_kafka.coordinator.settings.sources import PREFIX
from bellwether_kafka.coordinator.settings.tables import CostSettings, EventSettings, RackSettings, WeightSettings
