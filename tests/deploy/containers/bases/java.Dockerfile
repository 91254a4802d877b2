FROM python:3.11-slim-bookworm
ARG PACKAGES
RUN apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $PACKAGES && rm -rf /var/lib/apt/lists/*
COPY certs /etc/ssl/certs
