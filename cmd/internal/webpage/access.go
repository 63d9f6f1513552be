package webpage

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
)

// Access says whose requests are answered.
type Access struct {
	// Token is what a request has to bring, as Authorization: Bearer …; "" asks for none.
	Token string
	// Basic also takes the token as the password of HTTP Basic, with any user name, so that a browser
	// can ask for it. A browser sends it with requests that other sites cause, too: only for what
	// changes nothing.
	Basic bool
	// Setting names the setting of the token, for messages.
	Setting string
	// Local is for a server on the loopback interface. Without a token it answers to names of this
	// machine only: a foreign page whose own name leads to 127.0.0.1 would be of the same origin.
	Local bool
}

// Refuse returns why a request is not answered, with the status code, or nil. It adds what the
// header of a refusal needs.
func (a Access) Refuse(header http.Header, r *http.Request) (code int, why error) {
	switch {
	case a.Token == "" && a.Local && !Loopback(r.Host):
		return http.StatusForbidden, fmt.Errorf("%q is no name of this machine itself: use localhost, "+
			"or set %s at the server", r.Host, a.Setting)
	case a.Token == "" || a.brings(r):
		return 0, nil
	case a.Basic:
		header.Set("WWW-Authenticate", `Basic realm="Ringfence", charset="UTF-8"`)
		return http.StatusUnauthorized, errors.New("the token is missing or wrong: send Authorization: " +
			"Bearer …, or HTTP Basic with any user name and the token as the password")
	}
	header.Set("WWW-Authenticate", "Bearer")
	return http.StatusUnauthorized, errors.New("the token is missing or wrong: send Authorization: " +
		"Bearer …")
}

// brings reports whether a request has the token.
func (a Access) brings(r *http.Request) bool {
	got := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	if _, password, ok := r.BasicAuth(); ok && a.Basic {
		got = password
	}
	return subtle.ConstantTimeCompare([]byte(got), []byte(a.Token)) == 1
}

// Loopback reports whether only programs of this machine reach an address, which may have a port.
func Loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = strings.Trim(address, "[]")
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// OnLoopback returns an address to listen on. One without a host, such as :9090, is on the loopback
// interface: at 127.0.0.1, or at ::1 on a machine that has only IPv6.
func OnLoopback(address string) string {
	if !strings.HasPrefix(address, ":") {
		return address
	}
	all, _ := net.InterfaceAddrs()
	return loopbackOf(all) + address
}

func loopbackOf(addresses []net.Addr) string {
	onlyIPv6 := false
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsLoopback() {
			if n.IP.To4() != nil {
				return "127.0.0.1"
			}
			onlyIPv6 = true
		}
	}
	if onlyIPv6 {
		return "[::1]"
	}
	return "127.0.0.1"
}
