#!/bin/sh
# The least rights of a feature (docs/reference/acls.md), granted with Kafka's own tool:
#   [CONFIG=admin.properties] deploy/acl/kafka-acls.sh BOOTSTRAP PRINCIPAL FEATURE [NAME] [TOPIC...]
#   observe GROUP TOPIC...         its members, lags and shadow plan
#   lead GROUP TOPIC...            take-over and succession, too
#   streams APPLICATION_ID SOURCE_TOPIC...     lead it, and create its internal topics
#   topology APPLICATION_ID        `topology learn`: the configs of its internal topics
#   assist GROUP                   remove ghosts
#   guard GROUP TOPIC...           beside an instance; with `control` it is emptied before it stops
#   transactions APPLICATION_ID    the guard of an exactly-once application ends its open transactions
#   doctor APPLICATION_ID          with `cluster`: notices an exactly-once application that is declared otherwise
#   served GROUP TOPIC...          orders in groups whose broker assigns by plans of Bellwether
#   cluster                        bytes, brokers' limits, racks, `doctor` in full
#   control [TOPIC]                orders and standbys; TOPIC is bellwether-control unless named
#   events [TOPIC]                 bellwether.events
#   weights [TOPIC]                bellwether.weights
#   writer [TOPIC]                 your own writer of weights: bellwether.weights
#   jobs [EVENTS WEIGHTS]          the Spark jobs, and `bellwether debug history`
set -eu
bootstrap=$1 principal=$2 feature=$3
shift 3
acls() { kafka-acls.sh --bootstrap-server "$bootstrap" ${CONFIG:+--command-config "$CONFIG"} --add --allow-principal "$principal" "$@"; }
case $feature in
    observe | lead | streams | topology | assist | guard | transactions | doctor | served)
        name=$1
        shift
        ;;
esac
case $feature in
    observe) acls --operation Describe --group "$name" ;;
    lead | assist | guard) acls --operation Read --group "$name" ;;
    streams)
        acls --operation Read --group "$name"
        acls --operation Describe --operation Create --topic "$name-" --resource-pattern-type prefixed
        ;;
    topology) acls --operation DescribeConfigs --topic "$name-" --resource-pattern-type prefixed ;;
    doctor) acls --operation Describe --transactional-id "$name-" --resource-pattern-type prefixed ;;
    transactions) acls --operation Write --transactional-id "$name-" --resource-pattern-type prefixed ;;
    served)
        acls --operation Read --group "$name"
        acls --operation Describe --topic bellwether.temporary-member
        ;;
    cluster) acls --operation Describe --operation DescribeConfigs --cluster ;;
    control)
        acls --operation Read --operation Write --operation Create --topic "${1:-bellwether-control}"
        set --
        ;;
    events)
        acls --operation Write --operation Create --topic "${1:-bellwether.events}"
        set --
        ;;
    weights)
        acls --operation Read --operation Create --topic "${1:-bellwether.weights}"
        set --
        ;;
    writer)
        acls --operation Write --topic "${1:-bellwether.weights}"
        set --
        ;;
    jobs)
        acls --operation Read --topic "${1:-bellwether.events}"
        acls --operation Write --topic "${2:-bellwether.weights}"
        set --
        ;;
    *)
        echo "There is no feature '$feature'." >&2
        exit 2
        ;;
esac
for topic in "$@"; do acls --operation Describe --topic "$topic"; done
