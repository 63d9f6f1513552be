package stores

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ringfence/ringfence/internal/settings"
)

// foreign has, by scheme, what makes a URL of somebody else safe to open.
var foreign = map[string]func(settings.URL) (settings.URL, error){
	"postgres":   foreignPostgres,
	"postgresql": foreignPostgres,
	"redis":      foreignRedis,
	"rediss":     foreignRedis,
}

// Foreign checks URLs that a client of this process has named, and returns them so that nothing but
// the URL itself counts: no file, no program and no socket that this process may open and the
// client may not, and no password from this process's environment.
func Foreign(urls settings.URLs) (all settings.URLs, err error) {
	for i, u := range urls {
		check := foreign[u.Scheme()]
		if check == nil {
			return nil, fmt.Errorf("stores: number %d: a client cannot name a %s://", i+1, u.Scheme())
		}
		u, err := check(u)
		if err != nil {
			return nil, fmt.Errorf("stores: number %d: %w", i+1, err)
		}
		all = append(all, u)
	}
	return all, nil
}

var (
	foreignPostgresKeys = []string{"user", "password", "host", "port", "dbname",
		"application_name", "connect_timeout", "sslmode", "sslnegotiation", "target_session_attrs"}
	foreignRedisOptions = []string{"db", "protocol", "sslmode"}
)

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

func foreignRedis(u settings.URL) (settings.URL, error) {
	_, query, _ := strings.Cut(u.Reveal(), "?")
	options, err := url.ParseQuery(query)
	if err != nil {
		return "", errors.New("the options behind the ? are no URL query")
	}
	for name := range options {
		if !slices.Contains(foreignRedisOptions, name) {
			return "", fmt.Errorf("a client's Redis URL may have the options %s, not %q",
				strings.Join(foreignRedisOptions, ", "), name)
		}
	}
	return u, nil
}
