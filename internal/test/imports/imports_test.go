// Package imports tests which package imports which (ARCHITECTURE.md, "Packages").
package imports

import (
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/ringfence/ringfence"

// The modules. The root module does not depend on lab's, so no package of lab can reach a user's
// binary.
const (
	root = "../../.."
	lab  = "../../../lab"
)

// Drivers, which only some layers may use.
const (
	zk     = "github.com/go-zookeeper/zk"
	etcd   = "go.etcd.io/etcd"
	grpc   = "google.golang.org/grpc"
	pgx    = "github.com/jackc/pgx/v5"
	redis  = "github.com/redis/go-redis/v9"
	prom   = "github.com/prometheus/client_golang/prometheus"
	pgwire = "github.com/jackc/pgx/v5/pgproto3"
)

// allowed lists, for each package, what it may import in addition to the standard library. A
// third-party path also allows the packages below it; one of ours does not. A package that is not
// listed fails the test, so that a new package is a decision.
var allowed = map[string][]string{
	"fence":                 {"fence/internal/bridge"},
	"fence/internal/bridge": {},
	"fence/elector":         {"fence", "fence/internal/bridge"},
	"fence/fencetest": {"fence", "fence/elector", "documents", "documents/documentstest", "internal/test/leak",
		"internal/test/contract", "go.uber.org/goleak"},
	"fence/zookeeper": {"fence", "documents", "fence/zookeeper/internal/ensemble", "internal/campaign",
		"internal/refusal", zk, "golang.org/x/sync/errgroup"},
	"fence/zookeeper/internal/ensemble": {"internal/network/backoff", "internal/campaign", zk},
	"fence/zookeeper/zookeepertest":     {"fence", "internal/test/servers", "internal/test/servers/serverstest", zk},
	"fence/etcd": {"internal/network/password", "fence", "documents", "internal/network/backoff", "internal/campaign", "internal/refusal", etcd, grpc,
		"go.uber.org/zap"},
	"fence/etcd/etcdtest": {"internal/test/servers", "internal/test/servers/serverstest", etcd, "go.uber.org/zap"},
	"fence/postgres": {"internal/postgres/pglisten", "internal/network/password", "internal/postgres/pglogin", "internal/postgres/pgschema", "fence", "documents", "internal/network/backoff", "internal/campaign", "internal/postgres/pgcause",
		"internal/refusal", pgx},
	"store/postgres": {"internal/refusal", "fence", "internal/marks", "internal/marks/postgres", pgx},
	"store/redis":    {"internal/refusal", "fence", "internal/marks", "internal/marks/redis", redis},

	// Work that is handed out.
	"documents":               {"fence"},
	"documents/documentstest": {"fence", "documents", "internal/test/contract"},
	"group":                   {"fence", "documents"},
	"jobs": {"fence", "documents", "group", "internal/network/backoff",
		"golang.org/x/sync/errgroup"},
	"jobs/jobstest":             {"fence", "fence/fencetest", "documents", "group", "internal/test/contract", "jobs"},
	"internal/leader/jobserver": {"fence", "documents", "group", "jobs", "internal/program/webpage"},
	"internal/leader/agent": {"fence", "internal/leader/carrier", "internal/leader/stores", "internal/network/peeruser",
		"internal/network/tally", "internal/network/unixsocket", "internal/program/coordinators", "internal/program/settings", "internal/program/systemd",
		"internal/program/webpage", "internal/refusal", "store/postgres"},
	"internal/leader/carrier": {"fence", "internal/guard/postgres/wire", "internal/guard/relay", "internal/marks/postgres",
		"internal/marks/redis", "internal/network/backoff", "internal/network/keepalive", "internal/network/peeruser",
		"internal/network/tally", "internal/network/unixsocket", "internal/postgres/pglogin", "internal/program/settings",
		"internal/refusal", "internal/process"},
	"internal/network/peeruser":   {"internal/network/tally", "golang.org/x/sys"},
	"internal/network/tally":      {},
	"internal/network/unixsocket": {"golang.org/x/sys"},
	"internal/leader/metrics":     {"fence", "documents", "jobs", "internal/program/version", "internal/program/webpage", prom},
	"internal/leader/work": {"fence", "documents", "jobs", "checkpoint", "internal/program/cli", "internal/program/coordinators",
		"internal/leader/environ", "internal/leader/stores", "internal/leader/supervise", "internal/leader/taskfile", "internal/leader/tasks",
		"internal/program/logging"},

	// For guards and operators. The author of a leader program does not need these.
	"internal/refusal":         {"fence", "internal/postgres/pgoptions"},
	"internal/marks":           {"fence", "internal/network/backoff", "internal/refusal"},
	"internal/marks/markstest": {"fence", "fence/fencetest", "internal/test/contract", "internal/marks", "internal/refusal"},
	"internal/marks/postgres": {"internal/postgres/pglisten", "internal/network/password", "internal/postgres/pglogin", "internal/postgres/pgschema", "internal/network/backoff", "internal/refusal", "fence", "internal/network/keepalive",
		"internal/marks", "internal/postgres/pgcause", "internal/network/tlsconfig", pgx},
	"internal/marks/redis": {"internal/network/password", "internal/network/backoff", "internal/refusal", "fence", "internal/network/keepalive",
		"internal/marks", "internal/network/tlsconfig", redis},
	"internal/guard/seal":         {"fence", "internal/marks/postgres", "internal/postgres/pgschema", "internal/refusal", pgx},
	"internal/guard/relay":        {"internal/network/tlsconfig", "golang.org/x/sys"},
	"internal/network/tlsconfig":  {},
	"internal/postgres/pgcause":   {pgx},
	"internal/network/keepalive":  {"golang.org/x/sys"},
	"internal/program/systemd":    {"internal/program/settings", "golang.org/x/sys"},
	"internal/network/clienthost": {},
	"internal/network/password":   {"internal/network/backoff", "internal/process"},
	"internal/postgres/pgschema":  {"internal/network/backoff", pgx},
	"internal/postgres/pglogin":   {"internal/network/password", "internal/postgres/pgcause", "internal/refusal", pgx},
	"internal/postgres/pgoptions": {},
	"internal/postgres/pglisten":  {pgx},
	"internal/guard": {"fence", "internal/network/clienthost", "internal/network/keepalive", "internal/marks", "internal/refusal", "internal/guard/relay",
		"internal/network/tally", "internal/program/settings", "internal/program/version", "internal/network/tlsconfig", prom, "github.com/pires/go-proxyproto"},
	"internal/guard/page":      {"fence", "internal/marks", "internal/guard", "internal/program/webpage"},
	"internal/guard/guardtest": {"fence", "internal/marks", "internal/guard", "internal/guard/relay", prom},
	"internal/guard/postgres": {"internal/network/backoff", "internal/refusal", "fence", "internal/marks",
		"internal/marks/postgres", "internal/postgres/pgoptions", "internal/guard",
		"internal/guard/postgres/databases", "internal/guard/postgres/wire",
		"internal/guard/relay", "internal/program/settings", pgwire, "github.com/jackc/pgx/v5/pgconn"},
	"internal/guard/postgres/wire": {"fence", "internal/network/tlsconfig", "internal/refusal", pgwire},
	"internal/guard/postgres/databases": {"fence", "internal/guard/postgres/wire", "internal/marks",
		"internal/marks/postgres"},
	"internal/guard/redis": {"internal/network/backoff", "internal/refusal", "fence", "internal/network/tlsconfig", "internal/marks", "internal/marks/redis",
		"internal/guard", "internal/guard/relay", "internal/program/settings"},

	"checkpoint":                {"fence"},
	"checkpoint/checkpointtest": {"fence", "checkpoint", "internal/test/contract"},
	"checkpoint/postgres": {"internal/postgres/pglisten", "internal/refusal", "fence", "checkpoint", "internal/marks/postgres", "internal/postgres/pgcause",
		pgx},
	"checkpoint/redis":       {"fence", "internal/marks/redis", "store/redis", "checkpoint", redis},
	"checkpoint/coordinator": {"fence", "checkpoint", "documents"},
	"internal/program/cli":   {"internal/program/settings", "internal/program/version"},
	"internal/leader/stores": {"fence", "internal/marks/redis", "store/postgres", "store/redis", "internal/program/settings", pgx, redis},
	"internal/leader/tasks": {"internal/network/password", "internal/postgres/pglogin", "fence", "documents", "internal/refusal", "checkpoint", "checkpoint/coordinator",
		"checkpoint/postgres", "checkpoint/redis", "store/postgres", "store/redis",
		"internal/marks/redis",
		"internal/program/cli", "internal/program/coordinators", "internal/leader/stores",
		"internal/leader/environ", "internal/leader/supervise", "internal/leader/taskfile", "internal/program/settings", "internal/program/logging", pgx, redis,
		"golang.org/x/term"},
	"internal/process":          {"golang.org/x/sys"},
	"internal/leader/supervise": {"fence", "internal/process", "golang.org/x/sys", "golang.org/x/term"},
	"internal/leader/environ": {"fence", "internal/marks/postgres", "internal/network/keepalive", "internal/network/password",
		"internal/postgres/pglogin", "internal/program/settings", "internal/refusal"},
	"internal/program/coordinators": {"fence", "documents", "fence/etcd", "fence/postgres", "fence/zookeeper", "internal/program/settings"},
	"cmd/guard": {"fence", "internal/network/backoff", "internal/process", "internal/program/cli", "internal/program/coordinators", "internal/marks",
		"internal/marks/postgres", "internal/marks/redis", "internal/guard", "internal/guard/page",
		"internal/guard/postgres", "internal/guard/redis", "internal/guard/relay", "internal/network/keepalive", "internal/network/unixsocket",
		"internal/guard/seal", "internal/program/systemd", "internal/network/tlsconfig", "internal/program/settings", "internal/program/version", "internal/program/logging",
		"internal/program/webpage", pgx, prom,
		"golang.org/x/sync/errgroup"},
	"cmd/leader": {"fence", "documents", "internal/process", "group", "jobs", "internal/leader/agent", "internal/leader/carrier", "internal/leader/jobserver", "internal/leader/metrics", "internal/program/webpage", "internal/leader/work", "internal/network/backoff", "internal/program/cli", "internal/program/coordinators", "internal/leader/stores",
		"internal/marks/redis", "checkpoint", "internal/leader/environ", "internal/leader/supervise", "internal/leader/taskfile", "internal/leader/tasks",
		"internal/program/systemd", "internal/program/settings", "internal/program/logging"},
	"internal/demo": {"internal/refusal", "fence", "fence/zookeeper",
		"internal/marks/postgres", "internal/marks/redis", "internal/test/servers", pgx, redis,
		"golang.org/x/term"},
	"internal/program/logging": {"golang.org/x/term", grpc},
	"internal/test/servers":    {pgx, redis, zk, "golang.org/x/sys", "golang.org/x/sync/errgroup"},
	"internal/test/servers/serverstest": {
		"internal/test/leak", "internal/test/servers", "go.uber.org/goleak", "golang.org/x/sys", pgx},
	"internal/test/journaltest": {"fence", "documents", "documents/documentstest", "checkpoint",
		"checkpoint/checkpointtest", "checkpoint/coordinator", "internal/test/contract"},
	"internal/test/electiontest": {"fence", "documents"},
	"internal/test/leadertest": {"fence", "fence/fencetest", "internal/process", "internal/leader/supervise",
		"internal/marks/postgres", "internal/test/servers", "internal/test/servers/serverstest", pgx},
	"internal/test/leak":        {"go.uber.org/goleak"},
	"internal/network/backoff":  {},
	"internal/program/webpage":  {"internal/network/clienthost", "internal/network/tally"},
	"internal/test/contract":    {},
	"internal/test/otheruser":   {"golang.org/x/sys"},
	"internal/campaign":         {"internal/network/password", "fence", "fence/elector", "documents", "internal/network/backoff", "internal/network/tlsconfig"},
	"internal/program/settings": {"github.com/caarlos0/env/v11"},
	"internal/program/version":  {},
	"internal/leader/taskfile":  {"fence", "checkpoint", "internal/postgres/pglex", "internal/program/settings", "go.yaml.in/yaml/v4"},
	"internal/postgres/pglex":   {},
	"internal/test/succession":  {},
	"internal/test/imports":     {},
	"internal/test/docs":        {},
	"internal/test/endtoend":    {},
	"internal/test/units":       {},
	"internal/test/pgdefaults":  {},
	"internal/test/sqlterms":    {},

	"examples/sql/gosql": {pgx},
	"examples/merchants": {"fence", "fence/etcd", "jobs", "checkpoint", "checkpoint/postgres",
		"store/postgres", pgx},

	// The lab's module. Only local and containers know how a system is built, only the worker
	// writes, only flawed-guard is wired wrongly.
	"lab": {"lab/evidence", "lab/history", "lab/inject", "lab/record", "lab/scenario", "lab/system",
		"lab/traffic"},
	"lab/scenario": {"lab/flaw", "lab/history"},
	"lab/system": {"documents", "internal/program/coordinators", "internal/program/settings", "lab/history", "lab/scenario",
		etcd, "go.uber.org/zap", pgx, redis},
	"lab/record": {"fence", "lab/history", "lab/scenario"},
	"lab/inject": {"fence", "internal/program/coordinators", "internal/marks/redis", "internal/refusal", "lab/flaw",
		"lab/history", "lab/record", "lab/scenario", "lab/system", etcd, zk, pgx, redis},
	"lab/evidence": {"fence", "lab/flaw", "lab/history", "lab/record", "lab/scenario", "lab/system", pgx, redis},
	"lab/traffic": {"documents", "fence", "internal/program/coordinators", "jobs", "lab/flaw", "lab/history",
		"lab/record", "lab/scenario", "lab/system"},
	"lab/history":      {"fence", "golang.org/x/sys"},
	"lab/check":        {"fence", "lab/check/replay", "lab/history", "github.com/anishathalye/porcupine"},
	"lab/check/replay": {"fence", "lab/history"},
	"lab/browser":      {"github.com/chromedp/chromedp", "github.com/chromedp/cdproto"},
	"lab/statuspage":   {},
	"lab/jobspage":     {},
	"lab/report":       {"fence", "lab", "lab/check", "lab/history", "lab/scenario", "golang.org/x/term"},
	"lab/flaw":         {"fence", "internal/marks", "internal/refusal", pgx, redis},
	"lab/local":        {"lab/history", "lab/scenario", "lab/system", "internal/test/servers", pgx},
	"lab/containers": {"lab/history", "lab/scenario", "lab/system", "internal/test/servers", pgx, redis,
		"github.com/moby/moby", "github.com/Shopify/toxiproxy/v2/client", "golang.org/x/sync/errgroup",
		"golang.org/x/sys"},
	"lab/worker": {"internal/refusal", "internal/program/coordinators", "lab/flaw", "lab/history", "lab/scenario", "lab/system", "lab/traffic", "fence", "fence/elector",
		"documents", "jobs",
		"fence/zookeeper", "internal/marks/postgres", "internal/marks/redis", "store/postgres",
		"store/redis", "checkpoint", "checkpoint/postgres", pgx, redis, "github.com/caarlos0/env/v11",
		"golang.org/x/sync/errgroup"},
	"lab/cmd/lab": {"lab", "lab/check", "lab/containers", "lab/history", "lab/local",
		"lab/report", "lab/scenario", "lab/system"},
	"lab/cmd/worker": {"lab/worker"},
	"lab/cmd/flawed-guard": {"lab/flaw", "internal/program/coordinators", "internal/program/settings", "internal/guard",
		"internal/guard/postgres", "internal/guard/redis", "internal/marks", "internal/marks/postgres",
		"internal/marks/redis", prom, "github.com/caarlos0/env/v11", "golang.org/x/sync/errgroup"},
}

// testOnly reports whether a package must not reach a user's binary: those of ours for tests have names that
// end in "test", or are in internal/test.
func testOnly(path string) bool {
	inside, ours := strings.CutPrefix(path, module+"/")
	return path == "testing" || path == "go.uber.org/goleak" ||
		ours && (strings.HasSuffix(inside, "test") || strings.HasPrefix(inside, "internal/test/"))
}

type pkg struct {
	ImportPath string
	Imports    []string
	Deps       []string
	Name       string
}

// list returns every package of the modules in these directories.
func list(t *testing.T, dirs ...string) (all []pkg) {
	t.Helper()
	for _, dir := range dirs {
		all = append(all, listOne(t, dir)...)
	}
	return all
}

func listOne(t *testing.T, dir string) (all []pkg) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports,Deps,Name",
		"./...")
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for d := json.NewDecoder(strings.NewReader(string(out))); d.More(); {
		var p pkg
		if err := d.Decode(&p); err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}

