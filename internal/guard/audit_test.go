package guard

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/network/tally"
	"github.com/ringfence/ringfence/internal/refusal"
	"github.com/ringfence/ringfence/internal/test/must"
)

// told sends events through an Audit and returns the log lines and the metrics.
func told(
	t *testing.T, events func(tell func(marks.Event)),
) (lines []map[string]any, r *prometheus.Registry) {
	t.Helper()
	var b bytes.Buffer
	r = prometheus.NewRegistry()
	log := slog.New(slog.NewJSONHandler(&b, &slog.HandlerOptions{Level: slog.LevelDebug}))
	a := NewAudit(log, NewMetrics(r), "postgres")
	events(a.Event)
	a.Close()
	for line := range strings.Lines(b.String()) {
		m := map[string]any{}
		must.Succeed(t, json.Unmarshal([]byte(line), &m))
		lines = append(lines, m)
	}
	return lines, r
}

// big is a token that a float would change.
const big fence.Token = 1<<53 + 1

func claimOf(t fence.Token) fence.Claim {
	return fence.Claim{Resource: "orders", Token: t, Issuer: "zk:one", Holder: "host-a"}
}

// ann is a client.
var ann = marks.Client{Address: "10.0.0.1:40000", User: "ann", Application: "billing"}

func TestEveryChangeOfLeadershipIsOneLineWithItsFields(t *testing.T) {
	lines, r := told(t, func(tell func(marks.Event)) {
		tell(marks.Event{
			Kind: marks.Raised, Claim: claimOf(big), Before: marks.Mark{Token: 5, Holder: "host-b"},
			Took: 1500 * time.Microsecond, Client: ann,
		})
		tell(marks.Event{
			Kind: marks.Revoked, Claim: claimOf(big), Ended: 3, Took: time.Millisecond, Client: ann,
		})
		tell(marks.Event{
			Kind: marks.Opened, Claim: claimOf(big), Session: marks.SessionID{ID: 42},
			Took: time.Millisecond, Client: ann,
		})
		tell(marks.Event{
			Kind: marks.Refused, Claim: claimOf(5), Took: time.Millisecond, Client: ann,
			Err: refusal.Stale(claimOf(5), big, "", time.Time{}),
		})
		tell(marks.Event{
			Kind: marks.Adopted, Claim: claimOf(big), Client: ann, Took: time.Millisecond,
			Before: marks.Mark{Token: 5, Holder: "host-b", Issuer: "zk:zero"},
		})
	})
	for i, want := range []map[string]any{
		{"level": "INFO", "msg": "mark raised", "event": "raised", "old_token": "5",
			"old_holder": "host-b",
			"issuer":     "zk:one", "duration_ms": 1.5},
		{"level": "INFO", "msg": "older sessions ended", "event": "revoked", "sessions": 3.0},
		{"level": "DEBUG", "msg": "session admitted", "event": "admitted", "session": 42.0},
		{"level": "WARN", "msg": "session refused", "event": "refused", "token": "5",
			"reason": "stale", "mark": big.String(), "count": 1.0},
		{"level": "WARN", "msg": "an operator has adopted the resource", "event": "adopted",
			"old_token": "5", "old_holder": "host-b", "issuer": "zk:one", "old_issuer": "zk:zero"},
	} {
		if want["token"] == nil {
			want["token"] = big.String()
		}
		want["protocol"], want["resource"], want["holder"] = "postgres", "orders", "host-a"
		want["client"], want["user"], want["application_name"] = "10.0.0.1:40000", "ann", "billing"
		if lines[i]["duration_ms"] == nil {
			t.Errorf("line %d has no duration", i)
		}
		for name, value := range want {
			if lines[i][name] != value {
				t.Errorf("line %d: %s is %v, want %v", i, name, lines[i][name], value)
			}
		}
	}
	if len(lines) != 5 {
		t.Errorf("%d lines", len(lines))
	}
	for name, labels := range map[string][]string{
		"ringfence_raises_total":           {"postgres", "orders"},
		"ringfence_revoked_sessions_total": {"postgres", "orders"},
		"ringfence_refusals_total":         {"postgres", "stale"},
		"ringfence_raise_duration_seconds": {"postgres"},
		"ringfence_revocation_sessions":    {"postgres"},
	} {
		if value(t, r, name, labels...) == 0 {
			t.Errorf("%s was not counted", name)
		}
	}
}

