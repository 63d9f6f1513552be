package stores_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ringfence/ringfence/cmd/leader/internal/stores"
	"github.com/ringfence/ringfence/internal/settings"
)

func TestAClientsURLGetsNothingOfTheAgents(t *testing.T) {
	home := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(home, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	pass := file("pass", "*:*:*:*:s3cret")
	t.Setenv("PGPASSFILE", pass)
	t.Setenv("PGSERVICEFILE", file("services", "[own]\npassword=s3cret\n"))
	t.Setenv("PGSERVICE", "own")
	t.Setenv("PGSSLCERT", file("cert", "none"))
	t.Setenv("PGSSLKEY", file("key", "none"))
	for _, env := range []string{"s3cret", ""} {
		t.Setenv("PGPASSWORD", env)
		for text, password := range map[string]string{
			"postgres://app:own@h/shop": "own", "postgres://app@h/shop": "", "postgres://app:@h:1/shop": "",
			"postgres://h": "", "postgresql://app:own@h/shop?sslmode=require&connect_timeout=3": "own",
			"postgres://h:5432/d@x": "", "postgres://app:own@h/shop?": "own",
			"postgres://app@h/shop?passfile=" + pass: "", "postgres://app@h/shop?sslcertmode=require": "",
		} {
			got, err := stores.Foreign(settings.URLs{settings.URL(text)})
			if err != nil {
				t.Errorf("%s: %v", text, err)
				continue
			}
			cfg, err := pgconn.ParseConfig(got[0].Reveal())
			if err != nil || cfg.Password != password || cfg.Host != "h" {
				t.Errorf("%s became %s: %q at %s, %v", text, got[0].Reveal(), cfg.Password, cfg.Host, err)
			}
		}
	}
	for _, text := range []string{"redis://h", "rediss://u:p@h:1/0?db=1&sslmode=verify-full"} {
		if got, err := stores.Foreign(settings.URLs{settings.URL(text)}); err != nil ||
			got[0].Reveal() != text {
			t.Errorf("%s became %v, %v", text, got, err)
		}
	}
}

func TestAClientsURLNamesNoFileAndNoProgram(t *testing.T) {
	for _, text := range []string{
		"postgres://app@h/d?password_command=env", "postgres://app@h/d?password_file=/etc/shadow",
		"postgres://app@h/d?service=own",
		"postgres://app@h/d?servicefile=/x&service=own", "postgres://app@h/d?sslrootcert=/x",
		"postgres://app@h/d?sslkey=/x",
		"postgres://app@h/d?options=-c%20x", "postgres://app@h/d?host=/var/run/postgresql",
		"postgres://app@%2Fvar%2Frun/d",
		"postgres://app@h/d?host=h,/var/run/postgresql", "postgres://app@h,%2Fvar%2Frun/d",
		"postgres://app@h:1,h:2/d",
		"postgres:///d", "postgres://app@h/d?password=x", "postgres://app:x?y=@h/d?a=b",
		"redis://h?password_command=env", "rediss://h?sslkey=/x&sslcert=/x",
		"redis://h/0#?password_file=/x", "rediss://h?sslrootcert=/x",
		"redis://h?%70assword_file=/x", "other://h",
	} {
		t.Setenv("PGHOST", "/var/run/postgresql")
		got, err := stores.Foreign(settings.URLs{settings.URL(text)})
		if err == nil || got != nil || !strings.Contains(err.Error(), "stores: number 1") {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
}
