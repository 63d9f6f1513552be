package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/poll"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// secured are requests to the pages of a guard with TLS.
type secured struct {
	*running
	client *http.Client
}

func (r *running) securedBy(authority string) secured {
	r.t.Helper()
	pem, err := os.ReadFile(authority)
	must.Succeed(r.t, err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	return secured{r, &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots},
	}}}
}

// ask returns the code of an answer, its challenge, the name in the certificate, and the body.
func (s secured) ask(
	path string, with func(*http.Request),
) (code int, challenge, name, body string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.t.Context()), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+s.page+path, nil)
	must.Succeed(s.t, err)
	if with != nil {
		with(r)
	}
	answer, err := s.client.Do(r)
	if err != nil {
		return 0, "", "", err.Error()
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	return answer.StatusCode, answer.Header.Get("WWW-Authenticate"),
		answer.TLS.PeerCertificates[0].Subject.CommonName, string(text)
}

// until asks until an answer fits.
func (s secured) until(
	path string, with func(*http.Request), fits func(code int, name, body string) bool,
) {
	s.t.Helper()
	var last string
	if !poll.Until(time.Minute, func() bool {
		code, _, name, body := s.ask(path, with)
		last = fmt.Sprint(code, " ", name, " ", body)
		return fits(code, name, body)
	}) {
		s.t.Fatalf("%s: the last answer was %s", path, last)
	}
}

func bearer(token string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
}

func basic(user, password string) func(*http.Request) {
	return func(r *http.Request) { r.SetBasicAuth(user, password) }
}

