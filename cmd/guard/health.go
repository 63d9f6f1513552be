package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

const (
	// healthTime bounds one question. The page itself takes at most three seconds.
	healthTime = 5 * time.Second
	// longestAnswer bounds what is printed of an answer, in bytes.
	longestAnswer = 4 << 10
)

// health asks the guard of this host and these settings whether it is ready, for health checks where there is no shell
// and no HTTP client. The error is what /readyz says.
func (p *program) health(ctx context.Context, c *config) error {
	if c.HTTPListen == "" {
		return errors.New("nothing to ask: set GUARD_HTTP_LISTEN as for guard serve")
	}
	ctx, cancel := context.WithTimeout(ctx, healthTime)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://guard/readyz", nil)
	if err != nil {
		return err
	}
	transport := &http.Transport{
		DisableKeepAlives: true,
		// Dialing an address without a host, or 0.0.0.0, means this host.
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, c.HTTPListen)
		},
	}
	answer, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return fmt.Errorf("no guard answers at GUARD_HTTP_LISTEN: %w", errors.Unwrap(err))
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, longestAnswer))
	if err != nil {
		return fmt.Errorf("the answer of /readyz broke off: %w", err)
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("not ready: %s", strings.TrimSpace(string(body)))
	}
	return nil
}
