package redisguard

import "testing"

func TestEveryStepOfATakeoverIsTimed(t *testing.T) {
	t.Parallel()
	g := fresh(t)
	g.fenced(5)
	g.fenced(7)
	named := g.raw()
	named.send("CLIENT SETNAME fence.orders.9\r\n")
	named.expect("+OK")
	for step, want := range map[string]float64{
		"connect": 3, "login": 1, "identify": 3, "issuer": 3, "register": 3,
		"raise": 3, "revoke": 2, "slot": 3,
	} {
		if n := g.Metric("ringfence_admission_step_duration_seconds", step); n != want {
			t.Errorf("%s was timed %v times, want %v", step, n, want)
		}
	}
	if n := g.Metric("ringfence_admission_duration_seconds", "admitted"); n != 3 {
		t.Errorf("%v admissions were timed, want 3", n)
	}
}
