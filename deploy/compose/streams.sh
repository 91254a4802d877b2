#!/bin/sh
# One instance of the application "counts". It ends when its standard input does: run it with stdin open.
# It counts exactly once: under at-least-once Kafka Streams may lose records when a broker does not answer, and an instance
# that was cut off may write old counts over newer ones. Its clients give up a dead connection after 10 s.
exec java -Xmx256m -cp "/app/classes:/app/jars/*" bellwether.StreamsMain \
  application.id=counts app.input=clicks app.output=counts-output \
  bootstrap.servers=kafka-1:9092,kafka-2:9092,kafka-3:9092 \
  processing.guarantee=exactly_once_v2 request.timeout.ms=10000 \
  replication.factor=2 num.stream.threads=2 num.standby.replicas=1 state.dir=/home/app/state \
  ${CLIENT_RACK:+"consumer.client.rack=$CLIENT_RACK" "client.tag.zone=$CLIENT_RACK"} \
  rack.aware.assignment.strategy=min_traffic
