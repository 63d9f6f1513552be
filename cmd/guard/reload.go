package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/ringfence/ringfence/internal/network/tlsconfig"
	"github.com/ringfence/ringfence/internal/program/settings"
)

// reloader reads the settings again while the guard serves. Either all that can change takes effect,
// or nothing does.
type reloader struct {
	load  func() (*config, error)
	log   *slog.Logger
	level *slog.LevelVar    // of the log
	tls   *tlsconfig.Server // nil: no client can use TLS
	unit  *unit

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

// reload reads the settings and the certificates again. After an error everything is as before.
func (r *reloader) reload() error {
	next, err := r.load()
	if err != nil {
		r.log.Error("reload failed, the settings before stay in effect", "err", err)
		return err
	}
	after := *r.now
	after.Log = next.Log
	if r.tls != nil {
		after.TLSCert = replace(after.TLSCert, next.TLSCert)
		after.TLSKey = replace(after.TLSKey, next.TLSKey)
		after.TLSClientCA = replace(after.TLSClientCA, next.TLSClientCA)
		if err := r.tls.Reload(after.tlsFiles()); err != nil {
			err = fmt.Errorf("GUARD_TLS_CERT, GUARD_TLS_KEY, GUARD_TLS_CLIENT_CA: %w", err)
			r.log.Error("reload failed, the settings and certificates before stay in effect", "err", err)
			return err
		}
	}
	r.log.Info("reloaded", "changed", append([]string{}, settings.Changed(r.now, &after)...), "certificates", r.tls != nil)
	r.level.Set(after.Log)
	r.now = &after
	if rest := settings.Changed(r.now, next); len(rest) > 0 {
		r.log.Warn("settings have changed that need a restart", "settings", rest)
	}
	return nil
}

// replace returns the new path of a file. With no file at all before or after, the guard would have to
// serve its clients in another way, which needs a restart.
func replace(before, after string) string {
	if before == "" || after == "" {
		return before
	}
	return after
}
