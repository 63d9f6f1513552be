package ensemble

import (
	"reflect"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/fence/internal/campaign"
)

func TestURLsThatAreAccepted(t *testing.T) {
	for in, want := range map[string]campaign.Address{
		"zk://h1":  {Hosts: []string{"h1:2181"}, Path: "/ringfence"},
		"zk://h1/": {Hosts: []string{"h1:2181"}, Path: "/ringfence"},
		"zk://h1:2182,h2,h3:2184/app": {Hosts: []string{"h1:2182", "h2:2181", "h3:2184"},
			Path: "/app"},
		"zk://h1/a/b-c/d.e/": {Hosts: []string{"h1:2181"}, Path: "/a/b-c/d.e"},
		"zk://10.0.0.1,[::1]:2182,[fe::]": {Hosts: []string{"10.0.0.1:2181", "[::1]:2182",
			"[fe::]:2181"}, Path: "/ringfence"},
		"zk://u:p@h1": {Hosts: []string{"h1:2181"}, User: "u", Password: "p",
			Path: "/ringfence"},
		"zk://u:p%40%3A%2F%25@h1/r": {Hosts: []string{"h1:2181"}, User: "u",
			Password: "p@:/%", Path: "/r"},
		"zk://u:p:q@h1": {Hosts: []string{"h1:2181"}, User: "u", Password: "p:q",
			Path: "/ringfence"},
		"zk://u:p@q@h1": {Hosts: []string{"h1:2181"}, User: "u", Password: "p@q",
			Path: "/ringfence"},
	} {
		if got, err := parseURL(in); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s is read as %+v, %v; want %+v", in, got, err, want)
		}
	}
}

func TestURLsThatAreRefused(t *testing.T) {
	for _, in := range []string{
		"", "zk:", "zk:/h1", "etcd://h1", "h1:2181", "http://h1",
		"zk://", "zk:///root", "zk://h1,,h2", "zk://h1,", "zk://:2181",
		"zk://h1:", "zk://h1:0", "zk://h1:65536", "zk://h1:x", "zk://h1:-1", "zk://h1:2181:2181",
		"zk://::1", "zk://h 1",
		"zk://u@h1", "zk://u:@h1", "zk://:p@h1", "zk://u%3Av:p@h1", "zk://u:%zz@h1", "zk://u:p@",
		"zk://u:p/q@h1",
		"zk://h1//a", "zk://h1/a//b", "zk://h1/.", "zk://h1/a/../b", "zk://h1/a%20b", "zk://h1/a\x00",
		"zk://h1/zookeeper", "zk://h1/zookeeper/quota", "zk://h1/a?x=y", "zk://h1/a#b",
	} {
		if got, err := parseURL(in); err == nil {
			t.Errorf("%q is read as %+v", in, got)
		}
	}
}

func FuzzURLErrorsNeverShowThePassword(f *testing.F) {
	for _, shape := range []string{"zk://u:PW@h1:x", "zk://u:PW%@h1", "zk://u:PW@h1/../x",
		"zk://u:PW@", "zk//u:PW@h1", "zk://u:PW@h,,", "zk://u:PW?@h1", "zk://PW@h1",
		"zk://u:PW/x@h1", "zk://u:x/PW@h1", "zk://u:x/PW@h1/../", "zk://u:x,PW,@h1:x"} {
		f.Add(shape)
	}
	f.Fuzz(func(t *testing.T, shape string) {
		const secret = "S3CR3T"
		before, after, ok := strings.Cut(shape, "PW")
		if !ok || !strings.Contains(after, "@") {
			t.Skip("the secret is not where a password is")
		}
		_, err := parseURL(before + secret + after)
		if err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("%q: %v", shape, err)
		}
	})
}
