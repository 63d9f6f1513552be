package redisguard

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/internal/test/must"
)

var rewrite = flag.Bool("rewrite", false, "write the guard's answers into the dialogue files")

// The files in testdata are whole dialogues with a guard in front of a fresh server. A line ">
// text" is sent with CRLF. "client name" switches to another connection. Each line "< text" is one
// reply, quoted as in Go but without the quotes; "< (end)" is the end of the stream. A time is
// written as <time>, an address as <client>.
func TestDialogues(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			b, err := os.ReadFile(file)
			must.Succeed(t, err)
			got := play(t, string(b))
			if *rewrite {
				must.Succeed(t, os.WriteFile(file, []byte(got), 0o644))
			} else if got != string(b) {
				t.Errorf("got:\n%s", got)
			}
		})
	}
}

// play sends the dialogue's requests to a guard and returns the dialogue with the replies that
// came.
func play(t *testing.T, script string) string {
	g := fresh(t)
	clients := make(map[string]*raw)
	var now *raw
	var out strings.Builder
	for text := range strings.Lines(script) {
		text = strings.TrimSuffix(text, "\n")
		verb, rest, _ := strings.Cut(text, " ")
		switch verb {
		case "client":
			if clients[rest] == nil {
				clients[rest] = g.raw()
			}
			now = clients[rest]
		case ">":
			now.send(rest + "\r\n")
		case "<":
			reply := now.reply()
			text = changing.ReplaceAllString(readable.Replace(reply), "<time>")
			text = "< " + address.ReplaceAllString(text, "<client>")
			if reply == "" {
				text = "< (end)"
			}
		}
		out.WriteString(text + "\n")
	}
	return out.String()
}

var (
	readable = strings.NewReplacer("\r\n", `\r\n`)
	changing = regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:]+Z`)
	address  = regexp.MustCompile(`127\.0\.0\.1:\d+`)
)