func TestThePagesNeedTheTokenAndTheProbesDoNot(t *testing.T) {
	t.Parallel()
	_, env := fresh(t)
	invoke(t, env, "install")
	authority := serverstest.NewAuthority(t)
	first, second := authority.Issue("first"), authority.Issue("second")
	token := filepath.Join(t.TempDir(), "token")
	write(t, token, "s3cret\n")
	m := managed(t)
	r := serving(t, append(env, m.env, "GUARD_HTTP_TOKEN_FILE="+token,
		"GUARD_HTTP_TLS_CERT="+first.CertFile, "GUARD_HTTP_TLS_KEY="+first.KeyFile)...)
	s := r.securedBy(authority.File)
	s.until("/readyz", nil, func(code int, _, _ string) bool { return code == http.StatusOK })
	if code, out, errs := invoke(t, r.env, "health"); code != cli.Done || out+errs != "" {
		t.Errorf("health: exit %d, %q, %q", code, out, errs)
	}
	for _, path := range []string{"/livez", "/readyz/postgres"} {
		if code, _, _, body := s.ask(path, nil); code != http.StatusOK {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	for _, path := range []string{"/", "/events", "/metrics", "/page.js", "/readyz/../metrics",
		"/nothing"} {
		for _, with := range []func(*http.Request){nil, bearer("s3cre"), basic("s3cret", "")} {
			code, challenge, _, body := s.ask(path, with)
			if code != http.StatusUnauthorized || !strings.HasPrefix(challenge, "Basic ") ||
				strings.Contains(body, "s3cret") {
				t.Errorf("%s: %d, %q, %s", path, code, challenge, body)
			}
		}
	}
	for _, path := range []string{"/", "/metrics"} {
		for _, with := range []func(*http.Request){bearer("s3cret"), basic("anybody", "s3cret")} {
			if code, _, _, body := s.ask(path, with); code != http.StatusOK {
				t.Errorf("%s: %d %s", path, code, body)
			}
		}
	}
	plain, err := http.Get("http://" + r.page + "/readyz")
	if err == nil {
		_ = plain.Body.Close()
	}
	if err == nil && plain.StatusCode != http.StatusBadRequest {
		t.Errorf("without TLS: %v", plain)
	}

	write(t, token, "another")
	write(t, first.CertFile, string(second.Cert))
	write(t, first.KeyFile, string(second.Key))
	hangUp(t)
	m.hears("", "RELOADING=1")
	m.hears("failed", "READY=1")
	if code, _, name, body := s.ask("/metrics", bearer("s3cret")); code != http.StatusUnauthorized ||
		name != "second" {
		t.Errorf("the old token, at %q: %d %s", name, code, body)
	}
	if code, _, _, body := s.ask("/metrics", bearer("another")); code != http.StatusOK ||
		!strings.Contains(body, `ringfence_certificate_expiry_timestamp_seconds{certificate="pages"} `) {
		t.Errorf("the new token: %d %s", code, body)
	}
	must.Succeed(t, os.Remove(token))
	hangUp(t)
	m.hears("", "READY=1", "the last reload failed", "GUARD_HTTP_TOKEN_FILE")
	if code, _, _, body := s.ask("/metrics", bearer("another")); code != http.StatusOK {
		t.Errorf("after a reload that failed: %d %s", code, body)
	}
	log := r.log.String()
	for _, name := range []string{"first", "second"} {
		if n := strings.Count(log, `"subject":"CN=`+name+`"`); n != 1 {
			t.Errorf("%d lines about the certificate of %s", n, name)
		}
	}
	if strings.Contains(log, "s3cret") || strings.Contains(log, "another") ||
		!strings.Contains(log, `"not_after":"`) {
		t.Errorf("the log:\n%s", log)
	}
}

func TestWithoutATokenAPageOfThisMachineAnswersOnlyToItsNames(t *testing.T) {
	t.Parallel()
	r := installed(t)
	ask := func(path, host string) int {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+r.page+path,
			nil)
		must.Succeed(t, err)
		request.Host = host
		answer, err := http.DefaultClient.Do(request)
		must.Succeed(t, err)
		_ = answer.Body.Close()
		return answer.StatusCode
	}
	for _, c := range []struct {
		path, host string
		want       int
	}{
		{"/", r.page, http.StatusOK}, {"/metrics", "localhost", http.StatusOK},
		{"/", "evil.example.com", http.StatusForbidden},
		{"/metrics", "evil.example.com:80", http.StatusForbidden},
		{"/readyz", "evil.example.com", http.StatusOK},
	} {
		if code := ask(c.path, c.host); code != c.want {
			t.Errorf("%s of %s: %d", c.path, c.host, code)
		}
	}
}

func TestAnAddressWithoutAHostIsOfThisMachineAndOthersAreWarnedOf(t *testing.T) {
	t.Parallel()
	_, env := fresh(t)
	_, port, _ := strings.Cut(serverstest.FreeAddresses(t, 1)[0], ":")
	for _, c := range []struct {
		settings     []string
		listens, log string
	}{
		{[]string{"GUARD_HTTP_LISTEN=:" + port}, "127.0.0.1:" + port, ""},
		{[]string{"GUARD_HTTP_LISTEN=0.0.0.0:" + port}, "[::]:" + port, "set GUARD_HTTP_TOKEN"},
		{[]string{"GUARD_HTTP_LISTEN=0.0.0.0:" + port, "GUARD_HTTP_TOKEN=s3cret"}, "[::]:" + port, "in " +
			"clear text"},
	} {
		m := managed(t)
		log := &syncBuffer{}
		ctx, stop := context.WithCancel(t.Context())
		exited := make(chan int, 1)
		settings := append(append([]string{m.env, "GUARD_POSTGRES_LISTEN=" +
			serverstest.FreeAddresses(t, 1)[0]}, env...), c.settings...)
		go func() { exited <- run(ctx, []string{"serve"}, settings, log, log) }()
		m.hears("", "READY=1", "http at "+c.listens)
		stop()
		<-exited
		warned := strings.Contains(log.String(), `"level":"WARN"`) &&
			strings.Contains(log.String(), "set GUARD_HTTP")
		if warned != (c.log != "") || !strings.Contains(log.String(), c.log) ||
			strings.Contains(log.String(), "s3cret") {
			t.Errorf("%v: %s", c.settings, log)
		}
	}
}

func TestSettingsOfThePagesThatDoNotFitAreNamed(t *testing.T) {
	t.Parallel()
	code, _, errs := invoke(t, []string{
		"GUARD_REDIS_UPSTREAM=redis://h/0", "GUARD_HTTP_TOKEN=s3cret", "GUARD_HTTP_TOKEN_FILE=/token",
		"GUARD_HTTP_TLS_KEY=/key",
	}, "serve")
	if code != cli.Usage || strings.Contains(errs, "s3cret") {
		t.Errorf("exit %d, %s", code, errs)
	}
	for _, part := range []string{
		"GUARD_HTTP_TOKEN is set, GUARD_HTTP_LISTEN is not", "set one of them", "GUARD_HTTP_TLS_CERT " +
			"and GUARD_HTTP_TLS_KEY",
	} {
		if !strings.Contains(errs, part) {
			t.Errorf("%q is not in:\n%s", part, errs)
		}
	}
	_, env := fresh(t)
	empty := filepath.Join(t.TempDir(), "token")
	write(t, empty, " \n")
	code, _, errs = invoke(t, append(env, "GUARD_POSTGRES_LISTEN="+serverstest.FreeAddresses(t, 1)[0],
		"GUARD_HTTP_LISTEN="+serverstest.FreeAddresses(t, 1)[0], "GUARD_HTTP_TOKEN_FILE="+empty), "serve")
	if code != cli.Error || !strings.Contains(errs, "GUARD_HTTP_TOKEN_FILE") {
		t.Errorf("an empty file: exit %d, %s", code, errs)
	}
}