func TestPackagesImportOnlyWhatTheirLayerAllows(t *testing.T) {
	for _, p := range list(t, root, lab) {
		name := strings.TrimPrefix(p.ImportPath, module+"/")
		may, listed := allowed[name]
		if !listed {
			t.Errorf("%s is new: list in internal/test/imports what it may import", name)
			continue
		}
		for _, i := range p.Imports {
			if first, _, _ := strings.Cut(i, "/"); !strings.Contains(first, ".") {
				continue // standard library
			}
			i = strings.TrimPrefix(i, module+"/")
			if strings.HasPrefix(i, "cmd/") || strings.HasPrefix(i, "lab/cmd/") {
				t.Errorf("%s imports %s: nothing imports cmd", name, i)
			}
			if !slices.ContainsFunc(may, func(m string) bool {
				return i == m || strings.Contains(m, ".") && strings.HasPrefix(i, m+"/")
			}) {
				t.Errorf("%s must not import %s", name, i)
			}
		}
	}
}

func TestTestPackagesDoNotReachAUsersBinary(t *testing.T) {
	for _, p := range list(t, root) {
		if p.Name != "main" || !strings.HasPrefix(p.ImportPath, module+"/cmd/") {
			continue
		}
		for _, d := range p.Deps {
			if testOnly(d) {
				t.Errorf("%s links %s", p.ImportPath, d)
			}
		}
	}
}

