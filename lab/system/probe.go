package system

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
	electionTime = 20 * time.Second // for LeadingServer, even if its context allows more
	modeTime     = time.Second      // for one server's answer: a paused server gives none
	lookAgain    = 20 * time.Millisecond
)

// Server is a ZooKeeper server: its name as a process, and its address for clients.
type Server struct{ Name, Address string }

// LeadingServer returns the name of the server that leads an ensemble, or runs alone. It waits
// while there is none. leads reports whether a server leads now.
func LeadingServer(
	ctx context.Context, names []string, leads func(ctx context.Context, name string) bool,
) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, electionTime,
		fmt.Errorf("none within %v", electionTime))
	defer cancel()
	again := time.NewTicker(lookAgain)
	defer again.Stop()
	for {
		for _, name := range names {
			if leads(ctx, name) {
				return name, nil
			}
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return "", fmt.Errorf("none of %s leads: %w",
				strings.Join(names, ", "), context.Cause(ctx))
		}
	}
}

// LeadsZooKeeper reports whether the server at an address leads an ensemble, or runs alone.
func LeadsZooKeeper(ctx context.Context, address string) bool {
	return Server{Address: address}.Leads(ctx)
}

// LeadsEtcd reports whether the member at an address leads its cluster and answers in time. It
// reads the member's metrics.
func LeadsEtcd(ctx context.Context, address string) bool {
	ctx, cancel := context.WithTimeout(ctx, modeTime)
	defer cancel()
	text, err := page(ctx, "http://"+address+"/metrics")
	return err == nil && strings.Contains(text, "\netcd_server_is_leader 1\n")
}

// Leads reports whether the server leads an ensemble, or runs alone, and answers in time.
func (s Server) Leads(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, modeTime)
	defer cancel()
	mode, err := s.Mode(ctx)
	return err == nil && (mode == "leader" || mode == "standalone")
}

// Mode returns the server's role: leader, follower or standalone. It is an error if the server
// belongs to no quorum.
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

// unpooled keeps no connections: the next answer may come from another process.
var unpooled = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// Ready returns nil if a health page, such as a guard's /readyz, answers 200 OK. Otherwise the
// error has the status and the text of the page.
func Ready(ctx context.Context, url string) error {
	_, err := page(ctx, url)
	return err
}

// page returns the text of a page that answers 200 OK.
func page(ctx context.Context, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	answer, err := unpooled.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", answer.Status, strings.TrimSpace(string(body)))
	}
	return string(body), err
}
