package checkpointtest

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
)

// altering changes each checkpoint before it publishes it.
func altering(alter func(cp *checkpoint.Checkpoint)) func(f *flawed) {
	return func(f *flawed) {
		f.publish = func(ctx context.Context, c fence.Claim, cp checkpoint.Checkpoint) error {
			alter(&cp)
			return f.Memory.Publish(ctx, c, cp)
		}
	}
}

var contentFlaws = []flaw{
	{"loses the failure", "Everything that is published", altering(func(cp *checkpoint.Checkpoint) {
		cp.Failure = nil
	})},
	{"loses the nonce", "Everything that is published", altering(func(cp *checkpoint.Checkpoint) {
		cp.Nonce = ""
	})},
	{"cuts times to seconds", "Everything that is published",
		altering(func(cp *checkpoint.Checkpoint) { cp.Saved = cp.Saved.Truncate(time.Second) })},
	{"keeps rounds as floats", "Everything that is published",
		altering(func(cp *checkpoint.Checkpoint) { cp.Run = int64(float64(cp.Run)) })},
	{"keeps numbers of the state as floats", "Everything that is published",
		altering(func(cp *checkpoint.Checkpoint) {
			var v any
			_ = json.Unmarshal(cp.State, &v)
			cp.State, _ = json.Marshal(v)
		})},
	{"takes an empty list for an empty object", "may be any JSON",
		altering(func(cp *checkpoint.Checkpoint) {
			cp.State = bytes.ReplaceAll(cp.State, []byte("[]"), []byte("{}"))
		})},
	{"stores no null byte in the state", "may be any JSON",
		altering(func(cp *checkpoint.Checkpoint) {
			cp.State = bytes.ReplaceAll(cp.State, []byte(`\u0000`), nil)
		})},
	{"stores no null byte in a failure", "with any text",
		altering(func(cp *checkpoint.Checkpoint) {
			if cp.Failure != nil {
				cp.Failure = &checkpoint.Failure{Message: strings.Trim(cp.Failure.Message, "\x00")}
			}
		})},
	{"keeps the caller's memory", "shares no memory", func(f *flawed) {
		var kept checkpoint.Checkpoint
		f.publish = func(ctx context.Context, c fence.Claim, cp checkpoint.Checkpoint) error {
			kept = cp
			return f.Memory.Publish(ctx, c, cp)
		}
		f.take = func(
			context.Context, fence.Claim, checkpoint.Name, int64,
		) (checkpoint.Checkpoint, bool, error) {
			return kept, false, nil
		}
	}},
	{"has no limit", "above the limit", func(f *flawed) { f.Limit = 0 }},
	{"stores what it calls too large", "above the limit", func(f *flawed) {
		limit := f.Limit
		f.Limit = 0
		f.publish = func(ctx context.Context, c fence.Claim, cp checkpoint.Checkpoint) error {
			err := f.Memory.Publish(ctx, c, cp)
			if len(cp.State) > limit {
				return checkpoint.ErrTooLarge
			}
			return err
		}
	}},
}
