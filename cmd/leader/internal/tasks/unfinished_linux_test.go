package tasks

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/cmd/internal/cli"
)

// The start of the step is saved, and its end is not, because its leader was killed in between.
func TestAskDecidesAboutAnUnfinishedStep(t *testing.T) {
	for answer, want := range map[string]struct {
		status checkpoint.Status
		ran    string
	}{
		`exit 0`: {checkpoint.Done, "x\n"}, `exit 1`: {checkpoint.Done, "x\nx\n"},
		`echo who knows >&2; exit 7`:               {checkpoint.Stopped, "x\n"},
		`echo '{"asked": true}' >$RINGFENCE_STATE`: {checkpoint.Done, "x\n"},
	} {
		t.Run(answer, func(t *testing.T) {
			b := newBench(t, "")
			text, _ := json.Marshal(answer)
			b.steps("steps: [{name: s, run: 'echo x >>ran; echo began; while [ ! -e go ]; do sleep 0.02; " +
				"done', unfinished: ask, ask: " + string(text) + "}]\n")
			first := b.run()
			first.out.Await(t, "began")
			first.signals <- syscall.SIGTERM
			first.exits(128 + 15)
			if cp := b.saved(); cp.Status != checkpoint.Started {
				t.Fatalf("got %+v", cp)
			}
			b.touch("go")
			code := cli.Done
			if want.status == checkpoint.Stopped {
				code = cli.Error
			}
			b.run().exits(code)
			cp := b.saved()
			if cp.Status != want.status || b.inDir("ran") != want.ran {
				t.Errorf("got %+v, ran %q", cp, b.inDir("ran"))
			}
			if cp.Failure != nil && !strings.Contains(cp.Failure.Message, "who knows") {
				t.Errorf("got %+v", cp.Failure)
			}
			if strings.Contains(answer, "asked") && string(cp.State) != `{"asked":true}` {
				t.Errorf("state %s", cp.State)
			}
		})
	}
}

func TestUnfinishedStopStopsTheTask(t *testing.T) {
	b := newBench(t, "steps: [{name: s, run: 'echo began; sleep 1000', unfinished: stop}]\n")
	first := b.run()
	first.out.Await(t, "began")
	first.signals <- syscall.SIGTERM
	first.exits(128 + 15)
	b.run().exits(cli.Error)
	if cp := b.saved(); cp.Status != checkpoint.Stopped {
		t.Errorf("got %+v", cp)
	}
}
