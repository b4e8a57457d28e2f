# One node. The first stage builds the program as `make deps all` does. The second stage contains it and the libraries
# that it needs to run. docker-compose.yml explains how to use it.
#
#     docker build -t meshnode .
#     docker run --rm meshnode --help
#     docker run --rm -it --network host meshnode configs/digits.yaml      # one node on this machine's LAN

FROM debian:bookworm-slim AS build
WORKDIR /src
COPY tests/support/deps.sh tests/support/
RUN tests/support/deps.sh build
COPY . .
RUN make -s -j2 all install DESTDIR=/built PREFIX=/usr && strip /built/usr/bin/meshnode

FROM debian:bookworm-slim
RUN apt-get update -q \
    && apt-get install -q -y --no-install-recommends libczmq4 libjansson4 libjpeg62-turbo \
        libpng16-16 libsodium23 libxxhash0 libyaml-0-2 libzmq5 zlib1g \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/*.log /var/log/apt \
    && useradd --uid 1000 --create-home --home-dir /meshnode --shell /usr/sbin/nologin meshnode \
    && install -d -o meshnode /meshnode/runs
COPY --from=build /built/usr/bin/meshnode /usr/bin/
COPY configs /meshnode/configs
USER meshnode
WORKDIR /meshnode
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 CMD ["meshnode", "health"]
ENTRYPOINT ["meshnode"]
