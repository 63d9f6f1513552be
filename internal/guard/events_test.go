package guard

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/refusal"
)

// told sends events through Events and returns the log lines and the metrics.
func told(
	t *testing.T, events func(tell func(marks.Event)),
) (lines []map[string]any, r *prometheus.Registry) {
	t.Helper()
	var b bytes.Buffer
	r = prometheus.NewRegistry()
	log := slog.New(slog.NewJSONHandler(&b, &slog.HandlerOptions{Level: slog.LevelDebug}))
	events(Events(log, NewMetrics(r), "postgres"))
	for line := range strings.Lines(b.String()) {
		m := map[string]any{}
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, m)
	}
	return lines, r
}

// big is a token that a float would change.
const big fence.Token = 1<<53 + 1

func claimOf(t fence.Token) fence.Claim {
	return fence.Claim{Resource: "orders", Token: t, Issuer: "zk:one", Holder: "host-a"}
}

func TestEveryChangeOfLeadershipIsOneLineWithItsFields(t *testing.T) {
	lines, r := told(t, func(tell func(marks.Event)) {
		tell(marks.Event{
			Kind: marks.Raised, Claim: claimOf(big), Before: marks.Mark{Token: 5, Holder: "host-b"},
			Took: 1500 * time.Microsecond,
		})
		tell(marks.Event{
			Kind: marks.Revoked, Claim: claimOf(big), Ended: 3, Took: time.Millisecond,
		})
		tell(marks.Event{
			Kind: marks.Opened, Claim: claimOf(big), Session: marks.Session{ID: 42},
			Took: time.Millisecond,
		})
		tell(marks.Event{
			Kind: marks.Refused, Claim: claimOf(5), Took: time.Millisecond,
			Err: refusal.Stale(claimOf(5), big, "", time.Time{}),
		})
	})
	for i, want := range []map[string]any{
		{"level": "INFO", "msg": "mark raised", "old_token": "5", "old_holder": "host-b",
			"issuer": "zk:one", "duration_ms": 1.5},
		{"level": "INFO", "msg": "older sessions ended", "sessions": 3.0},
		{"level": "DEBUG", "msg": "session admitted", "session": 42.0},
		{"level": "WARN", "msg": "session refused", "token": "5", "reason": "stale",
			"mark": big.String()},
	} {
		if want["token"] == nil {
			want["token"] = big.String()
		}
		want["protocol"], want["resource"], want["holder"] = "postgres", "orders", "host-a"
		for name, value := range want {
			if lines[i][name] != value {
				t.Errorf("line %d: %s is %v, want %v", i, name, lines[i][name], value)
			}
		}
	}
	if len(lines) != 4 {
		t.Errorf("%d lines", len(lines))
	}
	for name, labels := range map[string][]string{
		"guard_raises_total":           {"postgres", "orders"},
		"guard_revoked_sessions_total": {"postgres", "orders"},
	} {
		if value(t, r, name, labels...) == 0 {
			t.Errorf("%s was not counted", name)
		}
	}
	for _, result := range []string{"admitted", "stale"} {
		if n := value(t, r, "guard_admissions_total", "postgres", "orders", result); n != 1 {
			t.Errorf("%v admissions are counted as %s, want 1", n, result)
		}
	}
}

func TestARefusalIsLoggedOnceAMinuteForEachTokenAndReasonAndCountedEachTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stale := marks.Event{Kind: marks.Refused, Claim: claimOf(5),
			Err: refusal.Stale(claimOf(5), 7, "", time.Time{})}
		other := stale
		other.Claim = claimOf(6)
		foreign := stale
		foreign.Err = refusal.OtherIssuer(claimOf(5), 7, "")
		lines, r := told(t, func(tell func(marks.Event)) {
			for range 100 {
				tell(stale)
			}
			tell(other)
			tell(foreign)
			time.Sleep(quietFor + time.Second)
			tell(stale)
			tell(stale)
		})
		warnings := 0
		for _, l := range lines {
			if l["level"] == "WARN" {
				warnings++
			}
		}
		if warnings != 4 {
			t.Errorf("%d refusals were logged as warnings, want 4", warnings)
		}
		if n := value(t, r, "guard_admissions_total", "postgres", "orders", "stale"); n != 103 {
			t.Errorf("%v refusals were counted", n)
		}
	})
}

