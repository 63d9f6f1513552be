package redisguard

import (
	"os/exec"
	"strings"
	"testing"
)

// redisPy returns a Python that has redis-py, or skips the test.
func redisPy(t *testing.T) string {
	t.Helper()
	for _, python := range []string{"python3", "/usr/bin/python3"} {
		if exec.CommandContext(t.Context(), python, "-c", "import redis").Run() == nil {
			return python
		}
	}
	t.Skip("no redis-py; on Debian it is in the package python3-redis")
	return ""
}

// redis-py splits the fields of CLIENT INFO at '=', so it cannot parse a client name that contains
// one.
func TestRedisPyCanParseTheNameThatCarriesItsClaim(t *testing.T) {
	t.Parallel()
	python := redisPy(t)
	g := fresh(t)
	_, port, _ := strings.Cut(g.Addr, ":")
	out, _ := exec.CommandContext(t.Context(), python, "-c", `
import redis, sys
r = redis.Redis(port=int(sys.argv[1]), client_name="fence.orders.5",
                single_connection_client=True, decode_responses=True)
written = r.set("a", "1")
listed = [c["name"] for c in r.client_list() if c["name"].startswith("fence")]
print([written, r.client_info()["name"], listed])
`, port).CombinedOutput()
	if want := "[True, 'fence.orders.5', ['fence.orders.5']]\n"; string(out) != want {
		t.Errorf("got %s, want %s", out, want)
	}
}
