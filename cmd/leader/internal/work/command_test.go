package work

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/ringfence/ringfence/jobs/job"
)

// A character may need six bytes as JSON.
func TestWhatACommandHasWrittenFitsInAResult(t *testing.T) {
	anything := make([]byte, 3*MaxOutput)
	for i := range anything {
		anything[i] = byte(rand.IntN(256))
	}
	for what, text := range map[string]string{
		"zeros": strings.Repeat("\x00", 20_000), "markup": strings.Repeat("<>&", 20_000),
		"wide": strings.Repeat("\u2028é", 20_000), "plain": strings.Repeat("line\n", 20_000),
		"anything": string(anything), "nothing": "",
	} {
		out := newTail()
		for part := range strings.SplitSeq(text, "e") {
			_, _ = out.Write([]byte(part))
			_, _ = out.Write([]byte("e"))
		}
		kept := kept(out)
		encoded, err := json.Marshal(Result{Code: 255, Stdout: kept, Stderr: kept})
		if err != nil || len(encoded) > job.MaxResult {
			t.Errorf("%s: %d bytes of JSON, %v", what, len(encoded), err)
		}
		valid := strings.ToValidUTF8(text+"e", "?")
		if !utf8.ValidString(kept) || what != "anything" &&
			!strings.HasSuffix(valid, strings.TrimLeft(kept, "?")) {
			t.Errorf("%s: what is kept is not the end", what)
		}
		if least := min(len(text), maxEncoded/6-1, MaxOutput); len(kept) < least {
			t.Errorf("%s: only %d bytes are kept", what, len(kept))
		}
		if what == "plain" && len(kept) != MaxOutput {
			t.Errorf("%d bytes of plain text are kept", len(kept))
		}
	}
}
