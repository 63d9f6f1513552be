package pglogin_test

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/internal/postgres/pglogin"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/pgtest"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

func TestMain(m *testing.M) { os.Exit(serverstest.RunMain(m)) }

func TestTheOptionsDoNotReachTheServer(t *testing.T) {
	for _, text := range []string{
		"postgres://u@h/d?password_file=/run/a&application_name=x", "user=u host=h " +
			"password_file=/run/a application_name=x",
	} {
		cfg, err := pgx.ParseConfig(text)
		must.Succeed(t, err)
		source, err := pglogin.Prepare(cfg)
		if err != nil || source.String() != "password_file /run/a" ||
			fmt.Sprint(cfg.RuntimeParams) != "map[application_name:x client_encoding:UTF8]" {
			t.Errorf("%s: %v, %v, %v", text, source, err, cfg.RuntimeParams)
		}
	}
	for _, bad := range []string{"postgres://u:s3cret@h/d?password_file=/a",
		"postgres://u@h/d?password_file=/a&password_command=b"} {
		cfg, err := pgx.ParseConfig(bad)
		must.Succeed(t, err)
		if source, err := pglogin.Prepare(cfg); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v, %v", bad, source, err)
		}
	}
}

func TestAPoolGetsAPasswordThatIsAccepted(t *testing.T) {
	pg := serverstest.Postgres(t, servers.PostgresOptions{
		HBA: "local all all trust\nhost all app 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 " +
			"trust\n"})
	admin := pgtest.Connect(t, pg.URL("postgres", "postgres"))
	_, err := admin.Exec(t.Context(), "create role app login password 'right'")
	must.Succeed(t, err)
	tool := filepath.Join(t.TempDir(), "tool") // behind the server the first time
	const text = "#!/bin/sh\nif [ -e $0.ran ]; then echo right; else touch $0.ran; echo behind; fi\n"
	must.Succeed(t, os.WriteFile(tool, []byte(text), 0o700))
	cfg, err := pgx.ParseConfig(pg.URL("app", "postgres") + "&password_command=" +
		url.QueryEscape(tool))
	must.Succeed(t, err)
	source, err := pglogin.Prepare(cfg)
	must.Succeed(t, err)
	if err := pglogin.FillAccepted(t.Context(), cfg, source); err != nil || cfg.Password != "right" {
		t.Errorf("%q, %v", cfg.Password, err)
	}
	conn, err := pgx.ConnectConfig(t.Context(), cfg)
	must.Succeed(t, err)
	conn.Close(t.Context())
	cfg.User = "nobody"
	if _, err := pgx.ConnectConfig(t.Context(), cfg); err == nil { // trusted: there is no such role
		t.Error("nobody is let in")
	} else if !pglogin.Refused(err) {
		t.Errorf("not a refusal: %v", err)
	}
	cfg.Database, cfg.User = "nowhere", "postgres"
	if _, err := pgx.ConnectConfig(t.Context(), cfg); err == nil || pglogin.Refused(err) {
		t.Errorf("a missing database: %v", err)
	}
}

func TestAURLMayNameSeveralHosts(t *testing.T) {
	for raw, want := range map[string]string{
		"postgres://u:p@h1:1,h2:2/db?a=b":         "h1:1,h2:2",
		"postgres://u:p%40@h1,h2:2":               "h1,h2:2",
		"postgres://h1:1,[::1]:2/db":              "h1:1,[::1]:2",
		"postgres://u:p@h1:1/db?host=/run,/other": "h1:1",
	} {
		u, err := pglogin.Parse(raw)
		if err != nil || u.Host != want || u.String() != raw {
			t.Errorf("%s: %v, %v", raw, u, err)
		}
	}
}
