package serverstest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
)

// FarAway is a host of its own, in a network namespace of this machine. It can vanish: from then on
// nothing that it sends arrives, not even the end of a connection.
type FarAway struct {
	Host string // the address of this machine, as it sees it
	Addr string // its own

	t      testing.TB
	name   string
	relays []*servers.Relay
}

// NewFarAway makes a host. It skips the test if this process may make no network namespaces.
func NewFarAway(t testing.TB) *FarAway {
	t.Helper()
	n := rand.IntN(1 << 14)
	net := fmt.Sprintf("10.213.%d.%d", n>>6, n&63<<2)
	base := net[:strings.LastIndexByte(net, '.')+1]
	f := &FarAway{
		t: t, name: fmt.Sprintf("rf%d-%d", os.Getpid(), n),
		Host: fmt.Sprintf("%s%d", base, n&63<<2+1), Addr: fmt.Sprintf("%s%d", base, n&63<<2+2),
	}
	near, far := fmt.Sprintf("rfn%d", n), fmt.Sprintf("rff%d", n)
	if err := f.ip("netns", "add", f.name); err != nil {
		t.Skipf("no network namespace can be made, which needs root and the program ip: %v", err)
	}
	t.Cleanup(f.close)
	for _, args := range [][]string{
		{"link", "add", near, "type", "veth", "peer", "name", far, "netns", f.name},
		{"address", "add", f.Host + "/30", "dev", near},
		{"link", "set", near, "up"},
		{"-n", f.name, "address", "add", f.Addr + "/30", "dev", far},
		{"-n", f.name, "link", "set", far, "up"},
	} {
		if err := f.ip(args...); err != nil {
			t.Skipf("no link to a network namespace can be made: %v", err)
		}
	}
	return f
}

func (f *FarAway) ip(args ...string) error {
	out, err := exec.Command("ip", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

// Vanish drops everything that the host sends.
func (f *FarAway) Vanish() {
	f.t.Helper()
	must.Succeed(f.t, f.ip("-n", f.name, "route", "add", "blackhole", f.Host+"/32"))
}

// Dial connects from the host.
func (f *FarAway) Dial(ctx context.Context, network, address string) (c net.Conn, err error) {
	f.there(func() error {
		c, err = new(net.Dialer).DialContext(ctx, network, address)
		return err
	})
	return c, err
}

// Forward listens on the host, and forwards each connection to an address of this machine. It
// returns where it listens.
func (f *FarAway) Forward(to string) (address string) {
	f.t.Helper()
	var l net.Listener
	err := f.there(func() (err error) {
		l, err = net.Listen("tcp", f.Addr+":0")
		return err
	})
	must.Succeed(f.t, err)
	r, err := servers.NewRelay(to, servers.RelayOptions{Listener: l})
	must.Succeed(f.t, err)
	f.relays = append(f.relays, r)
	return r.Addr()
}

// there calls a function in a thread that is in the namespace. A socket stays in the namespace in
// which it was made.
func (f *FarAway) there(do func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlock it: the thread ends with the goroutine
		ns, err := os.Open("/run/netns/" + f.name)
		if err == nil {
			defer ns.Close()
			err = unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET)
		}
		if err == nil {
			err = do()
		}
		result <- err
	}()
	return <-result
}

func (f *FarAway) close() {
	for _, r := range f.relays {
		_ = r.Close()
	}
	must.Report(f.t, f.ip("netns", "delete", f.name))
}
