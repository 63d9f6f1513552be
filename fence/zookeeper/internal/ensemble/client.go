package ensemble

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/ringfence/ringfence/fence/internal/campaign"
)

// Client talks to one ensemble. Its methods may be called from any goroutine. Call Close when it is
// no longer needed.
type Client struct {
	*campaign.Frame
	campaign.Address // Path is the parent of our znodes

	current current

	mu      sync.Mutex
	failure error // the last one, until there is an answer

	onLink func(*link) // for tests: called for each new connection; may be nil
}

// New makes a client of the ensemble in the URL:
// zk://[user:password@]host[:port][,host[:port]…][/root], or the same with zks:// and with options
// of TLS after a question mark (package tlsconfig). In either the password may be an option instead
// (package password). New connects at the first call. refused reports errors that retrying cannot
// fix.
func New(
	url string, timeout time.Duration, log *slog.Logger, refused func(error) bool,
) (*Client, error) {
	a, err := parseURL(url)
	if err != nil {
		return nil, err
	}
	c := newClient(a, timeout, log)
	c.Refused = refused
	return c, nil
}

func newClient(a campaign.Address, timeout time.Duration, log *slog.Logger) *Client {
	c := &Client{Address: a}
	c.Frame = campaign.NewFrame(campaign.Settings{
		Kind: "ZooKeeper", Where: strings.Join(a.Hosts, ","), Timeout: timeout, Logger: log,
		Last: c.lastFailure,
	})
	c.current.changing = make(chan struct{}, 1)
	return c
}

// Close ends the client's calls with ErrClosed, closes its own session, and waits for all calls and
// goroutines of the Frame. Callers of NewSession close their sessions when Context ends.
func (c *Client) Close() error {
	c.End()
	c.closeCurrent()
	c.Wait()
	return nil
}

// debugLogger logs the library's messages at debug level.
type debugLogger struct{ log *slog.Logger }

// Printf implements zk.Logger.
func (l debugLogger) Printf(format string, args ...any) {
	l.log.Debug("zk: " + fmt.Sprintf(format, args...))
}
