# One node. The first stage builds the static program, as `make static` does. The image contains it, the jobs of configs/ and
# nothing else: no shell, no libraries. docker-compose.yml explains how to use it.
#
#     docker build -t meshnode .
#     docker run --rm meshnode --help
#     docker run --rm -it --network host meshnode configs/digits.yaml      # one node on this machine's LAN
#
# For ARM64, on such a machine or where docker emulates one: docker build --platform linux/arm64 -t meshnode .

FROM debian:bookworm-slim AS build
WORKDIR /src
COPY tests/support/deps.sh tests/support/
RUN tests/support/deps.sh build static
COPY . .
RUN make -s -j2 build/meshnode-$(dpkg --print-architecture) \
    && install -D build/meshnode-* /image/usr/bin/meshnode \
    && install -d /node/runs && cp -r configs /node

FROM scratch
COPY --from=build /image /
COPY --from=build --chown=1000:1000 /node /meshnode
USER 1000:1000
WORKDIR /meshnode
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 CMD ["meshnode", "health"]
ENTRYPOINT ["meshnode"]
