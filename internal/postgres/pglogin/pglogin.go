// Package pglogin logs in to Postgres with a password that may change (package password).
//
//	cfg, err := pgx.ParseConfig(url)
//	source, err := pglogin.Prepare(cfg)
//	conn, err := pglogin.Connect(ctx, cfg, source)
//
// A pool calls Fill before it connects and Accepted of the source after that, and whoever uses the
// pool repeats a call that has had no connection, by Retry of the source and Refused.
package pglogin

import (
	"context"
	"errors"
	"net/url"
	"os"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ringfence/ringfence/internal/network/password"
	"github.com/ringfence/ringfence/internal/postgres/pgcause"
	"github.com/ringfence/ringfence/internal/refusal"
)

// Prepare readies the configuration of a connection of ours. It states the encoding of all texts,
// which otherwise is a default of the database or the role: strings are UTF-8. It removes claims
// that PGOPTIONS has because a command of leader run connects: they are the command's, and poolers
// and guards of other resources refuse them. And it removes the options of package password, which
// pgx would send to the server. It returns nil if there are none of these.
func Prepare(cfg *pgx.ConnConfig) (*password.Source, error) {
	cfg.RuntimeParams["client_encoding"] = "UTF8" // poolers accept it
	unclaim(cfg.RuntimeParams)
	options := url.Values{}
	for _, name := range []string{password.FileOption, password.CommandOption} {
		if value, set := cfg.RuntimeParams[name]; set {
			options.Set(name, value)
			delete(cfg.RuntimeParams, name)
		}
	}
	source, err := password.Cut(options)
	if source == nil || err != nil {
		return nil, err
	}
	if u, err := Parse(cfg.ConnString()); err == nil {
		if _, set := u.User.Password(); set {
			return nil, errors.New("the Postgres URL has a password, and " + source.String())
		}
	}
	return source, nil
}

// Hosts returns the configuration of each host of a URL, in their order. A fallback may be the same
// host with TLS or without.
func Hosts(cfg *pgx.ConnConfig) (all []*pgx.ConnConfig) {
	first := &pgconn.FallbackConfig{Host: cfg.Host, Port: cfg.Port, TLSConfig: cfg.TLSConfig}
	for _, f := range append([]*pgconn.FallbackConfig{first}, cfg.Fallbacks...) {
		if n := len(all) - 1; n >= 0 && all[n].Host == f.Host && all[n].Port == f.Port {
			all[n].Fallbacks = append(all[n].Fallbacks, f)
			continue
		}
		one := cfg.Copy()
		one.Host, one.Port, one.TLSConfig, one.Fallbacks = f.Host, f.Port, f.TLSConfig, nil
		all = append(all, one)
	}
	return all
}

// unclaim removes the claims of options that come from PGOPTIONS.
func unclaim(params map[string]string) {
	inherited := params["options"]
	if inherited == "" || inherited != os.Getenv("PGOPTIONS") {
		return
	}
	params["options"] = refusal.Unclaimed(inherited, func(string) bool { return true })
	if params["options"] == "" {
		delete(params, "options")
	}
}

// Fill sets the present password.
func Fill(ctx context.Context, cfg *pgx.ConnConfig, source *password.Source) (err error) {
	if source != nil {
		cfg.Password, err = source.Read(ctx)
	}
	return err
}

// FillAccepted sets a password that the server accepts, since it has just let us in. It is for a
// pool whose users do not repeat calls.
func FillAccepted(ctx context.Context, cfg *pgx.ConnConfig, source *password.Source) error {
	if source == nil {
		return nil
	}
	conn, err := Connect(ctx, cfg, source)
	if err != nil {
		return err
	}
	cfg.Password = conn.Config().Password
	return conn.Close(ctx)
}

// Connect connects with the present password, and again while the server refuses it. The text of
// its error has the cause and no attempt that had to fail before (package pgcause).
func Connect(
	ctx context.Context, cfg *pgx.ConnConfig, source *password.Source,
) (conn *pgx.Conn, err error) {
	defer func() { err = pgcause.Plain(err) }()
	if source == nil {
		return pgx.ConnectConfig(ctx, cfg)
	}
	cfg = cfg.Copy()
	err = source.Login(ctx, Refused, func(present string) (err error) {
		cfg.Password = present
		conn, err = pgx.ConnectConfig(ctx, cfg)
		return err
	})
	return conn, err
}

// Refused reports whether the server has refused a login for what it says of the user: also 28000,
// because that is what a login by PAM gets, as with tokens of RDS.
func Refused(err error) bool {
	_, connecting := errors.AsType[*pgconn.ConnectError](err)
	pg, answered := errors.AsType[*pgconn.PgError](err)
	return connecting && answered && strings.HasPrefix(pg.Code, "28")
}
