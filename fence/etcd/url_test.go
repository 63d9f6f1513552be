package etcd

import (
	"slices"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/fence/internal/campaign"
)

func TestURLsAreRead(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]campaign.Address{
		"etcd://h":                    {Hosts: []string{"h:2379"}, Path: "/ringfence"},
		"etcd://h1:1,h2/":             {Hosts: []string{"h1:1", "h2:2379"}, Path: "/ringfence"},
		"etcd://[::1]:5,10.0.0.1/a/b": {Hosts: []string{"[::1]:5", "10.0.0.1:2379"}, Path: "/a/b"},
		"etcd://u:p%2F%40x@h/eu": {
			Hosts: []string{"h:2379"}, User: "u", Password: "p/@x", Path: "/eu",
		},
	} {
		got, err := form.Parse(url)
		if err != nil || !slices.Equal(got.Hosts, want.Hosts) || got.User != want.User ||
			got.Password != want.Password ||
			got.Path != want.Path || got.TLS != nil {
			t.Errorf("%s: %+v, %v", url, got, err)
		}
	}
	if a, err := form.Parse("etcds://h"); err != nil || a.TLS == nil {
		t.Errorf("with TLS: %+v, %v", a, err)
	}
}

func TestABadURLIsRefusedWithoutItsPassword(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"", "etcd", "zk://h", "etcd://", "etcd://h,", "etcd://h:0", "etcd://h:x", "etcd://s3cret@h",
		"etcd://:s3cret@h",
		"etcd://u:s3cret%zz@h", "etcd://u:s3cret/x@h", "etcd://u:s3cret?x@h", "etcd://h//a",
		"etcd://h/a%20b", "etcd://h?sslcert=s3cret", "etcds://h?sslmode=s3cret", "etcds://h?sslcert=a",
		"etcds://h?sslrootcert=/nowhere",
	} {
		if a, err := form.Parse(url); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: %+v, %v", url, a, err)
		}
	}
}
