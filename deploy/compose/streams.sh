#!/bin/sh
# One instance of the application "counts". It ends when its standard input does: run it with stdin open.
# Its clients give up a dead connection after 5 s, so an instance that was cut off for a while is back before its session
# ends (45 s). Later it would write old counts over those of the instances that have its tasks.
exec java -Xmx256m -cp "/app/classes:/app/jars/*" bellwether.StreamsMain \
  application.id=counts app.input=clicks app.output=counts-output \
  bootstrap.servers=kafka-1:9092,kafka-2:9092,kafka-3:9092 \
  request.timeout.ms=5000 socket.connection.setup.timeout.ms=5000 socket.connection.setup.timeout.max.ms=5000 \
  replication.factor=2 num.stream.threads=2 num.standby.replicas=1 state.dir=/home/app/state \
  ${CLIENT_RACK:+"consumer.client.rack=$CLIENT_RACK" "client.tag.zone=$CLIENT_RACK"} \
  rack.aware.assignment.strategy=min_traffic
