package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ringfence/ringfence/cmd/internal/webpage"
)

const (
	// healthTimeout bounds one request. The page itself takes a second and a half at most.
	healthTimeout = 5 * time.Second
	// maxBody is how much of a response is printed, in bytes.
	maxBody = 4 << 10
)

func (p *program) healthCommand() *cobra.Command {
	return &cobra.Command{
		Use: "health", Args: cobra.NoArgs,
		Short: "Ask the guard of this host whether it is ready",
		Long: `Ask the guard of this host whether it is ready, at GUARD_HTTP_LISTEN. The exit code is 0, or 1 with
the reason; for health checks of containers.
`,
		RunE: p.using(p.health, usePages),
	}
}

// health asks the guard on this host whether it is ready, for health checks in containers that have
// no shell and no HTTP client. Its error is the text of /readyz.
func (p *program) health(ctx context.Context, c *config, _ []string) error {
	if c.HTTPListen == "" {
		return errors.New("no address: set GUARD_HTTP_LISTEN as for guard serve")
	}
	if strings.HasPrefix(c.HTTPListen, systemdPrefix) {
		return fmt.Errorf("GUARD_HTTP_LISTEN is %s, and its address is not known here: set "+
			"GUARD_HTTP_LISTEN to the address for this command", c.HTTPListen)
	}
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	scheme := "http"
	if c.HTTPTLSCert != "" {
		scheme = "https"
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://guard/readyz", nil)
	if err != nil {
		return err
	}
	transport := &http.Transport{
		DisableKeepAlives: true,
		// 0.0.0.0 dials this host.
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, webpage.OnLoopback(c.HTTPListen))
		},
		// The certificate has the names that others use for this host. Nothing secret is sent.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return fmt.Errorf("no guard answers at GUARD_HTTP_LISTEN: %w", errors.Unwrap(err))
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxBody))
	if err != nil {
		return fmt.Errorf("the response of /readyz was cut off: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("not ready: %s", strings.TrimSpace(string(body)))
	}
	return nil
}
