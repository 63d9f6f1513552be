package stores

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/internal/marks/pgmarks"
	"github.com/ringfence/ringfence/internal/settings"
	"github.com/ringfence/ringfence/store/pgstore"
)

var postgres = kind{
	Schemes: []string{"postgres", "postgresql"}, Form: "postgres://...",
	Open:  func(url string, c elector.Observer) fence.Raiser { return pgstore.NewRaiser(url, c) },
	check: pgmarks.CheckURL,
	loginRefused: func(err error) bool {
		const class = "28" // invalid authorization specification
		pg, ok := errors.AsType[*pgconn.PgError](err)
		return ok && strings.HasPrefix(pg.Code, class)
	},
	hint: func(err error) string {
		pg, ok := errors.AsType[*pgconn.PgError](err)
		if !ok {
			return ""
		}
		return pg.Hint
	},
	foreign: foreignPostgres,
}

var foreignPostgresKeys = []string{"user", "password", "host", "port", "dbname",
	"application_name", "connect_timeout", "sslmode", "sslnegotiation", "target_session_attrs"}

func foreignPostgres(u settings.URL) (settings.URL, error) {
	rest, query, _ := strings.Cut(u.Reveal(), "?")
	options, err := url.ParseQuery(query)
	if err != nil || options.Has("password") || strings.Contains(query, "@") {
		return "", errors.New("the password and its @ belong before the ?, and an @ behind it is %40")
	}
	// An option comes before a variable, and before ~/.pgpass and ~/.postgresql; the last one counts.
	own := "passfile=&sslcertmode=disable"
	if !hasPassword(rest) {
		own += "&password="
	}
	if query != "" {
		own = query + "&" + own
	}
	u = settings.URL(rest + "?" + own)
	cfg, err := pgconn.ParseConfigWithOptions(u.Reveal(), pgconn.ParseConfigOptions{
		ConnStringAllowedKeys: append([]string{"passfile", "sslcertmode"}, foreignPostgresKeys...),
	})
	if err != nil {
		return "", fmt.Errorf("a client's Postgres URL may have %s, and name no files or programs: %s",
			strings.Join(foreignPostgresKeys, ", "), u.Scrub(err.Error()))
	}
	for _, other := range cfg.Fallbacks { // sslmode=prefer adds one for the same server
		if other.Host != cfg.Host || other.Port != cfg.Port {
			return "", errors.New("name one host")
		}
	}
	if network, _ := pgconn.NetworkAddress(cfg.Host, cfg.Port); network == "unix" {
		return "", errors.New("name a host: a Unix socket would be opened as the user of this process")
	}
	return u, nil
}

// hasPassword reports whether the driver finds a password before the host: an empty one is none.
func hasPassword(u string) bool {
	_, rest, _ := strings.Cut(u, "://")
	end := strings.IndexAny(rest, "@/")
	if end < 0 || rest[end] != '@' {
		return false
	}
	_, password, _ := strings.Cut(rest[:end], ":")
	return password != ""
}
