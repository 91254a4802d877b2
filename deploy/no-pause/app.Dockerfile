# An application's image with the guard in it. Our image is built on Debian 12, so its packages want that Python (3.11).
FROM registry.example/wordcount:1
USER root
RUN apt-get update && apt-get install --yes --no-install-recommends python3 && rm -rf /var/lib/apt/lists/*
COPY --from=bellwether:0.3.0 /opt/bellwether /opt/bellwether
RUN printf '#!/bin/sh\nPYTHONPATH=/opt/bellwether exec python3 -m bellwether_kafka "$@"\n' > /usr/local/bin/bellwether \
  && chmod 0755 /usr/local/bin/bellwether
USER 1000:1000
