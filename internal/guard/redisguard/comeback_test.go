package redisguard

import (
	"testing"

	"github.com/ringfence/ringfence/internal/marks/redismarks"
)

// Without a coordinator a guard knows a deposed leader only by the mark. An earlier mark that comes
// back within the run of the server admits nobody, not even by a guard that has just been started
// after an operator ran guard install again.
func TestAnEarlierMarkThatComesBackAdmitsNobody(t *testing.T) {
	t.Parallel()
	for name, bring := range map[string]func(do func(string), newer func()){
		"SWAPDB": func(do func(string), newer func()) {
			do("SWAPDB 0 1")
			newer()
			do("SWAPDB 0 1")
			do("CONFIG RESETSTAT")
		},
		"DEBUG RELOAD": func(do func(string), newer func()) {
			do("SAVE")
			newer()
			do("DEBUG RELOAD NOSAVE")
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := fresh(t, "--enable-debug-command", "yes")
			g.fenced(33)
			bring(func(command string) { g.operator(command) }, func() {
				if err := redismarks.Install(t.Context(), g.server.URL()); err != nil {
					t.Fatal(err)
				}
				g.fenced(34)
			})
			r := before(t, g.server, setup{}).raw()
			r.send("FENCE orders 33\r\n")
			r.expect("-INDOUBT")
		})
	}
}
