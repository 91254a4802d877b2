#!/bin/sh
# The least rights of a feature (docs/reference/acls.md), granted with Kafka's own tool:
#   [CONFIG=admin.properties] deploy/acl/kafka-acls.sh BOOTSTRAP PRINCIPAL FEATURE NAME [TOPIC...]
#   observe GROUP TOPIC...    lead GROUP TOPIC...    assist GROUP    streams APPLICATION_ID SOURCE_TOPIC...
#   control TOPIC    events TOPIC    weights TOPIC
set -eu
bootstrap=$1 principal=$2 feature=$3 name=$4
shift 4
acls() { kafka-acls.sh --bootstrap-server "$bootstrap" ${CONFIG:+--command-config "$CONFIG"} --add --allow-principal "$principal" "$@"; }
case $feature in
    observe) acls --operation Describe --group "$name" ;;
    lead | assist) acls --operation Read --group "$name" ;;
    streams)
        acls --operation Read --group "$name"
        acls --operation Describe --operation Create --topic "$name-" --resource-pattern-type prefixed
        ;;
    control) acls --operation Read --operation Write --operation Create --topic "$name" ;;
    events) acls --operation Write --topic "$name" ;;
    weights) acls --operation Read --topic "$name" ;;
    *)
        echo "There is no feature '$feature'." >&2
        exit 2
        ;;
esac
for topic in "$@"; do acls --operation Describe --topic "$topic"; done
