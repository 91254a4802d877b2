# The Spark jobs, with their own entry point: python -m bellwether_kafka.pipeline. Spark's launcher is a shell script, so this
# image has a shell; it runs as a number and writes below /tmp and where it is told to put its tables.
#   docker build -f deploy/image/pipeline.Dockerfile -t bellwether-pipeline .
FROM maven:3-eclipse-temurin-17 AS jars
WORKDIR /src
COPY pipeline/spark/pom.xml pom.xml
RUN mvn -q -B dependency:copy-dependencies -DoutputDirectory=/jars \
  -DincludeArtifactIds=spark-avro_2.13,spark-sql-kafka-0-10_2.13,spark-token-provider-kafka-0-10_2.13,kafka-clients,commons-pool2

FROM python:3.11-slim-bookworm AS build
RUN pip install --no-cache-dir uv==0.13.8
WORKDIR /src
COPY pyproject.toml uv.lock README.md LICENSE ./
COPY deploy/image/install.sh deploy/image/install.sh
COPY bellwether_kafka bellwether_kafka
COPY protocol protocol
COPY assignors assignors
COPY coordinator coordinator
COPY pipeline pipeline
RUN sh deploy/image/install.sh /opt/bellwether pipeline

FROM python:3.11-slim-bookworm
LABEL org.opencontainers.image.title="bellwether-pipeline" \
  org.opencontainers.image.description="Spark jobs over the events of Bellwether" \
  org.opencontainers.image.version="0.3.0" \
  org.opencontainers.image.licenses="Apache-2.0"
# Whatever Debian has now: a pinned version would go without its security fixes, and soon without a mirror.
# hadolint ignore=DL3008
RUN apt-get update && apt-get install -y --no-install-recommends openjdk-17-jre-headless && rm -rf /var/lib/apt/lists/*
COPY --from=build /opt/bellwether /opt/bellwether
COPY --from=jars /jars /opt/bellwether/bellwether_kafka/.cache/spark/jars
ENV PYTHONPATH=/opt/bellwether PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 HOME=/tmp
# Spark makes a folder where it is started.
WORKDIR /tmp
USER 65532:65532
ENTRYPOINT ["python", "-m", "bellwether_kafka.pipeline"]
CMD ["run", "--help"]
