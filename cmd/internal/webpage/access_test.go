package webpage

import (
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestARequestNeedsTheToken(t *testing.T) {
	const token = "s3cret"
	bearer := func(text string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set("Authorization", text) }
	}
	basic := func(user, password string) func(*http.Request) {
		return func(r *http.Request) { r.SetBasicAuth(user, password) }
	}
	none := func(*http.Request) {}
	for name, c := range map[string]struct {
		access Access
		with   func(*http.Request)
		code   int
	}{
		"none":      {Access{Token: token, Basic: true}, none, http.StatusUnauthorized},
		"the token": {Access{Token: token}, bearer("Bearer " + token), 0},
		"another": {Access{Token: token}, bearer("Bearer s3cre"),
			http.StatusUnauthorized},
		"an empty one": {Access{Token: token}, bearer("Bearer "), http.StatusUnauthorized},
		"a password":   {Access{Token: token, Basic: true}, basic("anybody", token), 0},
		"no user":      {Access{Token: token, Basic: true}, basic("", token), 0},
		"another password": {Access{Token: token, Basic: true}, basic(token, "x"),
			http.StatusUnauthorized},
		"an empty password": {Access{Token: token, Basic: true}, basic(token, ""),
			http.StatusUnauthorized},
		"a password to an API": {Access{Token: token}, basic("anybody", token),
			http.StatusUnauthorized},
		"the token to a page":     {Access{Token: token, Basic: true}, bearer("Bearer " + token), 0},
		"nothing, where none is":  {Access{}, none, 0},
		"nothing, from elsewhere": {Access{Local: true}, none, http.StatusForbidden},
		"a token, from elsewhere": {Access{Token: token, Local: true}, bearer("Bearer " + token), 0},
	} {
		r := httptest.NewRequest(http.MethodGet, "http://guard.example.com/", nil)
		c.with(r)
		header := http.Header{}
		code, why := c.access.Refuse(header, r)
		if code != c.code || (why != nil) != (code != 0) {
			t.Errorf("%s: %d, %v", name, code, why)
		}
		challenged := header.Get("WWW-Authenticate") != ""
		if challenged != (code == http.StatusUnauthorized) {
			t.Errorf("%s: the challenge is %q", name, header.Get("WWW-Authenticate"))
		}
	}
}

func TestWithoutATokenOnlyNamesOfThisMachineAreAnswered(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "localhost:9090": true, "127.0.0.1:9090": true, "[::1]:9090": true,
		"[::1]":            true,
		"evil.example.com": false, "127.0.0.1.example.com:9090": false, "10.0.0.1": false, "": false,
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Host = host
		if code, _ := (Access{Local: true}).Refuse(http.Header{}, r); (code == 0) != want {
			t.Errorf("%q: %d", host, code)
		}
	}
}

func TestTheLoopbackInterfaceMayHaveIPv6Only(t *testing.T) {
	address := func(text string) net.Addr {
		ip, network, err := net.ParseCIDR(text)
		if err != nil {
			t.Fatal(err)
		}
		return &net.IPNet{IP: ip, Mask: network.Mask}
	}
	for want, has := range map[string][]net.Addr{
		"127.0.0.1": {address("fe80::1/64"), address("::1/128"), address("127.0.0.1/8")},
		"[::1]":     {address("::1/128"), address("2001:db8::1/64"), address("10.0.0.1/8")},
	} {
		if got := loopbackOf(has); got != want {
			t.Errorf("%v: %s", has, got)
		}
	}
	if got := loopbackOf(nil); got != "127.0.0.1" { // not to be found out
		t.Error(got)
	}
}

func TestAnAddressWithoutAHostIsOnTheLoopbackInterface(t *testing.T) {
	for address, want := range map[string]string{
		":9090": "127.0.0.1:9090", "0.0.0.0:9090": "0.0.0.0:9090", "[::]:9090": "[::]:9090",
		"guard-1:9090": "guard-1:9090",
	} {
		if got := OnLoopback(address); got != want {
			t.Errorf("%s: %s", address, got)
		}
	}
}