// A program with text/template in it keeps every method of every type, which is 10 MB. grpc has it only
// for a page of traces, which the Makefile leaves out.
func TestNoProgramKeepsMethodsThatNobodyCalls(t *testing.T) {
	t.Setenv("GOFLAGS", "-tags=grpcnotrace")
	for _, p := range list(t, root) {
		if strings.HasPrefix(p.ImportPath, module+"/cmd/") && slices.Contains(p.Deps, "text/template") {
			t.Errorf("%s links text/template", p.ImportPath)
		}
	}
}

// The Dockerfile copies the folders one by one, so that a change of the lab builds no guard.
func TestImagesAreBuiltFromAllThatTheirProgramsImport(t *testing.T) {
	text, err := os.ReadFile(root + "/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range list(t, root, lab) {
		if p.Name != "main" || p.ImportPath == module+"/lab/cmd/lab" || strings.Contains(p.ImportPath, "/examples/") {
			continue
		}
		for _, d := range append(p.Deps, p.ImportPath) {
			inside, ours := strings.CutPrefix(d, module+"/")
			folder, _, _ := strings.Cut(inside, "/")
			if ours && !strings.Contains(string(text), "\nCOPY "+folder+" "+folder+"\n") {
				t.Errorf("%s imports %s, and the Dockerfile does not copy %s", p.ImportPath, inside, folder)
			}
		}
	}
}
