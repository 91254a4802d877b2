#!/bin/bash
# Creates the topics of the example; again is no error.
set -euo pipefail
for topic in orders clicks counts-output; do
  /opt/kafka/bin/kafka-topics.sh --bootstrap-server "$BOOTSTRAP_SERVERS" --create --if-not-exists \
    --topic "$topic" --partitions 12 --replication-factor 2
done
