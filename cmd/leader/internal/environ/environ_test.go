package environ

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/settings"
	"github.com/ringfence/ringfence/internal/test/must"
)

var claim = fence.Claim{Resource: "orders", Token: 9007199254740993, Holder: "me"}

func exported(
	t *testing.T, value string, stores, carried string, environ ...string,
) ([]string, error) {
	t.Helper()
	var s Setting
	if value != "" {
		if err := s.UnmarshalText([]byte(value)); err != nil {
			return nil, err
		}
	}
	var urls settings.URLs
	for u := range strings.FieldsSeq(stores) {
		urls = append(urls, settings.URL(u))
	}
	c, err := s.Claims(urls, func(u settings.URL) bool {
		return strings.Contains(carried, u.Scheme())
	})
	if err != nil {
		return nil, err
	}
	return c.Environ(t.Context(), environ, claim)
}

func TestOnlyWhatNeedsTheClaimGetsIt(t *testing.T) {
	const (
		token   = "RINGFENCE_RESOURCE=orders RINGFENCE_TOKEN=9007199254740993 RINGFENCE_HOLDER=me"
		options = "PGOPTIONS=-c fence.orders=9007199254740993"
		url     = "DATABASE_URL=postgres://app@guard:6432/shop?" +
			"options=-c%20fence.orders%3D9007199254740993&sslmode=require"
		pg = "postgres://app@guard:6432/shop?sslmode=require"
	)
	for _, test := range []struct{ value, stores, carried, want string }{
		{"", "", "", options + " " + token},
		{"", pg, "", options + " " + token},
		{"", pg + " redis://guard", "", options + " " + token},
		{"", "redis://guard", "", token},
		{"", pg, "postgres", ""},
		{"", pg + " redis://guard", "postgres", token},
		{"", pg + " redis://guard", "redis", options + " " + token},
		{"", pg + " redis://guard", "postgres redis", ""},
		{"none", pg, "", ""},
		{"PGOPTIONS", pg, "postgres", options},
		{"RINGFENCE_TOKEN, DATABASE_URL", pg + " redis://guard", "", token + " " + url},
	} {
		got, err := exported(t, test.value, test.stores, test.carried, "A=1", "RINGFENCE_HOLDER=outer")
		if want := strings.TrimSpace("A=1 " + test.want); err != nil || strings.Join(got, " ") != want {
			t.Errorf("%+v: %q, %v", test, got, err)
		}
	}
	for value, want := range map[string]string{
		"DATABASE_URL": "must have one postgres://", "PGSERVICE": "is none of RINGFENCE_TOKEN, " +
			"PGOPTIONS, DATABASE_URL, none",
	} {
		if _, err := exported(t, value, pg+" "+pg, ""); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", value, err)
		}
	}
}

func TestClaimsOfAnOuterLeaderStay(t *testing.T) {
	outer := `-c search_path=a\ b -c fence.day=7 --fence.orders=4 -cfence.Orders=5`
	got, err := exported(t, "", "", "", "PGOPTIONS="+outer)
	want := `PGOPTIONS=-c search_path=a\ b -c fence.day=7 -c fence.orders=9007199254740993`
	if err != nil || !slices.Contains(got, want) {
		t.Errorf("%q, %v", got, err)
	}
	got, err = exported(t, "none", "", "", "PGOPTIONS="+outer)
	if want := []string{`PGOPTIONS=-c search_path=a\ b -c fence.day=7`}; err != nil ||
		!slices.Equal(got, want) {
		t.Errorf("%q, %v", got, err)
	}
}

func TestDATABASE_URLHasThePasswordOfAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	must.Succeed(t, os.WriteFile(file, []byte("p@ss w+rd\n"), 0o600))
	got, err := exported(t, "DATABASE_URL",
		"postgres://app@guard/shop?options=-c%20work_mem%3D5MB&password_file="+file, "")
	must.Succeed(t, err)
	cfg, err := pgx.ParseConfig(settings.Lookup(got, "DATABASE_URL"))
	must.Succeed(t, err)
	want := "-c work_mem=5MB -c fence.orders=9007199254740993"
	if cfg.Password != "p@ss w+rd" || cfg.RuntimeParams["options"] != want ||
		len(cfg.RuntimeParams) != 1 {
		t.Errorf("%q, %q", cfg.Password, cfg.RuntimeParams)
	}
}
