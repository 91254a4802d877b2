"""librdkafka's properties as users write them: in a table of a file, in environment variables, or as options."""

from bellwether_kafka.coordinator.properties.written import (
    KAFKA_PREFIX,
    environment_tables,
    flattened,
    is_secret,
    process_properties,
    properties_in,
    service_links,
    shown_name,
)
