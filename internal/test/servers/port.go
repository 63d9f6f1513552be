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

// ports are the ports that this process has handed out, each only once: servers that start at the
// same time must not get the same one.
var ports = struct {
	sync.Mutex
	used map[int]bool
	kept []net.Listener // from reserve, until the process ends
}{used: map[int]bool{}}

// freePorts returns n distinct ports on which nobody listens now. On Linux freePorts gives them to
// no other process as long as this one lives. A program that does not use freePorts may still take
// one before it is used.
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

// reserve keeps the port from other processes that use freePorts, also while its server is down:
// test binaries run concurrently, and a server that is started again must not find another's server
// on its port. The process that listens on the name in the abstract namespace, which only Linux
// has, owns the port. The kernel frees the name when the process ends. On other systems reserve
// returns nil.
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

// startOnFreePorts calls start with n free ports, and again with others if it fails with
// errPortTaken.
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
