# The programs of this repository, each in an image without a shell, with the certificates of public authorities and the
# time zones. --build-arg VERSION=v0.1.0 is what `guard version` says. Choose with --target:
#
#   guard          the proxy before a database
#   leader         leader run, task, work, serve and the others; a command needs an image of its own, which takes
#                  the program from this one: COPY --from=ringfence/leader /leader /usr/local/bin/
#   worker         the lab's leader, with the leader program beside it
#   flawed-guard   a guard with a seeded bug, for the lab's controls; never for anything else
#   netfault       iptables and tc, for the lab's faults of one direction
#   etcd           etcd and etcdctl, built from their modules, or ETCD_IMAGE
#
# Stages are in this order because the classic builder makes every stage before the one that is asked for.
ARG GOLANG_IMAGE=golang:1.26
ARG ETCD_IMAGE=etcd-from-source

FROM ${GOLANG_IMAGE} AS modules
WORKDIR /src
COPY go.mod go.sum ./
COPY lab/go.mod lab/go.sum lab/
RUN go mod download && cd lab && go mod download

FROM modules AS build
ENV CGO_ENABLED=0 GOFLAGS=-tags=grpcnotrace
COPY checkpoint checkpoint
COPY fence fence
COPY internal internal
COPY jobs jobs
COPY store store
COPY cmd cmd
ARG VERSION=
RUN mkdir /out && go build -trimpath -ldflags="-s -X github.com/ringfence/ringfence/internal/version.stamped=$VERSION" \
    -o /out/ ./cmd/guard ./cmd/leader

FROM scratch AS base
COPY --from=modules /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=modules /usr/local/go/lib/time/zoneinfo.zip /usr/local/go/lib/time/
ENV ZONEINFO=/usr/local/go/lib/time/zoneinfo.zip

FROM base AS guard
COPY --from=build /out/guard /guard
USER 65532:65532
ENTRYPOINT ["/guard"]
CMD ["serve"]

FROM base AS leader
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

# The module of etcd has replace directives, which `go install` refuses, so it is built as a dependency.
FROM ${GOLANG_IMAGE} AS build-etcd
ARG ETCD_VERSION=v3.7.3
ENV CGO_ENABLED=0
WORKDIR /src
RUN go mod init etcd \
 && go get go.etcd.io/etcd/server/v3@${ETCD_VERSION} go.etcd.io/etcd/etcdctl/v3@${ETCD_VERSION}
RUN mkdir /out \
 && go build -trimpath -ldflags=-s -o /out/etcd go.etcd.io/etcd/server/v3 \
 && go build -trimpath -ldflags=-s -o /out/etcdctl go.etcd.io/etcd/etcdctl/v3

# The programs are where the public images have them.
FROM scratch AS etcd-from-source
COPY --from=build-etcd /out/etcd /out/etcdctl /usr/local/bin/
CMD ["/usr/local/bin/etcd"]

FROM ${ETCD_IMAGE} AS etcd
