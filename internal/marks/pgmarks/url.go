package pgmarks

import (
	"crypto/tls"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ringfence/ringfence/internal/network/password"
	"github.com/ringfence/ringfence/internal/network/tlsconfig"
	"github.com/ringfence/ringfence/internal/postgres/pglogin"
)

// Target is a server, as a URL names it, or the primary of several.
type Target struct {
	cfg      *pgx.ConnConfig  // of the first host, and then of the others
	password *password.Source // nil: that of cfg
	several  *primaries       // nil where the URL names one host
}

// CheckURL says why a URL cannot be one of control connections. The error has no secrets.
func CheckURL(rawURL string) error {
	_, err := parseURL(rawURL)
	return err
}

// parseURL parses the URL of control connections.
func parseURL(rawURL string) (to Target, err error) {
	cfg, err := pgx.ParseConfig(rawURL)
	if err != nil {
		return to, fmt.Errorf("not a Postgres URL: %w", err) // pgx redacts the password
	}
	source, err := pglogin.Prepare(cfg)
	if err != nil {
		return to, err
	}
	if err := preferPrimary(cfg, rawURL); err != nil {
		return to, err
	}
	if err := renewCertificate(cfg, rawURL); err != nil {
		return to, err
	}
	cfg.RuntimeParams["application_name"] = "ringfence"
	return Target{cfg: cfg, password: source}, nil
}

// preferPrimary has the driver pass over the hosts of a URL that are standbys.
func preferPrimary(cfg *pgx.ConnConfig, rawURL string) error {
	if len(pglogin.Hosts(cfg)) == 1 {
		return nil
	}
	cfg.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsPrimary
	u, err := pglogin.Parse(rawURL)
	if err != nil {
		return nil
	}
	switch want := u.Query().Get("target_session_attrs"); want {
	case "", "any", "primary", "read-write":
		return nil
	default:
		return fmt.Errorf("target_session_attrs=%s: marks are kept at the primary; leave it out", want)
	}
}

// renewCertificate has each connection use the newest client certificate that the URL names. The
// driver reads it once. A key with a password stays with the driver.
func renewCertificate(cfg *pgx.ConnConfig, rawURL string) error {
	u, err := pglogin.Parse(rawURL)
	if err != nil {
		return nil // key=value pairs, which the driver has parsed
	}
	q, err := pglogin.Options(u.RawQuery)
	if err != nil {
		return err
	}
	if q.Get("sslcert") == "" || q.Get("sslkey") == "" || q.Get("sslpassword") != "" {
		return nil
	}
	current, err := tlsconfig.ClientCertificate(q.Get("sslcert"), q.Get("sslkey"))
	if err != nil {
		return fmt.Errorf("sslcert, sslkey: %w", err)
	}
	configs := []*tls.Config{cfg.TLSConfig}
	for _, other := range cfg.Fallbacks {
		configs = append(configs, other.TLSConfig)
	}
	for _, c := range configs {
		if c != nil {
			c.Certificates, c.GetClientCertificate = nil, current
		}
	}
	return nil
}

// settings are made on every control connection, once it is known not to be a pooler's, so that no
// default of a role, a database or an environment changes the meaning of our statements. The
// statement timeout is longer than any admission, because the admission's context ends first. No
// timeout ends an idle connection: on a full server there may be no room for another one.
const settings = `set search_path = pg_catalog;
set default_transaction_isolation = 'read committed';
set default_transaction_read_only = off;
set statement_timeout = '30s';
set lock_timeout = 0;
set idle_in_transaction_session_timeout = '30s';
select set_config(n, '0', false) from unnest(array['idle_session_timeout', 'transaction_timeout']) n
 where current_setting(n, true) is not null`

// Address returns where a URL points, without its credentials.
func Address(rawURL string) string {
	cfg, err := pgx.ParseConfig(rawURL)
	if err != nil {
		return "(not a Postgres URL)"
	}
	var all []string // sorted: the order of hosts does not matter
	for _, host := range pglogin.Hosts(cfg) {
		network, address := dialTarget(host)
		if network == "unix" {
			return address
		}
		all = append(all, address)
	}
	slices.Sort(all)
	return strings.Join(all, ",") + "/" + cfg.Database
}

// ForDatabase returns the URL for another database of the same server. A URL that is malformed
// stays so.
func ForDatabase(rawURL, database string) string {
	u, err := pglogin.Parse(rawURL)
	if err != nil {
		return rawURL // Open says what is wrong with it
	}
	q, err := pglogin.Options(u.RawQuery)
	if err != nil {
		return rawURL
	}
	u.Path, u.RawPath = "/", ""
	q.Del("database")
	q.Set("dbname", database) // unlike a path, it may have any character
	u.RawQuery = pglogin.Query(q)
	return u.String()
}

// DatabaseOf returns the database that a URL names.
func DatabaseOf(rawURL string) (string, error) {
	to, err := parseURL(rawURL)
	if err != nil {
		return "", err
	}
	return to.cfg.Database, nil
}

// Role returns the role that a URL logs in as.
func Role(rawURL string) (string, error) {
	to, err := parseURL(rawURL)
	if err != nil {
		return "", err
	}
	return to.cfg.User, nil
}
