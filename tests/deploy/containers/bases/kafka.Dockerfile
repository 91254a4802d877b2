# Kafka's jars from Maven under the paths of the published image, whose own class turns KAFKA_* into a configuration.
FROM maven:3-eclipse-temurin-17 AS jars
COPY pom.xml pom.xml
RUN mvn -q -B dependency:copy-dependencies -DoutputDirectory=/jars

FROM eclipse-temurin:17-jre
RUN useradd --uid 1000 --create-home appuser && mkdir -p /opt/kafka/config /etc/kafka/docker /mnt/shared/config /var/lib/kafka/data /tmp/kafka-logs \
    && chown -R appuser /opt/kafka/config /var/lib/kafka /tmp/kafka-logs
COPY --from=jars /jars /opt/kafka/libs
COPY kafka /opt/kafka/bin
RUN chmod +x /opt/kafka/bin/* && printf '' > /etc/kafka/docker/server.properties && touch /etc/kafka/docker/log4j2.yaml /etc/kafka/docker/tools-log4j2.yaml
USER appuser
CMD ["/opt/kafka/bin/run"]
