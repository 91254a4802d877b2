"""The running process: one runner for each group, the service around them, and its wiring."""

from bellwether_kafka.coordinator.runtime.asking import Asking, ServedGroup
from bellwether_kafka.coordinator.runtime.group_watch import GroupWatch, GroupWatches
from bellwether_kafka.coordinator.runtime.led_groups import GroupsConfig
from bellwether_kafka.coordinator.runtime.observers import Observers
from bellwether_kafka.coordinator.runtime.outside import Outside
from bellwether_kafka.coordinator.runtime.process import serve
from bellwether_kafka.coordinator.runtime.readings import Brokers, GroupReader, watch_rack_file
from bellwether_kafka.coordinator.runtime.reload import SettingsFile
from bellwether_kafka.coordinator.runtime.service import Service, ServiceOutcome
