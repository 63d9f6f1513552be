package redismarks_test

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/marks/redismarks"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// inFile returns the name of a file with a password.
func inFile(t *testing.T, password string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "password")
	must.Succeed(t, os.WriteFile(name, []byte(password+"\n"), 0o600))
	return name
}

func TestAPasswordInAFileLogsInBeforeAnythingElse(t *testing.T) {
	t.Parallel()
	server := serverstest.Redis(t, servers.RedisOptions{Args: []string{"--requirepass", "s3cret"}})
	file := inFile(t, "s3cret")
	for what, user := range map[string]string{"the default user": "", "a named user": "default@"} {
		db, err := redismarks.Connect("redis://"+user+server.Addr()+"/3?password_file="+
			url.QueryEscape(file), "mine")
		must.Succeed(t, err)
		defer db.Close()
		line, err := db.ClientInfo(t.Context()).Result()
		if err != nil || line.Name != "mine" || line.DB != 3 || line.User != "default" {
			t.Errorf("%s: %+v, %v", what, line, err)
		}
	}
	opt, err := redismarks.ParseURL("redis://" + server.Addr() + "?password_command=cat+" +
		url.QueryEscape(file))
	must.Succeed(t, err)
	plain := driver.NewClient(opt)
	defer plain.Close()
	must.Succeed(t, plain.Ping(t.Context()).Err())
}

// The marks are in database 0, whatever database the URL names.
func TestAPasswordInAFileAndADatabase(t *testing.T) {
	t.Parallel()
	server := serverstest.Redis(t, servers.RedisOptions{Args: []string{"--requirepass", "s3cret"}})
	at := "redis://" + server.Addr() + "/3?password_file=" + url.QueryEscape(inFile(t, "s3cret"))
	must.Succeed(t, redismarks.Install(t.Context(), at))
	store, err := redismarks.Open(t.Context(), at, redismarks.Options{})
	must.Succeed(t, err)
	defer store.Close()
	if err := store.Probe(t.Context()); err != nil {
		t.Errorf("the guard: %v", err)
	}
	db, err := redismarks.Connect(at, "mine")
	must.Succeed(t, err)
	defer db.Close()
	_, err = redismarks.NewScript("return redis.call('DBSIZE')").Run(t.Context(), db,
		fence.Claim{Resource: "orders", Token: 1}, nil)
	if !errors.Is(err, fence.ErrNotRaised) {
		t.Errorf("a program: %v", err)
	}
	if _, err := redismarks.Uninstall(t.Context(), at, marks.Removing{}); err != nil {
		t.Errorf("uninstall: %v", err)
	}
}

func TestARefusedPasswordIsNamedAndNotShown(t *testing.T) {
	t.Parallel()
	server := serverstest.Redis(t, servers.RedisOptions{Args: []string{"--requirepass", "right"}})
	file := inFile(t, "s3cret")
	begin := time.Now()
	_, err := redismarks.Open(t.Context(), "redis://"+server.Addr()+"?password_file="+
		url.QueryEscape(file),
		redismarks.Options{})
	if err == nil || !strings.Contains(err.Error(), "WRONGPASS") ||
		!strings.Contains(err.Error(), file) ||
		strings.Contains(err.Error(), "s3cret") {
		t.Errorf("got %v", err)
	}
	if took := time.Since(begin); took > 30*time.Second {
		t.Errorf("it took %s", took)
	}
}

func TestAMissingFileIsNamed(t *testing.T) {
	t.Parallel()
	db, err := redismarks.Connect("redis://"+serverstest.SharedRedis(t).Addr()+
		"?password_file=/no/such/file", "mine")
	must.Succeed(t, err)
	defer db.Close()
	if err := db.Ping(t.Context()).Err(); err == nil ||
		!strings.Contains(err.Error(), "password_file /no/such/file: no such file") {
		t.Errorf("got %v", err)
	}
}

func TestAURLWithTwoPasswordsIsRefused(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{
		"redis://u:s3cret@h/0?password_file=/run/a", "redis://u@h?password_file=/a&password_command=b",
		"redis://u@h?password_files=/a",
	} {
		if _, err := redismarks.ParseURL(bad); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