func TestLinesAndMetricsNameTheDatabase(t *testing.T) {
	var b bytes.Buffer
	r := prometheus.NewRegistry()
	a := NewAudit(slog.New(slog.NewJSONHandler(&b, nil)), NewMetrics(r), "postgres")
	for _, database := range []string{"shop", "crm"} {
		a.In(database)(marks.Event{Kind: marks.Raised, Claim: claimOf(5)})
	}
	stale := refusal.Stale(claimOf(4), 5, "", time.Time{})
	a.Elsewhere("invented\n", marks.Event{Kind: marks.Refused, Claim: claimOf(4), Err: stale})
	a.Close()
	for _, database := range []string{"shop", "crm"} {
		if !strings.Contains(b.String(), `"database":"`+database+`"`) ||
			value(t, r, "ringfence_raises_total", database, "postgres", "orders") != 1 {
			t.Errorf("the raise in %s is not in the log and the metrics:\n%s", database, &b)
		}
	}
	if n := value(t, r, "ringfence_admissions_total", "postgres", "orders", "refused"); n != 1 {
		t.Errorf("%v refusals in a database that is not served", n)
	}
	if all := a.Refusals(); len(all) != 1 || all[0].Database != "invented?" {
		t.Errorf("%+v", all)
	}
}

// The number of databases has no limit, that of labels has one.
func TestTheFirstDatabasesHaveALabel(t *testing.T) {
	r := prometheus.NewRegistry()
	m := NewMetrics(r)
	show := func(databases map[string]error) {
		m.Show(Look{
			Protocols: map[string]error{"postgres": nil},
			Databases: map[string]map[string]error{"postgres": maps.Clone(databases)},
		})
	}
	for i := range maxDatabases {
		show(map[string]error{fmt.Sprint("d", i): nil})
	}
	all := map[string]error{"\xff": nil}
	for i := range maxDatabases + 5 {
		all[fmt.Sprint("d", i)] = nil
	}
	show(all)
	if n := value(t, r, "ringfence_database_ready", others, "postgres"); n != 1 {
		t.Errorf("the others are %v", n)
	}
	families, err := r.Gather()
	must.Succeed(t, err)
	for _, f := range families {
		if n := len(f.GetMetric()); f.GetName() == "ringfence_database_ready" && n != maxDatabases+1 {
			t.Errorf("%d series", n)
		}
	}
	delete(all, "d1")
	show(all)
	if n := value(t, r, "ringfence_database_ready", "d1", "postgres"); n != 0 {
		t.Error("a closed database still has a series")
	}
}

// staleFrom is a refusal of a stale token from an address.
func staleFrom(address string, token fence.Token) marks.Event {
	return marks.Event{
		Kind: marks.Refused, Claim: claimOf(token), Client: marks.Client{Address: address},
		Err: refusal.Stale(claimOf(token), 7, "", time.Time{}),
	}
}

// refusedLines returns the counts of the lines of refusals, and their sum.
func refusedLines(lines []map[string]any) (counts []float64, sum float64) {
	for _, l := range lines {
		if l["event"] == "refused" {
			n := l["count"].(float64)
			counts, sum = append(counts, n), sum+n
		}
	}
	return counts, sum
}

func TestACrowdOfStaleClientsIsAHandfulOfLinesWithTheRightCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const crowd = 10_000
		lines, r := told(t, func(tell func(marks.Event)) {
			for i := range crowd {
				tell(staleFrom(fmt.Sprintf("10.0.0.%d:%d", i%3, 1024+i), 5))
				time.Sleep(15 * time.Millisecond) // two and a half minutes in all
			}
			time.Sleep(2 * tally.QuietFor)
			tell(staleFrom("10.0.0.1:9", 5)) // logged at once again
		})
		counts, sum := refusedLines(lines)
		if len(counts) > 15 || sum != crowd+1 || counts[len(counts)-1] != 1 {
			t.Errorf("%v refusals in %d lines: %v", sum, len(counts), counts)
		}
		if n := value(t, r, "ringfence_refusals_total", "postgres", "stale"); n != crowd+1 {
			t.Errorf("%v refusals are counted in the metrics", n)
		}
	})
}

func TestRefusalsOfAnotherTokenAddressOrReasonAreLoggedAtOnce(t *testing.T) {
	other := staleFrom("10.0.0.1:1", 5)
	other.Err = refusal.OtherIssuer(claimOf(5), 7, "")
	lines, _ := told(t, func(tell func(marks.Event)) {
		tell(staleFrom("10.0.0.1:1", 5))
		tell(staleFrom("10.0.0.2:1", 5))
		tell(staleFrom("[2001:db8::1]:1", 5))
		tell(staleFrom("10.0.0.1:1", 6))
		tell(other)
		tell(staleFrom("10.0.0.1:2", 5))
		tell(staleFrom("[2001:db8::2]:2", 5))
	})
	if counts, sum := refusedLines(lines); len(counts) != 7 || sum != 7 {
		t.Errorf("%v refusals in lines of %v", sum, counts)
	}
	for i, l := range lines[5:] { // those that Close has logged, in no order
		if l["client"] != "10.0.0.1:2" && l["client"] != "[2001:db8::2]:2" {
			t.Errorf("line %d after the end is of %v", i, l["client"])
		}
	}
}