func TestInventedTokensAndResourcesFillNeitherMemoryNorMetrics(t *testing.T) {
	var q quiet
	for i := range 10_000 {
		q.again(marks.Event{Claim: claimOf(fence.Token(i + 1))})
	}
	if len(q.last) > 1001 {
		t.Errorf("%d refusals are remembered", len(q.last))
	}
	_, r := told(t, func(tell func(marks.Event)) {
		for i := range 100 {
			c := fence.Claim{Resource: fence.Resource(fmt.Sprintf("invented_%d", i)),
				Token: fence.Token(i + 1), Holder: fmt.Sprint(i)}
			tell(marks.Event{
				Kind: marks.Refused, Claim: c, Session: marks.Session{ID: int64(i)},
				Err: &fence.Refusal{Reason: fence.ReasonNotLeader, Claim: c},
			})
			tell(marks.Event{Kind: marks.Refused, Claim: c, Err: errors.New("a broken connection")})
		}
	})
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if n := len(f.GetMetric()); n > 2 {
			t.Errorf("%s has %d series", f.GetName(), n)
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if name := l.GetName(); name != "protocol" && name != "resource" &&
					name != "result" && name != "step" {
					t.Errorf("%s has the label %s", f.GetName(), name)
				}
			}
		}
	}
}

func TestASlowAdmissionIsOneLineWithItsSteps(t *testing.T) {
	steps := map[marks.Step]time.Duration{
		marks.StepIdentify: 2500 * time.Microsecond, marks.StepIssuer: 1900 * time.Millisecond,
	}
	lines, r := told(t, func(tell func(marks.Event)) {
		tell(marks.Event{Kind: marks.Finished, Claim: claimOf(5), Took: 2 * time.Second, Steps: steps})
		tell(marks.Event{Kind: marks.Finished, Claim: claimOf(5), Took: slow - 1, Steps: steps})
		tell(marks.Event{
			Kind: marks.Finished, Claim: claimOf(5), Took: slow, Err: refusal.TimedOut(errors.New("slow")),
		})
	})
	if len(lines) != 2 {
		t.Fatalf("%d lines: %v", len(lines), lines)
	}
	if l := lines[0]; l["level"] != "INFO" || l["msg"] != "slow admission" || l["duration_ms"] != 2000.0 ||
		l["result"] != "admitted" || l["resource"] != "orders" || l["token"] != "5" {
		t.Errorf("%v", l)
	}
	ms, _ := lines[0]["steps_ms"].(map[string]any)
	if len(ms) != 2 || ms["identify"] != 2.5 || ms["issuer"] != 1900.0 {
		t.Errorf("steps: %v", ms)
	}
	if lines[1]["result"] != "unrevoked" {
		t.Errorf("%v", lines[1])
	}
	for step, want := range map[string]float64{"admission": 3, "identify": 2, "issuer": 2, "raise": 0} {
		if n := value(t, r, "guard_step_duration_seconds", "postgres", step); n != want {
			t.Errorf("%s was observed %v times, want %v", step, n, want)
		}
	}
}

// Every series costs the guard memory for as long as it runs.
func TestResourcesWithALabelAreLimited(t *testing.T) {
	const all = 3 * resourcesMost
	_, r := told(t, func(tell func(marks.Event)) {
		for i := range all {
			c := fence.Claim{Resource: fence.Resource(fmt.Sprintf("r%d", i)), Token: 5}
			tell(marks.Event{Kind: marks.Finished, Claim: fence.Claim{Resource: "invented" + c.Resource}})
			tell(marks.Event{Kind: marks.Opened, Claim: c})
		}
	})
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "guard_admissions_total" {
			continue
		}
		sum := 0.0
		for _, m := range f.GetMetric() {
			sum += m.GetCounter().GetValue()
		}
		if n := len(f.GetMetric()); n != resourcesMost+1 || sum != all {
			t.Errorf("%d series count %v admissions, want %d and %d", n, sum, resourcesMost+1, all)
		}
		return
	}
	t.Error("no admission is counted")
}
