package postgres

import (
	"errors"
	"fmt"
	"net/url"

	"github.com/jackc/pgx/v5"
)

// parseURL parses the URL of control connections.
func parseURL(rawURL string) (*pgx.ConnConfig, error) {
	cfg, err := pgx.ParseConfig(rawURL)
	if err != nil {
		return nil, fmt.Errorf("not a Postgres URL: %w", err) // pgx redacts the password
	}
	for _, other := range cfg.Fallbacks { // sslmode=prefer adds one for the same server
		if other.Host != cfg.Host || other.Port != cfg.Port {
			return nil, errors.New(
				"a Postgres URL of several hosts: name the one primary that is guarded")
		}
	}
	cfg.RuntimeParams["application_name"] = "ringfence"
	return cfg, nil
}

// settings are made on every control connection, once it is known not to be a pooler's, so that no
// default of a role, a database or an environment changes the meaning of our statements. The
// statement timeout is longer than any admission, because the admission's context ends first.
const settings = `set search_path = pg_catalog;
set default_transaction_isolation = 'read committed';
set default_transaction_read_only = off;
set statement_timeout = '30s';
set lock_timeout = 0;
set idle_in_transaction_session_timeout = '30s'`

// Address returns where a URL points, without its credentials.
func Address(rawURL string) string {
	cfg, err := pgx.ParseConfig(rawURL)
	if err != nil {
		return "(not a Postgres URL)"
	}
	network, address := dialTarget(cfg)
	if network == "unix" {
		return address
	}
	return address + "/" + cfg.Database
}

// ForDatabase returns the URL for another database of the same server. A URL that is malformed stays
// so.
func ForDatabase(rawURL, database string) string {
	u, err := url.Parse(rawURL)
	if err != nil {
		return rawURL // Open says what is wrong with it
	}
	u.Path, u.RawPath = "/", ""
	q := u.Query()
	q.Del("database")
	q.Set("dbname", database) // unlike a path, it may have any character
	u.RawQuery = q.Encode()
	return u.String()
}

// DatabaseOf returns the database that a URL names.
func DatabaseOf(rawURL string) (string, error) {
	cfg, err := parseURL(rawURL)
	if err != nil {
		return "", err
	}
	return cfg.Database, nil
}

// Role returns the role that a URL logs in as.
func Role(rawURL string) (string, error) {
	cfg, err := parseURL(rawURL)
	if err != nil {
		return "", err
	}
	return cfg.User, nil
}
