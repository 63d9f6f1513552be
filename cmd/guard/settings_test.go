package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/internal/settings"
	"github.com/ringfence/ringfence/internal/test/must"
)

func TestHelpExplainsEverySetting(t *testing.T) {
	t.Parallel()
	code, out, _ := invoke(t, nil, "-h")
	if code != cli.Done {
		t.Fatalf("exit code %d", code)
	}
	listed := regexp.MustCompile(`(?m)^  (GUARD_\w+) \(`).FindAllStringSubmatch(out, -1)
	for _, m := range listed {
		if !regexp.MustCompile(`(?m)^  ` + m[1] + ` \(.*\n      \S`).MatchString(out) {
			t.Errorf("help does not say what %s means", m[1])
		}
	}
	count := len(texts) + len((*upstreams)(nil).Texts())
	for _, p := range protocols {
		count += len(p.fresh().(settings.Described).Texts())
	}
	if got := len(listed); got != count {
		t.Errorf("%d texts for %d settings", count, got)
	}
}

func TestABadStartListsEveryProblem(t *testing.T) {
	t.Parallel()
	code, _, errs := invoke(t, []string{
		"GUARD_POSTGRES_LISTEN=6432", "GUARD_REDIS_LISTEN=:7379", "GUARD_COORDINATOR=nosuch://h/",
		"GUARD_TLS_REQUIRE=true", "GUARD_TLS_CLIENT_AUTH=strict",
		"GUARD_PROXY_NETWORKS=10.0.0.1", "GUARD_POSTGRES_UPSTREAM=postgres://guard:s3cret@h/db",
		"GUARD_LOGIN_TIMEOUT=soon", "GUARD_POSTGRES_LISTNE=:1", "GUARD_RESOURCES=Orders",
		"GUARD_STALE_RECHECK=1h", "GUARD_IDLE_TIMEOUT=-1s",
		"GUARD_POSTGRES_ADMIN=postgres://guard:s3cret@h1,h2/db?target_session_attrs=standby",
	}, "serve")
	if code != cli.Usage {
		t.Errorf("exit code %d", code)
	}
	for _, part := range []string{
		"GUARD_POSTGRES_LISTEN", "GUARD_REDIS_UPSTREAM", "nosuch", "GUARD_TLS_CERT",
		"GUARD_TLS_CLIENT_AUTH", "GUARD_PROXY_NETWORKS",
		"GUARD_LOGIN_TIMEOUT", "GUARD_POSTGRES_LISTNE", "Orders", "GUARD_STALE_RECHECK is 1h0m0s",
		"GUARD_IDLE_TIMEOUT is -1s", "GUARD_POSTGRES_ADMIN: target_session_attrs=standby",
	} {
		if !strings.Contains(errs, part) {
			t.Errorf("%q is not in:\n%s", part, errs)
		}
	}
	if strings.Contains(errs, "s3cret") {
		t.Errorf("a secret is in:\n%s", errs)
	}
}

func TestASettingForReadersIsRefusedWithTheirWay(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "settings")
	must.Succeed(t, os.WriteFile(file, []byte("GUARD_UNFENCED=read-only\n"), 0o600))
	for _, setting := range []string{
		"GUARD_UNFENCED=read-only", "GUARD_UNFENCED=refuse", "GUARD_UNFENCED=", "GUARD_SETTINGS_FILE=" +
			file,
	} {
		for _, command := range []string{"serve", "install", "status"} {
			code, _, errs := invoke(t, []string{"GUARD_POSTGRES_UPSTREAM=postgres://h/db", setting}, command)
			if code != cli.Usage ||
				!strings.Contains(errs, "readers connect to the database's own address") {
				t.Errorf("%s, %s: exit code %d: %s", setting, command, code, errs)
			}
		}
	}
}

// A file of settings is shared by all commands.
func TestACommandChecksOnlyTheSettingsThatItUses(t *testing.T) {
	t.Parallel()
	all := "serve health status install adopt protect check allow"
	for setting, users := range map[string]string{
		"GUARD_HTTP_TOKEN_FILE=/token":               "serve",
		"GUARD_TLS_REQUIRE=true":                     "serve",
		"GUARD_MAX_LOGINS=many":                      "serve",
		"GUARD_POSTGRES_LISTEN=6432":                 "serve",
		"GUARD_POSTGRES_MAX_DATABASES=0":             "serve",
		"GUARD_RELAY=pipes":                          "serve",
		"GUARD_HTTP_LISTEN=here":                     "serve health",
		"GUARD_RESOURCES=Orders":                     "serve protect",
		"GUARD_COORDINATOR=nosuch://u:s3cret@h":      "serve status install adopt",
		"GUARD_POSTGRES_LEADERS=guard":               "install",
		"GUARD_POSTGRES_UPSTREAM=redis://u:s3cret@h": "serve status install adopt protect check allow",
		"GUARD_LOG=loud":                             all,
		"GUARD_NOSUCH=1":                             all,
		"GUARD_POSTGRES_SERVERS=Big":                 all,
	} {
		for args := range strings.SplitSeq("serve,health,status,install --print,adopt orders,"+
			"protect --resource orders t,check,allow", ",") {
			args := strings.Fields(args)
			code, _, errs := invoke(t, []string{
				"GUARD_POSTGRES_UPSTREAM=postgres://guard@127.0.0.1:1/db", setting,
			}, args...)
			name, _, _ := strings.Cut(setting, "=")
			uses := slices.Contains(strings.Fields(users), args[0])
			refused := strings.Contains(errs, "with the settings") && strings.Contains(errs, name)
			if refused != uses || refused && code != cli.Usage || strings.Contains(errs, "s3cret") {
				t.Errorf("%s, guard %q: exit %d: %s", setting, args, code, errs)
			}
		}
	}
}

func TestUsageMistakesAreExplained(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{}, {"protect"}, {"adopt"}, {"status", "-o"}, {"status", "[broken"}, {"install", "--pritn"},
	} {
		code, _, errs := invoke(t, []string{"GUARD_POSTGRES_UPSTREAM=postgres://h/db"}, args...)
		want := "`guard --help` says more"
		if len(args) > 0 {
			want = "`guard " + args[0] + " --help` says more"
		}
		if code != cli.Usage || !strings.Contains(errs, want) {
			t.Errorf("guard %v: exit %d, %s", args, code, errs)
		}
	}
}

func TestPrintShowsTheWholeInstallation(t *testing.T) {
	t.Parallel()
	code, out, _ := invoke(t, []string{"GUARD_POSTGRES_UPSTREAM=postgres://guard@h/db"}, "install",
		"--print")
	if code != cli.Done ||
		!strings.Contains(out, `set local ringfence._role = E'guard'`) ||
		strings.Contains(out, `\connect`) {
		t.Errorf("%d %s", code, out)
	}
	code, out, _ = invoke(t, []string{"GUARD_POSTGRES_UPSTREAM=postgres://guard@h/db"}, "install",
		"--print", "--databases", "a,b")
	if code != cli.Done || !strings.Contains(out, "\\connect -reuse-previous=on \"dbname='a'\"\n") ||
		strings.Count(out, "commit;") != 2 {
		t.Errorf("%d %s", code, out)
	}
}
