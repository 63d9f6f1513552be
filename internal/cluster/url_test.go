package cluster

import (
	"slices"
	"strings"
	"testing"
)

func TestURLsAreRead(t *testing.T) {
	for url, want := range map[string]Address{
		"etcd://h":                    {hosts: []string{"h:2379"}, prefix: "/ringfence"},
		"etcd://h1:1,h2/":             {hosts: []string{"h1:1", "h2:2379"}, prefix: "/ringfence"},
		"etcd://[::1]:5,10.0.0.1/a/b": {hosts: []string{"[::1]:5", "10.0.0.1:2379"}, prefix: "/a/b"},
		"etcd://u:p%2F%40x@h/eu":      {hosts: []string{"h:2379"}, user: "u", password: "p/@x", prefix: "/eu"},
	} {
		got, err := ParseURL(url)
		if err != nil || !slices.Equal(got.hosts, want.hosts) || got.user != want.user || got.password != want.password ||
			got.prefix != want.prefix || got.tls != nil {
			t.Errorf("%s: %+v, %v", url, got, err)
		}
	}
	if a, err := ParseURL("etcds://h"); err != nil || a.tls == nil || a.endpoints()[0] != "https://h:2379" {
		t.Errorf("with TLS: %+v, %v", a, err)
	}
}

func TestABadURLIsRefusedWithoutItsPassword(t *testing.T) {
	for _, url := range []string{
		"", "etcd", "zk://h", "etcd://", "etcd://h,", "etcd://h:0", "etcd://h:x", "etcd://s3cret@h", "etcd://:s3cret@h",
		"etcd://u:s3cret%zz@h", "etcd://u:s3cret/x@h", "etcd://u:s3cret?x@h", "etcd://h//a",
		"etcd://h/a%20b", "etcd://h?sslcert=s3cret", "etcds://h?sslmode=s3cret", "etcds://h?sslcert=a",
		"etcds://h?sslrootcert=/nowhere",
	} {
		if a, err := ParseURL(url); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: %+v, %v", url, a, err)
		}
	}
}