func TestTheLastRefusalsAreRememberedWithTheirCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := prometheus.NewRegistry()
		a := NewAudit(slog.New(slog.DiscardHandler), NewMetrics(r), "postgres")
		defer a.Close()
		a.Event(staleFrom("10.0.0.1:1", 5))
		time.Sleep(time.Second)
		a.Event(staleFrom("10.0.0.2:1", 6))
		time.Sleep(time.Second)
		a.Event(staleFrom("10.0.0.1:2", 5))
		got := a.Refusals()
		if len(got) != 2 || got[0].Token != 5 || got[0].Count != 2 || got[0].Mark != 7 ||
			got[0].Client.Address != "10.0.0.1:2" || got[1].Count != 1 ||
			got[0].Reason != "stale" || got[0].At != time.Now() {
			t.Errorf("%+v", got)
		}
		time.Sleep(2 * tally.QuietFor)
		for i := range 2 * tally.MaxKinds { // newer ones take the place of those that are over
			a.Event(staleFrom("10.0.0.3:1", fence.Token(100+i)))
		}
		sum := 0
		for _, r := range a.Refusals() {
			sum += r.Count
			if r.Token == 5 || r.Token == 6 {
				t.Errorf("remembered for too long: %+v", r)
			}
		}
		if sum != 2*tally.MaxKinds {
			t.Errorf("%d refusals are counted, want %d", sum, 2*tally.MaxKinds)
		}
	})
}

func TestInventedTokensAndResourcesFillNeitherMemoryNorMetrics(t *testing.T) {
	const all = 10_000
	lines, _ := told(t, func(tell func(marks.Event)) {
		for i := range all {
			tell(staleFrom(fmt.Sprintf("10.1.%d.%d:1", i/250, i%250), fence.Token(i+1)))
		}
	})
	if counts, sum := refusedLines(lines); len(counts) > tally.MaxKinds+2 || sum != all {
		t.Errorf("%v refusals in %d lines", sum, len(counts))
	}
	_, r := told(t, func(tell func(marks.Event)) {
		for i := range 100 {
			c := fence.Claim{Resource: fence.Resource(fmt.Sprintf("invented_%d", i)),
				Token: fence.Token(i + 1), Holder: fmt.Sprint(i)}
			tell(marks.Event{
				Kind: marks.Refused, Claim: c, Session: marks.SessionID{ID: int64(i)},
				Err: &fence.Refusal{Reason: fence.ErrNotLeader, Claim: c},
			})
			tell(marks.Event{Kind: marks.Refused, Claim: c, Err: errors.New("a broken connection")})
		}
	})
	families, err := r.Gather()
	must.Succeed(t, err)
	for _, f := range families {
		if f.GetName() == "ringfence_build_info" {
			continue // nothing of a client's
		}
		if n := len(f.GetMetric()); n > 13 { // one for each reason
			t.Errorf("%s has %d series", f.GetName(), n)
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if name := l.GetName(); name != "protocol" && name != "resource" &&
					name != "result" && name != "reason" && name != "step" && name != "database" {
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
	if l := lines[0]; l["level"] != "INFO" || l["msg"] != "slow admission" ||
		l["duration_ms"] != 2000.0 ||
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
	for step, want := range map[string]float64{"identify": 2, "issuer": 2, "raise": 0} {
		if n := value(t, r, "ringfence_admission_step_duration_seconds", "postgres", step); n != want {
			t.Errorf("%s was observed %v times, want %v", step, n, want)
		}
	}
	for result, want := range map[string]float64{admitted: 2, refused: 1} {
		if n := value(t, r, "ringfence_admission_duration_seconds", "postgres", result); n != want {
			t.Errorf("%v admissions were observed as %s, want %v", n, result, want)
		}
	}
}

// Every series costs the guard memory for as long as it runs.
func TestResourcesWithALabelAreLimited(t *testing.T) {
	const all = 3 * maxResources
	_, r := told(t, func(tell func(marks.Event)) {
		for i := range all {
			c := fence.Claim{Resource: fence.Resource(fmt.Sprintf("r%d", i)), Token: 5}
			tell(marks.Event{Kind: marks.Finished, Claim: fence.Claim{Resource: "invented" + c.Resource}})
			tell(marks.Event{Kind: marks.Opened, Claim: c})
		}
	})
	families, err := r.Gather()
	must.Succeed(t, err)
	for _, f := range families {
		if f.GetName() != "ringfence_admissions_total" {
			continue
		}
		sum := 0.0
		for _, m := range f.GetMetric() {
			sum += m.GetCounter().GetValue()
		}
		const series = 2*maxResources + 1 // admitted and refused, and the others
		if n := len(f.GetMetric()); n != series || sum != all {
			t.Errorf("%d series count %v admissions, want %d and %d", n, sum, series, all)
		}
		return
	}
	t.Error("no admission is counted")
}
