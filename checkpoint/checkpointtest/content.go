package checkpointtest

import (
	"encoding/json"
	"math"
	"strings"
	"time"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/test/contract"
)

var contentClauses = []contract.Clause[*stage]{
	{Name: "Everything that is published comes back", Holds: everythingComesBack},
	{Name: "A state may be any JSON", Holds: anyState},
	{
		Name:  "A failure with any text is recorded, and removed when the task continues",
		Holds: anyFailure,
	},
	{Name: "The journal shares no memory with its callers", Holds: nothingIsShared},
	{Name: "A checkpoint above the limit is too large, and changes nothing", Holds: tooLargeIsRefused},
}

// full returns a checkpoint with a value in every field that a careless journal would alter.
func full(c fence.Claim, task checkpoint.Name) checkpoint.Checkpoint {
	cp := version(1, c, task, `nonce "quoted" 'twice' \n`)
	cp.Holder = "wörker-7 (東京) 🚧"
	cp.Run, cp.Round, cp.Rounds, cp.Step = 1<<53+1, math.MaxInt64-1, math.MaxInt64, 1
	cp.Steps = []string{"Beträge laden", "s'; DROP TABLE ringfence_private.mark; --", "step {2}:[3] " +
		"%s $1"}
	cp.Status = checkpoint.Stopped
	cp.State = json.RawMessage(`{"id": 9007199254740993, "sum": 12345678901234567890.25,
		"none": [], "empty": {}, "null": null, "text": "line\nfeed \u2028 <b>&amp;</b> \" \\ 😀",
		"deep": [[[{"a": [1, "2", true]}]]], "": "", "0.1": 0.1}`)
	cp.Failure = &checkpoint.Failure{
		Step: cp.Steps[1], Attempts: 5, Message: "duplicate key «x»:\n\tdetail",
		Stack: "goroutine 1 [running]:\n\tmain.go:7",
		At:    time.Date(2026, 11, 21, 23, 59, 59, 1000, time.FixedZone("far", -11*3600)),
	}
	return cp
}

func everythingComesBack(k *stage) {
	c := k.lead(orders)
	longest := checkpoint.Name("A._:-" + strings.Repeat("z", 123))
	for _, task := range []checkpoint.Name{nightly, "x", longest, "a..b", "a:"} {
		want := k.publish(c, full(c, task))
		k.equal(k.take(k.Journal, c, task), want)
		k.equal(k.take(k.Second, c, task), want)
		k.stays(task, want)
	}
}

func anyState(k *stage) {
	c := k.lead(orders)
	for i, state := range []string{
		`null`, `true`, `0`, `-7`, `""`, `"text"`, `[]`, `{}`, `[null]`, `[1,"2",{"3":[]}]`,
		`"a null byte: \u0000"`, `{"\u0000":1}`,
		`9223372036854775807`, `0.30000000000000004`, `"` + strings.Repeat("long ", 4000) + `"`,
	} {
		cp := version(int64(i+1), c, nightly, "a")
		cp.State = json.RawMessage(state)
		k.stays(nightly, k.publish(c, cp))
	}
}

func anyFailure(k *stage) {
	c := k.lead(orders)
	for i, text := range []string{"", "a null byte: \x00", "no UTF-8: \xff\xfe",
		strings.Repeat("long ", 4000)} {
		cp := version(int64(2*i+1), c, nightly, "failed")
		cp.Status = checkpoint.Stopped
		cp.Failure = &checkpoint.Failure{Step: "only", Attempts: 1, Message: text,
			Stack: text, At: cp.Saved}
		k.stays(nightly, k.publish(c, cp))
		k.stays(nightly, k.publish(c, version(int64(2*i+2), c, nightly, "resumed")))
	}
}

func nothingIsShared(k *stage) {
	c := k.lead(orders)
	cp := full(c, nightly)
	k.publish(c, cp)
	spoil(cp)
	for range 2 {
		got := k.take(k.Journal, c, nightly)
		k.equal(got, full(c, nightly))
		spoil(got)
		spoil(k.load(k.Journal)[0])
	}
}

func spoil(cp checkpoint.Checkpoint) {
	copy(cp.State, "spoiled")
	clear(cp.Steps)
	cp.Failure.Message = "spoiled"
}

func tooLargeIsRefused(k *stage) {
	if k.Limit == 0 {
		k.Skip("this journal has no limit of its own")
	}
	c := k.lead(orders)
	sized := func(n int64, bytes int) checkpoint.Checkpoint {
		cp := version(n, c, nightly, "sized")
		cp.State = json.RawMessage(`"` + strings.Repeat("x", bytes) + `"`)
		return cp
	}
	k.answered(k.try(k.Journal, c, sized(1, k.Limit)), checkpoint.ErrTooLarge)
	k.stays(nightly, checkpoint.Checkpoint{})
	landed := k.publish(c, sized(1, 1))
	for _, bytes := range []int{k.Limit, 2 * k.Limit} {
		k.answered(k.try(k.Journal, c, sized(2, bytes)), checkpoint.ErrTooLarge)
		k.stays(nightly, landed)
	}
	large := k.publish(c, sized(2, k.Limit*3/4))
	k.equal(k.take(k.Second, c, nightly), large)
	k.stays(nightly, k.publish(c, sized(3, 1)))
}
