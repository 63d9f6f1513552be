// Package imports tests which package imports which (ARCHITECTURE.md, "Packages").
package imports

import (
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/internal/test/must"
)

const module = "github.com/ringfence/ringfence"

// The modules. The root module does not depend on lab's, so no package of lab can reach a user's
// binary.
const (
	root = "../../.."
	lab  = "../../../lab"
)

// floors are the rooms of the product and of the lab, lowest floor first. A room is a folder with
// all below it that is no room itself. A package imports from its own room and from lower floors. A
// package in no room fails the test, so that a new room is a decision.
var floors = [][]string{
	{"fence/internal/bridge", "internal/postgres/pgoptions", "internal/process", "internal/settings",
		"internal/version"},
	{"internal/network"},
	{"fence"},
	{"fence/internal/campaign", "internal/refusal", "checkpoint", "jobs"},
	{"internal/postgres"},
	{"fence/etcd", "fence/postgres", "fence/zookeeper", "internal/marks"},
	{"internal/coordinators", "internal/guard", "store/pgstore", "store/redisstore"},
	{"checkpoint/pgjournal", "checkpoint/redisjournal"},
	{"cmd/internal"},
	{"cmd/guard/internal", "cmd/leader/internal"},
	{"cmd/demo", "cmd/guard", "cmd/leader", "examples"},

	{"lab/browser", "lab/history", "lab/flaw", "lab/statuspage", "lab/jobspage"},
	{"lab/scenario", "lab/check"},
	{"lab/system", "lab/record"},
	{"lab/evidence", "lab/inject", "lab/traffic"},
	{"lab", "lab/containers", "lab/local", "lab/worker"},
	{"lab/report"},
	{"lab/cmd"},
}

// users lists who may import a package of somebody else, or of ours where the floor says too
// little. What is listed also stands for all that is below it.
var users = map[string][]string{
	"github.com/go-zookeeper/zk": {"fence/zookeeper", "internal/test/servers", "lab/inject"},
	"go.etcd.io/etcd":            {"fence/etcd", "lab/inject", "lab/system"},
	"google.golang.org/grpc":     {"fence/etcd", "cmd/internal/logging"},
	"go.uber.org/zap":            {"fence/etcd", "lab/system"},
	"github.com/jackc/pgx/v5": {"fence/postgres", "internal/postgres", "internal/marks/pgmarks",
		"store/pgstore",
		"checkpoint/pgjournal", "internal/guard/pgguard", "cmd", "internal/test", "examples", "lab"},
	"github.com/redis/go-redis/v9": {"internal/marks/redismarks", "store/redisstore",
		"checkpoint/redisjournal",
		"cmd/demo", "cmd/leader/internal/stores", "cmd/leader/internal/tasks", "internal/test/servers",
		"lab"},
	"github.com/prometheus/client_golang": {"internal/guard", "cmd/guard", "cmd/internal/metrics",
		"lab/cmd/flawed-guard"},
	"github.com/pires/go-proxyproto": {"internal/guard"},
	"github.com/caarlos0/env/v11":    {"internal/settings", "lab"},
	"github.com/spf13/cobra":         {"cmd/internal/cli", "cmd/guard", "cmd/leader"},
	"github.com/spf13/pflag":         {"cmd/internal/cli", "cmd/guard", "cmd/leader"},
	"go.yaml.in/yaml/v4":             {"cmd/leader/internal/taskfile"},
	"golang.org/x/sync": {"fence/zookeeper", "jobs", "cmd/guard", "internal/test/servers",
		"lab"},
	"golang.org/x/term": {"cmd", "lab/report"},
	"golang.org/x/sys": {"internal/network", "internal/process", "internal/guard/relay",
		"cmd/internal/systemd",
		"cmd/leader/internal/supervise", "internal/test", "lab"},
	"go.uber.org/goleak":                {"fence/fencetest", "internal/test"},
	"github.com/chromedp":               {"lab/browser"},
	"github.com/anishathalye/porcupine": {"lab/check"},
	"github.com/moby/moby":              {"lab/containers"},
	"github.com/Shopify/toxiproxy/v2":   {"lab/containers"},
	"internal/guard": {"internal/guard", "cmd/guard", "cmd/leader/internal/carrier",
		"lab/cmd/flawed-guard"},
	"internal/test": {"internal/test", "cmd/demo", "lab"},
	"lab/flaw":      {"lab"},
}

// demo starts real servers, as tests do. Nobody installs it.
const demo = module + "/cmd/demo"

