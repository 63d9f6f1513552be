package schedule_test

import (
	"fmt"
	"log"
	"time"

	"github.com/ringfence/ringfence/jobs/schedule"
)

const nightly = "CRON_TZ=Europe/Berlin 30 2 * * *"

// A job that starts at half past two each night, on the night on which the clocks in Berlin leave
// that hour out.
func Example() {
	every, err := schedule.Parse(nightly)
	if err != nil {
		log.Fatal(err)
	}
	now := time.Date(2027, time.March, 27, 12, 0, 0, 0, time.UTC)
	first, _ := every.First(now)
	ahead := every.Calendar(first, now, now)
	for _, round := range ahead.Rounds[:2] {
		fmt.Println(round)
	}
	fmt.Println(ahead.ClockChanges[0].Effect)
	// Output:
	// 2027-03-28 03:00:00 +0200 CEST
	// 2027-03-29 02:30:00 +0200 CEST
	// late
}
