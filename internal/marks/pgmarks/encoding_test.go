package pgmarks

import (
	"testing"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// encoded returns a database with an encoding, and the schema.
func encoded(t *testing.T, encoding string) database {
	t.Helper()
	pg := serverstest.SharedPostgres(t)
	d := database{pg, serverstest.FreshDatabase(t, pg)}
	d.roles(t)
	other := database{pg, d.name + "_encoded"}
	d.sql(t, "create database "+other.name+" template template0 encoding '"+encoding+"'")
	t.Cleanup(func() { d.sql(t, "drop database "+other.name+" with (force)") })
	if err := Install(t.Context(), other.url("postgres"), guardRole); err != nil {
		t.Fatalf("install in %s: %v", encoding, err)
	}
	return other
}

// Whatever the encoding of a database is, it installs, and shows a holder's name or, where the
// encoding lacks a character, the name in ASCII. No holder is refused for its name.
func TestAHolderIsKeptInEveryEncoding(t *testing.T) {
	t.Parallel()
	for encoding, kept := range map[string][]string{
		"LATIN1": {"büro-1"}, "LATIN5": {"büro-1"}, "SQL_ASCII": {"büro-1", "ж", "日本"},
		"EUC_JP": {"ж", "日本"}, "EUC_KR": {"ж", "日本"}, "WIN1251": {"ж"},
	} {
		t.Run(encoding, func(t *testing.T) {
			s := encoded(t, encoding).open(t, Options{})
			token := fence.Token(0)
			for _, holder := range append(kept, "büro-1 ж 日本 😀") {
				token++
				c := fence.Claim{Resource: "orders", Token: token, Issuer: "zk:a", Holder: holder}
				if _, err := raiseTo(t.Context(), s, c); err != nil {
					t.Fatalf("%s: %v", holder, err)
				}
				found, err := s.Marks(t.Context(), "orders")
				if err != nil || len(found) != 1 || found[0].Token != token {
					t.Fatalf("%s: %v, %v", holder, found, err)
				}
				if got := found[0].Holder; got != holder &&
					(int(token) <= len(kept) || got != escaped(holder)) {
					t.Errorf("the holder %q is %q", holder, got)
				}
			}
			if _, err := s.Adopt(t.Context(), fence.Claim{
				Resource: "orders", Token: 1, Issuer: "zk:b", Holder: "😀",
			}, "😀"); err != nil {
				t.Error(err)
			}
		})
	}
}

// Others read what a guard has written, whatever their own encoding is.
func TestAHolderIsTheSameForClientsOfEachEncoding(t *testing.T) {
	t.Parallel()
	d := encoded(t, "LATIN1")
	s := d.open(t, Options{})
	if _, err := raiseTo(t.Context(), s, fence.Claim{
		Resource: "orders", Token: 1, Issuer: "zk:a", Holder: "büro-1",
	}); err != nil {
		t.Fatal(err)
	}
	c := d.connect(t, "postgres")
	execute(t, c, "set client_encoding = 'UTF8'")
	var holder string
	if err := c.QueryRow(t.Context(),
		"select holder from ringfence_private.mark").Scan(&holder); err != nil || holder != "büro-1" {
		t.Errorf("%q, %v", holder, err)
	}
	execute(t, c, "update ringfence_private.mark set holder = 'für'")
	if found, err := s.Marks(t.Context()); err != nil || found[0].Holder != "für" {
		t.Errorf("%v, %v", found, err)
	}
}
