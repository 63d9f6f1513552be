package etcd

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/ringfence/ringfence/fence/etcd/etcdtest"
	"github.com/ringfence/ringfence/internal/test/electiontest"
	"github.com/ringfence/ringfence/internal/test/must"
)

// passwordFile is a file with a password, and a URL that names it.
func passwordFile(t *testing.T, server, password string) (change func(string), address string) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "password")
	change = func(password string) {
		must.Report(t, os.WriteFile(name+".new", []byte(password), 0o600))
		must.Report(t, os.Rename(name+".new", name))
	}
	change(password)
	return change, "etcd://app@" + server + "?password_file=" + url.QueryEscape(name)
}

func TestThePasswordOfAUserMayChange(t *testing.T) {
	t.Parallel()
	server := etcdtest.WithUsers(t, etcdtest.ShortTokens...)
	changeServer := func(password string) {
		root := etcdtest.Root(t, server.Addr()) // a new one: the other's token has expired
		if _, err := root.UserChangePassword(t.Context(), "app", password); err != nil {
			t.Error(err)
		}
	}
	changeServer("p0")
	changeFile, address := passwordFile(t, server.Addr(), "p0")
	c := openWith(t, address, 10*time.Second, nil)
	term := electiontest.Win(t, c, "orders", "a")
	for _, password := range []string{"p1", "p2"} {
		first, second := changeFile, changeServer
		if password == "p2" {
			first, second = changeServer, changeFile
		}
		first(password)
		done := make(chan error, 2)
		go func() {
			_, leaders, err := c.Leaders(t.Context(), "orders")
			if err == nil && leaders[0].Token != term.Token() {
				err = errors.New("another leader")
			}
			done <- err
		}()
		go func() { // a new client has to log in
			other, err := Open(t.Context(), address, Options{SessionTimeout: 10 * time.Second})
			if err == nil {
				err = other.Close()
			}
			done <- err
		}()
		time.Sleep(500 * time.Millisecond) // what file and server are apart
		second(password)
		for range 2 {
			if err := <-done; err != nil {
				t.Errorf("%s: %v", password, err)
			}
		}
		must.Report(t, term.Acknowledge(t.Context()))
	}
	changeFile("wr0ng")
	if other, err := Open(t.Context(), address,
		Options{SessionTimeout: 30 * time.Second}); err == nil {
		other.Close()
		t.Error("a wrong password is enough")
	} else if !errors.Is(err, rpctypes.ErrAuthFailed) || strings.Contains(err.Error(), "wr0ng") {
		t.Errorf("got %v", err)
	}
}

func TestWhereThePasswordIsComesFromTheURL(t *testing.T) {
	t.Parallel()
	a, err := form.Parse("etcd://u%40x@h/eu?password_command=tool+-v")
	if err != nil || a.User != "u@x" || a.Password != "" ||
		a.Changing.String() != "password_command tool" {
		t.Errorf("%+v, %v", a, err)
	}
	if a, err := form.Parse("etcds://u@h?password_file=/a&sslmode=require"); err != nil ||
		a.TLS == nil || a.Changing == nil {
		t.Errorf("%+v, %v", a, err)
	}
	for _, bad := range []string{
		"etcd://h?password_file=/a", "etcd://u:s3cret@h?password_file=/a", "etcd://u@h",
		"etcd://u@h?password_file=",
		"etcd://u@h?password_file=/a&password_command=b", "etcd://u%zz@h?password_file=/a",
		"etcd://@h?password_file=/a",
	} {
		if a, err := form.Parse(bad); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: %+v, %v", bad, a, err)
		}
	}
}
