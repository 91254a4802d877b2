# What debootstrap made, with the certificates this machine trusts, and without the care for power cuts that slows dpkg down.
FROM localhost/debootstrap:bookworm
COPY certs /etc/ssl/certs
RUN echo force-unsafe-io > /etc/dpkg/dpkg.cfg.d/unsafe && rm -f /usr/lib/python3.11/EXTERNALLY-MANAGED && ln -sf python3 /usr/bin/python
ENV SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt PIP_CERT=/etc/ssl/certs/ca-certificates.crt
CMD ["python3"]
