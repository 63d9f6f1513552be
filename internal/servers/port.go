package servers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

const (
	host = "127.0.0.1"

	// Below the range from which Linux and macOS take ports for outgoing
	// connections: a stopped server's port must still be free when it starts
	// again, and any dial could take it otherwise.
	firstPort, endPort = 20000, 32000

	portAttempts = 5
)

// ports are those this process has handed out: servers that start side by side
// must not get the same one. A port is never handed out twice.
var ports = struct {
	sync.Mutex
	used map[int]bool
}{used: map[int]bool{}}

// freePorts returns n distinct ports on which nobody listens now. Another
// process may still take one before it is used.
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
		ports.used[port] = true
		free = append(free, port)
	}
	return free, nil
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
