package servers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"strconv"
	"sync"
)

const (
	host = "127.0.0.1"

	// Below the ranges from which Linux (32768), macOS (49152) and gVisor
	// (16000) take ports for outgoing connections: a stopped server's port must
	// still be free when it starts again, and any dial could take it otherwise.
	firstPort, endPort = 10000, 16000

	portAttempts = 5
)

// ports are those this process has handed out: servers that start side by side
// must not get the same one. A port is never handed out twice.
var ports = struct {
	sync.Mutex
	used map[int]bool
	kept []net.Listener // of reserve, until the process ends
}{used: map[int]bool{}}

// freePorts returns n distinct ports on which nobody listens now. On Linux no
// other process is given them here while this one lives; a program that asks
// elsewhere may still take one before it is used.
func freePorts(n int) ([]int, error) {
	ports.Lock()
	defer ports.Unlock()
	var free []int
	for tries := 0; len(free) < n; tries++ {
		if tries == 1000 {
			return nil, fmt.Errorf("no free port between %d and %d", firstPort, endPort)
		}
		port := firstPort + rand.IntN(endPort-firstPort)
		if ports.used[port] || !bindable(port) {
			continue
		}
		reserved, err := reserve(port)
		if err != nil {
			continue
		}
		if reserved != nil {
			ports.kept = append(ports.kept, reserved)
		}
		ports.used[port] = true
		free = append(free, port)
	}
	return free, nil
}

// reserve keeps the port from other processes that take theirs here, also while
// its server is down: test binaries run side by side, and what one has stopped
// must not find another's server on its port. Whoever listens on the name in
// the abstract namespace, which Linux alone has, has the port; the kernel frees
// the name when the process ends. Elsewhere it returns nil.
func reserve(port int) (net.Listener, error) {
	if runtime.GOOS != "linux" {
		return nil, nil
	}
	return net.Listen("unix", "@ringfence-port-"+strconv.Itoa(port))
}

func bindable(port int) bool {
	l, err := net.Listen("tcp", hostPort(port))
	if err != nil {
		return false
	}
	return l.Close() == nil
}

func hostPort(port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }

// startOnFreePorts calls start with n free ports, and with others again when it
// fails with errPortTaken.
func startOnFreePorts(ctx context.Context, n int, start func([]int) error) error {
	var last error
	for range portAttempts {
		free, err := freePorts(n)
		if err != nil {
			return err
		}
		if last = start(free); !errors.Is(last, errPortTaken) || ctx.Err() != nil {
			return last
		}
	}
	return last
}
