package job

import "encoding/json"

// MaxPeek is how many bytes the answer to a peek has at most.
const MaxPeek = 50_000

// Peeked is what a running job has brought so far.
type Peeked struct {
	Attempt int `json:"attempt"`
	// of the form of the job's result, if its handler shows any
	Result json.RawMessage `json:"result,omitempty"`
}
