package main

import (
	"context"
	"fmt"
	"net"
	"strings"

	"github.com/ringfence/ringfence/cmd/internal/systemd"
	"github.com/ringfence/ringfence/internal/network/keepalive"
)

// systemdPrefix marks the name of a socket that the service manager has opened.
const systemdPrefix = "systemd:"

// openings opens the addresses that clients use.
type openings struct {
	sockets  *systemd.Sockets
	timeouts keepalive.Timeouts
	opened   []string // in words, for the service manager
}

// listen opens an address that checkListen has accepted, or takes over a socket. what is for
// people.
func (o *openings) listen(ctx context.Context, what, address string) (net.Listener, error) {
	l, err := o.open(ctx, address)
	if err == nil {
		o.opened = append(o.opened, what+" at "+displayAddress(l))
	}
	return l, err
}

func (o *openings) open(ctx context.Context, address string) (net.Listener, error) {
	name, passed := strings.CutPrefix(address, systemdPrefix)
	if !passed {
		return listen(ctx, address, o.timeouts)
	}
	l, err := o.sockets.Listener(name)
	if err != nil {
		return nil, err
	}
	return o.timeouts.Listener(l), nil
}

// checkSocketName says what is wrong with the name of a socket (systemd.socket(5),
// FileDescriptorName=).
func checkSocketName(name string) error {
	if name == "" || len(name) > 255 || strings.ContainsFunc(name, func(r rune) bool {
		return r <= ' ' || r > '~' || r == ':'
	}) {
		return fmt.Errorf("%q is not the name of a socket, such as %spostgres", systemdPrefix+name,
			systemdPrefix)
	}
	return nil
}
