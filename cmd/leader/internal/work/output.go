package work

import (
	"encoding/json"
	"unicode/utf8"

	"github.com/ringfence/ringfence/cmd/leader/internal/supervise"
	"github.com/ringfence/ringfence/jobs"
	"github.com/ringfence/ringfence/jobs/job"
)

const (
	// MaxOutput is how many bytes of a stream are kept.
	MaxOutput = 16 << 10
	// maxEncoded is how many bytes they have at most as JSON, so that both streams fit in a result.
	maxEncoded = job.MaxResult/2 - 100
	// maxPeek is the same for what a running command shows.
	maxPeek = job.MaxPeek/2 - 100
)

// showing has who looks at a job see the end of each stream so far.
func showing(r *jobs.Run, stdout, stderr *supervise.Tail) {
	r.Show(func() any { return &Result{Stdout: end(stdout, maxPeek), Stderr: end(stderr, maxPeek)} })
}

func newTail() *supervise.Tail { return &supervise.Tail{Max: MaxOutput} }

// kept returns the end of a stream, as much as fits in a result.
func kept(t *supervise.Tail) string { return end(t, maxEncoded) }

// end returns the end of a stream, with at most so many bytes as JSON.
func end(t *supervise.Tail, most int) string {
	text := t.String()
	from := len(text)
	for left := most; from > 0; {
		_, size := utf8.DecodeLastRuneInString(text[:from])
		if left -= encodedLength(text[from-size : from]); left < 0 {
			break
		}
		from -= size
	}
	return text[from:]
}

// encodedLength is how many bytes a text has in a JSON text. Control characters and < have six.
func encodedLength(s string) int {
	b, _ := json.Marshal(s) // a string can always be encoded
	return len(b) - len(`""`)
}
