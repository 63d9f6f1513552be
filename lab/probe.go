package lab

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

const (
	electionTime = 20 * time.Second // for LeadingServer, where its context would let it wait longer
	modeTime     = time.Second      // for one server's answer: one that is paused does not count
	lookAgain    = 20 * time.Millisecond
)

// Server is a ZooKeeper server: its name as a process, and where it takes clients.
type Server struct{ Name, Address string }

// LeadingServer is the name of the server that leads an ensemble, or stands alone. It waits while there is none.
func LeadingServer(ctx context.Context, all []Server) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, electionTime, fmt.Errorf("none within %v", electionTime))
	defer cancel()
	again := time.NewTicker(lookAgain)
	defer again.Stop()
	for {
		for _, s := range all {
			if s.Leads(ctx) {
				return s.Name, nil
			}
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return "", fmt.Errorf("no server of the ensemble leads: %w", context.Cause(ctx))
		}
	}
}

// Leads is true of a server that leads an ensemble, or stands alone, and says so soon.
func (s Server) Leads(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, modeTime)
	defer cancel()
	mode, err := s.Mode(ctx)
	return err == nil && (mode == "leader" || mode == "standalone")
}

// Mode is what the server is: leader, follower, standalone. One that belongs to no quorum has none, which is an error.
func (s Server) Mode(ctx context.Context) (string, error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", s.Address)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if deadline, ok := ctx.Deadline(); ok {
		_ = c.SetDeadline(deadline)
	}
	if _, err := io.WriteString(c, "srvr"); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(c)
	if err != nil {
		return "", err
	}
	_, after, found := strings.Cut(string(answer), "Mode: ")
	if !found {
		return "", fmt.Errorf("srvr: %q", strings.TrimSpace(string(answer)))
	}
	mode, _, _ := strings.Cut(after, "\n")
	return mode, nil
}

// fresh keeps no connections: the guard that answers next may be another process.
var fresh = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// Ready is nil when a page says so, such as a guard's /readyz; otherwise it has what the page says.
func Ready(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := fresh.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("not ready: %s", strings.TrimSpace(string(body)))
	}
	return err
}
