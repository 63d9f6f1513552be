package redismarks

import (
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

func TestAnOlderConfigurationCountsOnceMostSentinelsNameIt(t *testing.T) {
	t.Parallel()
	start := time.Now()
	after := func(address string, epoch int64, d time.Duration) named {
		return named{address, epoch, start.Add(d)}
	}
	s := &sentinels{name: "orders"}
	var moved []string
	s.moved = func(address string) { moved = append(moved, address) }
	for _, step := range []struct {
		says named
		most bool
		want string
	}{
		{after("former", 1, 0), true, "former"},
		{after("newer", 2, time.Second), false, "newer"},   // one has led the failover
		{after("former", 1, 2*time.Second), true, "newer"}, // the others have not heard yet
		{after("newer", 2, 3*time.Second), true, "newer"},
		{after("former", 1, time.Hour), false, "newer"},               // one was cut off
		{after("another", 1, time.Hour+time.Second), true, "another"}, // anew
		{after("another", 1, time.Hour+2*time.Second), false, "another"},
		{after("promoted", 3, time.Hour+3*time.Second), false, "promoted"},
		{after("former", 0, time.Hour+5999*time.Millisecond), true, "promoted"},
	} {
		if got := s.heard(step.says, step.most); got != step.want {
			t.Errorf("after %v the primary is %s, want %s", step.says, got, step.want)
		}
	}
	if want := []string{"former", "newer", "another", "promoted"}; !slices.Equal(moved, want) {
		t.Errorf("told of %v, want %v", moved, want)
	}
}

// The host of a Sentinel is often that of the primary that was lost.
func TestASentinelThatIsSilentHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	server := serverstest.Redis(t, servers.RedisOptions{})
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	defer silent.Close()
	url := "redis+sentinel://" + silent.Addr().String()
	for range 2 {
		url += "," + serverstest.Sentinel(t, servers.SentinelOptions{
			Name: "orders", Primary: server, Quorum: 1, DownAfter: time.Second,
		}).Addr()
	}
	to, err := parseURL(url + "/orders")
	must.Succeed(t, err)
	to.sentinels.limit = time.Hour
	for _, o := range to.sentinels.each {
		o.ReadTimeout = time.Hour
	}
	asked := make(chan string, 1)
	go func() {
		address, _ := to.sentinels.primary(t.Context())
		asked <- address
	}()
	select {
	case address := <-asked:
		if address != server.Addr() {
			t.Errorf("the primary is %q, want %s", address, server.Addr())
		}
	case <-time.After(time.Minute):
		t.Fatal("the silent one is waited for")
	}
}

func TestURLsOfSentinels(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"redis+sentinel://s1,[::1]:9,[::2]/orders":       "s1:26379 [::1]:9 [::2]:26379 orders",
		"redis+sentinel://guard:p%40ss@s1/orders/3":      "s1:26379 orders guard@3",
		"rediss+sentinel://s1/or%2Fders?sslmode=require": "s1:26379 or/ders @0",
		"redis+sentinel://s1/a?sentinel_user=u":          "s1:26379 a @0",
		"redis+sentinel://s1":                            "names no primary",
		"redis+sentinel://s1/":                           "names no primary",
		"redis+sentinel://s1,,s2/orders":                 "is empty",
		"redis+sentinel:///orders":                       "is empty",
		"redis+sentinel://s1/orders/x":                   "invalid database",
		"redis+sentinel://s1/orders?sentinel_timeout=3":  "no option sentinel_timeout",
		"redis+sentinel://s1/orders?sslmode=require":     "need rediss",
		"redis://s1/0?sentinel_user=u":                   "need redis+sentinel",
		"redis://s1,s2/0":                                "redis+sentinel://host1,host2,host3/NAME",
		"redis+sentinel://s1/a?sentinel_password_file=":  "needs one value",
	} {
		got, err := describe(url)
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", url, got, want)
		}
	}
}

func describe(url string) (string, error) {
	t, err := parseURL(url)
	if err != nil {
		return "", err
	}
	var words []string
	for _, o := range t.sentinels.each {
		words = append(words, o.Addr)
	}
	return strings.Join(words, " ") + " " + t.sentinels.name + " " + t.opt.Username + "@" +
		string(rune('0'+t.DB)), nil
}
