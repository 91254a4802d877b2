#!/bin/sh
# One instance of the application "counts". It ends when its standard input does: run it with stdin open.
exec java -Xmx256m -cp "/app/classes:/app/jars/*" bellwether.StreamsMain \
  application.id=counts app.input=clicks app.output=counts-output \
  bootstrap.servers=kafka-1:9092,kafka-2:9092,kafka-3:9092 \
  replication.factor=2 num.stream.threads=2 num.standby.replicas=1 state.dir=/home/app/state \
  "consumer.client.rack=${CLIENT_RACK:-}" "client.tag.zone=${CLIENT_RACK:-}" \
  rack.aware.assignment.strategy=min_traffic
