#!/bin/sh
# The same rights with Kafka's own tool: deploy/acl/kafka-acls.sh BOOTSTRAP PRINCIPAL GROUP TOPIC [ADMIN.PROPERTIES]
set -eu
bootstrap=$1 principal=$2 group=$3 topic=$4 config=${5:-}
acls() { kafka-acls.sh --bootstrap-server "$bootstrap" ${config:+--command-config "$config"} --add --allow-principal "$principal" "$@"; }
acls --operation Read --group "$group"
acls --operation Describe --topic "$topic"
