# The programs of this repository, each alone in an image without a shell. Choose with --target:
#
#   guard          the proxy before Postgres and Redis
#   leader         leader run, task, status, resign
#   worker         the lab's leader, with the leader program beside it
#   flawed-guard   a guard with a seeded bug, for the lab's controls; never for anything else
#   netfault       iptables and tc, for the lab's faults of one direction
#
# Stages are in this order because the classic builder makes every stage before the one that is asked for.
ARG GOLANG_IMAGE=golang:1.26

FROM ${GOLANG_IMAGE} AS modules
WORKDIR /src
COPY go.mod go.sum ./
COPY lab/go.mod lab/go.sum lab/
RUN go mod download && cd lab && go mod download

FROM modules AS build
ENV CGO_ENABLED=0
COPY checkpoint checkpoint
COPY fence fence
COPY internal internal
COPY store store
COPY cmd cmd
RUN mkdir /out && go build -trimpath -ldflags=-s -o /out/ ./cmd/guard ./cmd/leader

FROM scratch AS guard
COPY --from=build /out/guard /guard
USER 65532:65532
ENTRYPOINT ["/guard"]
CMD ["serve"]

FROM scratch AS leader
COPY --from=build /out/leader /leader
USER 65532:65532
ENTRYPOINT ["/leader"]

FROM build AS build-lab
COPY lab lab
RUN cd lab && go build -trimpath -ldflags=-s -o /out/ ./cmd/worker ./cmd/flawed-guard

FROM scratch AS worker
COPY --from=build-lab /out/worker /out/leader /
USER 65532:65532
ENTRYPOINT ["/worker"]

FROM scratch AS flawed-guard
COPY --from=build-lab /out/flawed-guard /guard
USER 65532:65532
ENTRYPOINT ["/guard"]

FROM ${GOLANG_IMAGE} AS netfault
RUN apt-get update -qq \
 && apt-get install -y -qq --no-install-recommends iproute2 iptables >/dev/null \
 && rm -rf /var/lib/apt/lists/*
