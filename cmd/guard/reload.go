package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/network/tlsconfig"
	"github.com/ringfence/ringfence/internal/settings"
)

// reloader reads the settings again while the guard serves. Either all that can change takes
// effect, or nothing does.
type reloader struct {
	load    func() (*config, error)
	log     *slog.Logger
	level   *slog.LevelVar    // of the log
	tls     *tlsconfig.Server // nil: no client can use TLS
	pages   *pages
	servers []*guard.Server // whose limits can change
	unit    *unit

	now *config // the settings in effect
}

// run reloads at each signal, until ctx ends.
func (r *reloader) run(ctx context.Context, signals <-chan os.Signal) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-signals:
			r.unit.reloading()
			r.unit.reloaded(r.reload())
		}
	}
}

// reload reads the settings, the certificates and the token again. After an error everything is as
// before.
func (r *reloader) reload() error {
	next, err := r.load()
	if err != nil {
		r.log.Error("reload failed, the settings before stay in effect", "err", err)
		return err
	}
	after := r.changed(next)
	use, err := r.files(after)
	if err != nil {
		r.log.Error("reload failed, the settings, certificates and token before stay in effect", "err",
			err)
		return err
	}
	r.log.Info("reloaded", "changed", append([]string{}, settings.Changed(r.now, after)...),
		"certificates", r.tls != nil || r.pages.tls != nil)
	use()
	r.level.Set(after.Log)
	for _, s := range r.servers {
		s.SetLimits(after.limits())
	}
	r.now = after
	if rest := settings.Changed(r.now, next); len(rest) > 0 {
		r.log.Warn("settings have changed that need a restart", "settings", rest)
	}
	return nil
}

// changed returns the settings in effect with those of next that can change.
func (r *reloader) changed(next *config) *config {
	after := *r.now
	after.Log = next.Log
	after.MaxConnections, after.MaxUnadmitted, after.MaxLogins = next.MaxConnections,
		next.MaxUnadmitted, next.MaxLogins
	if r.pages.listener != nil {
		after.HTTPToken, after.HTTPTokenFile = next.HTTPToken, next.HTTPTokenFile
	}
	if r.tls != nil {
		after.TLSCert = replace(after.TLSCert, next.TLSCert)
		after.TLSKey = replace(after.TLSKey, next.TLSKey)
		after.TLSClientCA = replace(after.TLSClientCA, next.TLSClientCA)
	}
	if r.pages.tls != nil {
		after.HTTPTLSCert = replace(after.HTTPTLSCert, next.HTTPTLSCert)
		after.HTTPTLSKey = replace(after.HTTPTLSKey, next.HTTPTLSKey)
	}
	return &after
}

// files reads what the settings name. use has it take effect.
func (r *reloader) files(c *config) (use func(), err error) {
	var all []func()
	token, err := c.token()
	if err != nil {
		return nil, err
	}
	all = append(all, func() { r.pages.admit(token) })
	for _, of := range []struct {
		server   *tlsconfig.Server
		files    tlsconfig.Files
		settings string
	}{
		{r.tls, c.tlsFiles(), "GUARD_TLS_CERT, GUARD_TLS_KEY, GUARD_TLS_CLIENT_CA"},
		{r.pages.tls, c.httpFiles(), "GUARD_HTTP_TLS_CERT, GUARD_HTTP_TLS_KEY"},
	} {
		if of.server == nil {
			continue
		}
		use, err := of.server.Prepare(of.files)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", of.settings, err)
		}
		all = append(all, use)
	}
	return func() {
		for _, use := range all {
			use()
		}
	}, nil
}

// replace returns the new path of a file. With no file at all before or after, the guard would have
// to serve its clients in another way, which needs a restart.
func replace(before, after string) string {
	if before == "" || after == "" {
		return before
	}
	return after
}
