#!/bin/sh
# One instance of the application "counts". It ends when its standard input does: run it with stdin open.
# Its clients give up a dead connection after 10 s and a record after 30 s. That is less than the session timeout (45 s),
# so an instance that was cut off does not write to its changelogs after others have taken its tasks over.
exec java -Xmx256m -cp "/app/classes:/app/jars/*" bellwether.StreamsMain \
  application.id=counts app.input=clicks app.output=counts-output \
  bootstrap.servers=kafka-1:9092,kafka-2:9092,kafka-3:9092 \
  request.timeout.ms=10000 producer.delivery.timeout.ms=30000 \
  replication.factor=2 num.stream.threads=2 num.standby.replicas=1 state.dir=/home/app/state \
  ${CLIENT_RACK:+"consumer.client.rack=$CLIENT_RACK" "client.tag.zone=$CLIENT_RACK"} \
  rack.aware.assignment.strategy=min_traffic
