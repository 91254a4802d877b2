"""Names are data: one function for each language into which a name is put.

Clients and operators choose the names of groups, members, topics and hosts, and Kafka takes any text for most of them.
Nothing else formats a name. JSON is left to `json`, labels of metrics to prometheus-client.
"""

from bellwether_kafka.coordinator.names.languages import (
    for_html,
    for_shell,
    for_terminal,
    for_toml,
    for_url,
)
from bellwether_kafka.coordinator.names.secrets import (
    HIDDEN,
    SECRETS,
    keep_secret,
    without_kept_secrets,
    without_secrets,
)
