"""Escapes names: one function for each language in which a name is written.

Clients and operators choose the names of groups, members, topics and hosts, and Kafka accepts any text for most of
them. No other module escapes a name, except that `json` writes JSON and prometheus-client writes labels of metrics.
"""

from bellwether_kafka.coordinator.names.languages import (
    counted,
    for_html,
    for_sentence,
    for_shell,
    for_terminal,
    for_toml,
    is_visible,
    listed,
)
from bellwether_kafka.coordinator.names.secrets import (
    HIDDEN,
    SECRETS,
    keep_secret,
    without_kept_secrets,
    without_secrets,
)
