package postgres

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ringfence/ringfence/internal/network/password"
	"github.com/ringfence/ringfence/internal/postgres/pglogin"
)

// address is what a URL says.
type address struct {
	cfg      *pgx.ConnConfig
	hosts    int              // that the URL names
	password *password.Source // nil: that of cfg
	listen   bool             // LISTEN works: nothing between us and the server shares connections
	failed   *failure         // of the last connection that could not be made
}

// parseURL reads the URL of Open. Errors never show a password.
func parseURL(s string) (address, error) {
	if !strings.HasPrefix(s, "postgres://") && !strings.HasPrefix(s, "postgresql://") {
		return address{}, errors.New("a Postgres URL starts with postgres://, " +
			"as in postgres://app@database/shop")
	}
	s, listen, err := cutListen(s)
	if err != nil {
		return address{}, err
	}
	cfg, err := pgx.ParseConfig(s)
	if err != nil {
		return address{}, fmt.Errorf("not a Postgres URL: %w", err) // pgx redacts the password
	}
	source, err := pglogin.Prepare(cfg)
	if err != nil {
		return address{}, err
	}
	if cfg.RuntimeParams["application_name"] == "" {
		cfg.RuntimeParams["application_name"] = "ringfence"
	}
	// A pooler gives each transaction another server connection, so nothing may be prepared or set.
	// What we read does not depend on settings: see query.
	cfg.DefaultQueryExecMode = pgx.QueryExecModeExec
	cfg.StatementCacheCapacity, cfg.DescriptionCacheCapacity = 0, 0
	if listen {
		cfg.RuntimeParams["default_transaction_isolation"] = "read committed"
		cfg.RuntimeParams["default_transaction_read_only"] = "off"
		cfg.RuntimeParams["statement_timeout"] = "30s" // longer than any call
		cfg.RuntimeParams["lock_timeout"] = "0"
	}
	hosts := len(pglogin.Hosts(cfg))
	if hosts > 1 && cfg.ValidateConnect == nil {
		cfg.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsPrimary
	}
	return address{
		cfg: cfg, hosts: hosts, password: source, listen: listen, failed: new(failure),
	}, nil
}

// cutListen removes the option that only we know.
func cutListen(s string) (rest string, listen bool, err error) {
	base, query, _ := strings.Cut(s, "?")
	options, err := pglogin.Options(query)
	if err != nil {
		return "", false, errors.New("the options after ? in the Postgres URL cannot be read")
	}
	if !options.Has("listen") {
		return s, true, nil
	}
	switch value := options.Get("listen"); value {
	case "on":
		listen = true
	case "off":
	default:
		return "", false, fmt.Errorf("option listen=%q is neither on nor off", value)
	}
	options.Del("listen")
	if len(options) == 0 {
		return base, listen, nil
	}
	return base + "?" + pglogin.Query(options), listen, nil
}

// String is where the URL points, without credentials.
func (a address) String() string {
	where := a.cfg.Host
	if !strings.HasPrefix(where, "/") {
		where = net.JoinHostPort(where, strconv.Itoa(int(a.cfg.Port)))
	}
	return where + "/" + a.cfg.Database
}
