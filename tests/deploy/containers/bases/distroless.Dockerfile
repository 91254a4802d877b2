# Python and what it is linked to, and nothing else: no shell, no package manager, no pip.
FROM python:3.11-slim-bookworm AS whole
COPY distroless.sh /distroless.sh
RUN sh /distroless.sh /out

FROM scratch
COPY --from=whole /out /
ENV SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt LANG=C.UTF-8
USER 65532
WORKDIR /home/nonroot
ENTRYPOINT ["/usr/bin/python3"]
