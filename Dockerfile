# The service in an image without a shell. The build stage installs from the lock file with hashes; the last stage has
# Python, the installed packages and nothing else, runs as a number and needs no writable file system.
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
RUN sh deploy/image/install.sh /opt/bellwether

# The same Python minor version as the build stage: wheels with compiled parts are for one.
FROM gcr.io/distroless/python3-debian12:nonroot
ARG REVISION=""
LABEL org.opencontainers.image.title="bellwether" \
  org.opencontainers.image.description="Leads classic Kafka consumer groups and decides the assignment of every member" \
  org.opencontainers.image.version="0.3.0" \
  org.opencontainers.image.revision="$REVISION" \
  org.opencontainers.image.licenses="Apache-2.0" \
  org.opencontainers.image.base.name="gcr.io/distroless/python3-debian12:nonroot"
COPY --from=build /opt/bellwether /opt/bellwether
ENV PYTHONPATH=/opt/bellwether PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 65532:65532
EXPOSE 9790
# Healthy as soon as it answers where http_address says; a machine that is busy gets a minute before silence counts.
HEALTHCHECK --interval=10s --timeout=10s --start-period=60s \
  CMD ["python3", "-m", "bellwether_kafka.health"]
ENTRYPOINT ["python3", "-m", "bellwether_kafka"]
CMD ["run", "--config", "/etc/bellwether/bellwether.toml"]
