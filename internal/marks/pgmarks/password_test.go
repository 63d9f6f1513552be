package pgmarks_test

import (
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/internal/marks/pgmarks"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/pgtest"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

func TestOperatorsAndLeadersReadThePasswordFromAFile(t *testing.T) {
	t.Parallel()
	pg := serverstest.Postgres(t, servers.PostgresOptions{HBA: "local all all trust\n" +
		"host all owner 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\n"})
	database := serverstest.FreshDatabase(t, pg)
	admin := pgtest.Connect(t, pg.URL("postgres", database))
	if _, err := admin.Exec(t.Context(),
		"create role owner login superuser password 's3cret'"); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "password")
	must.Succeed(t, os.WriteFile(file, []byte("s3cret\n"), 0o600))
	address := pg.URL("owner", database) + "&password_file=" + url.QueryEscape(file)
	must.Succeed(t, pgmarks.Install(t.Context(), address, "owner"))
	if names, err := pgmarks.Databases(t.Context(), address); err != nil ||
		!slices.Contains(names, database) {
		t.Errorf("%q, %v", names, err)
	}
	other := pgmarks.ForDatabase(address, "postgres")
	if installed, err := pgmarks.Installed(t.Context(), other); err != nil || installed {
		t.Errorf("in another database: %t, %v", installed, err)
	}
	claim := fence.Claim{Resource: "orders", Token: 5, Issuer: elector.Unverified, Holder: "a"}
	must.Report(t, pgmarks.NewRaiser(address).Raise(t.Context(), claim))
	if shown := pgmarks.Address(address); strings.Contains(shown, "password") {
		t.Errorf("the address is shown as %s", shown)
	}
	must.Succeed(t, os.WriteFile(file, []byte("wr0ng"), 0o600))
	err := pgmarks.Install(t.Context(), address, "owner")
	if err == nil || !strings.Contains(err.Error(), file) || strings.Contains(err.Error(), "wr0ng") {
		t.Errorf("got %v", err)
	}
}
