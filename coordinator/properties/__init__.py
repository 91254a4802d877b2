"""librdkafka's properties as users write them: in a table of a file, in environment variables, or as options.

A guard reads these before it may import more, so the usual name of the control topic is here, too.
"""

from bellwether_kafka.coordinator.properties.written import (
    CONTROL_TOPIC,
    KAFKA_PREFIX,
    environment_tables,
    flattened,
    is_secret,
    process_properties,
    properties_in,
    service_links,
    shown_name,
)
