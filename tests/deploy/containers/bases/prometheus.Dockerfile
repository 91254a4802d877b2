FROM python:3.11-slim-bookworm
RUN apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends prometheus && rm -rf /var/lib/apt/lists/* \
    && ln -sf /usr/bin/prometheus /bin/prometheus; rm -rf /etc/prometheus/*; mkdir -p /prometheus /var/lib/prometheus/metrics2 && chown -R nobody /prometheus /var/lib/prometheus
USER nobody
WORKDIR /prometheus
ENTRYPOINT ["/bin/prometheus"]
