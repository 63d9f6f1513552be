package job_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/ringfence/ringfence/jobs/job"
)

// Merchant is the payload of a job.
type Merchant struct {
	ID int `json:"id"`
}

// A job that settles a merchant's account every morning, and is tried three more times if it
// fails. Check says what is wrong with a job before it is submitted.
func Example() {
	payload, _ := json.Marshal(Merchant{ID: 17})
	spec := job.Spec{
		Kind: "settle", Payload: payload, Title: "settle merchant 17",
		Every: "CRON_TZ=Europe/Berlin 30 6 * * *", Retries: 3, Backoff: job.Duration(time.Minute),
	}
	fmt.Println(spec.Check())
	submitted := time.Date(2026, time.November, 28, 12, 0, 0, 0, time.UTC)
	fmt.Println(spec.FirstDue(submitted))

	spec.Every = "every morning"
	fmt.Println(errors.Is(spec.Check(), job.ErrBadSpec))
	// Output:
	// <nil>
	// 2026-11-29 05:30:00 +0000 UTC
	// true
}
