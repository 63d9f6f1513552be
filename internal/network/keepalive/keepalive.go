// Package keepalive finds TCP connections whose peer is gone without a word: its host has crashed,
// or the network in between drops everything.
//
//	conn, err := keepalive.Timeouts{Silence: time.Minute}.Dialer().DialContext(ctx, "tcp", address)
package keepalive

import (
	"net"
	"time"
)

// Timeouts say when a peer counts as gone.
type Timeouts struct {
	// Silence is how long a peer may send nothing and answer no probe; a minute when zero. It finds a
	// peer that is gone while nothing is sent to it.
	Silence time.Duration
	// User is how long bytes that were sent may stay unacknowledged; as long as the system tries when
	// zero, which is a quarter of an hour on Linux. A peer that is there and does not read for so long
	// counts as gone, too: Linux makes no difference (tcp(7), TCP_USER_TIMEOUT). Only Linux has this.
	User time.Duration
}

// probes is how many of them go unanswered before the peer counts as gone.
const probes = 3

// Dialer returns a dialer of connections with these timeouts.
func (t Timeouts) Dialer() *net.Dialer {
	return &net.Dialer{KeepAliveConfig: t.config(), Control: t.control}
}

// ListenConfig returns what a listener of connections with these timeouts needs.
func (t Timeouts) ListenConfig() *net.ListenConfig {
	return &net.ListenConfig{KeepAliveConfig: t.config(), Control: t.control}
}

// Listener returns a listener of connections with these timeouts, for one that somebody else has
// opened.
func (t Timeouts) Listener(l net.Listener) net.Listener { return &listener{l, t} }

type listener struct {
	net.Listener
	timeouts Timeouts
}

// Accept sets the timeouts as well as it can. A connection on which that fails is broken already.
func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	tcp, ok := c.(*net.TCPConn)
	if err != nil || !ok {
		return c, err
	}
	_ = tcp.SetKeepAliveConfig(l.timeouts.config())
	if raw, err := tcp.SyscallConn(); err == nil {
		_ = l.timeouts.control("tcp", "", raw)
	}
	return c, nil
}

// config spends half of the time on silence and half on probes. The system counts whole seconds.
func (t Timeouts) config() net.KeepAliveConfig {
	silence := t.Silence
	if silence == 0 {
		silence = time.Minute
	}
	return net.KeepAliveConfig{
		Enable: true, Idle: max(silence/2, time.Second), Interval: max(silence/2/probes, time.Second),
		Count: probes,
	}
}