// testOnly reports whether a package must not reach a user's binary: those of ours for tests have
// names that end in "test", or are in internal/test.
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
	must.Succeed(t, err)
	for d := json.NewDecoder(strings.NewReader(string(out))); d.More(); {
		var p pkg
		must.Succeed(t, d.Decode(&p))
		all = append(all, p)
	}
	return all
}

// room returns the room of a package and its floor, and ok if it has one.
func room(name string) (room string, floor int, ok bool) {
	for f, rooms := range floors {
		for _, r := range rooms {
			if within(name, r) && len(r) > len(room) {
				room, floor = r, f
			}
		}
	}
	return room, floor, room != ""
}

// within reports whether a package is in a folder, or below it.
func within(name, folder string) bool {
	return name == folder || strings.HasPrefix(name, folder+"/")
}

func TestPackagesImportOnlyFromTheirRoomAndFromLowerFloors(t *testing.T) {
	for _, p := range list(t, root, lab) {
		name := strings.TrimPrefix(p.ImportPath, module+"/")
		from, floor, ok := room(name)
		if !ok && !testOnly(p.ImportPath) {
			t.Errorf("%s has no room: list its folder in floors", name)
		}
		for _, i := range p.Imports {
			i, ours := strings.CutPrefix(i, module+"/")
			to, below, _ := room(i)
			if ours && !testOnly(p.ImportPath) && !testOnly(module+"/"+i) && from != to && below >= floor {
				t.Errorf("%s must not import %s, which is no floor below it", name, i)
			}
		}
	}
}

func TestDriversAreImportedOnlyByTheirUsers(t *testing.T) {
	for _, p := range list(t, root, lab) {
		name := strings.TrimPrefix(p.ImportPath, module+"/")
		for _, i := range p.Imports {
			i, ours := strings.CutPrefix(i, module+"/")
			first, _, _ := strings.Cut(i, "/")
			listed := false
			for what, who := range users {
				if !within(i, what) {
					continue
				}
				listed = true
				if !testOnly(p.ImportPath) && !slices.ContainsFunc(who, func(w string) bool {
					return within(name, w)
				}) {
					t.Errorf("%s must not import %s", name, i)
				}
			}
			if !ours && !listed && strings.Contains(first, ".") {
				t.Errorf("%s imports %s, which is new: list it in users, and in ARCHITECTURE.md", name, i)
			}
			if name == "fence" && !ours && strings.Contains(first, ".") || name == "fence" &&
				within(i, "internal") {
				t.Errorf("fence imports %s: it has the standard library, and fence/internal/bridge", i)
			}
		}
	}
}

func TestNoTwoPackagesHaveOneName(t *testing.T) {
	named := map[string]string{}
	for _, p := range list(t, root, lab) {
		if other, ok := named[p.Name]; ok && p.Name != "main" {
			t.Errorf("%s and %s are both called %s", other, p.ImportPath, p.Name)
		}
		named[p.Name] = p.ImportPath
	}
}

func TestTestPackagesDoNotReachAUsersBinary(t *testing.T) {
	for _, p := range list(t, root) {
		if p.Name != "main" || !strings.HasPrefix(p.ImportPath, module+"/cmd/") || p.ImportPath == demo {
			continue
		}
		for _, d := range p.Deps {
			if testOnly(d) {
				t.Errorf("%s links %s", p.ImportPath, d)
			}
		}
	}
}

// A program that runs a text/template keeps every method of every type, which is 10 MB. grpc has
// one for a page of traces, which the Makefile leaves out; cobra has one if a program sets a
// template for its help.
func TestNoProgramKeepsMethodsThatNobodyCalls(t *testing.T) {
	for _, program := range []string{"guard", "leader"} {
		file := t.TempDir() + "/" + program
		build := exec.CommandContext(t.Context(), "go", "build", "-tags=grpcnotrace", "-o", file,
			"./cmd/"+program)
		build.Dir = root
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		symbols, err := exec.CommandContext(t.Context(), "go", "tool", "nm", file).Output()
		must.Succeed(t, err)
		for _, unwanted := range []string{"text/template.(*Template).Execute", "spf13/cobra/doc."} {
			if strings.Contains(string(symbols), unwanted) {
				t.Errorf("%s links %s", program, unwanted)
			}
		}
	}
}

// The Dockerfile copies the folders one by one, so that a change of the lab builds no guard.
func TestImagesAreBuiltFromAllThatTheirProgramsImport(t *testing.T) {
	text, err := os.ReadFile(root + "/Dockerfile")
	must.Succeed(t, err)
	for _, p := range list(t, root, lab) {
		if p.Name != "main" || p.ImportPath == module+"/lab/cmd/lab" ||
			strings.Contains(p.ImportPath, "/examples/") {
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
