package scenario

import "testing"

func TestWhatNeedsAGuardIsNotOnThePathSQL(t *testing.T) {
	for name, want := range map[string]bool{
		"leader-paused": true, "paused-inside-transaction": true, "leader-cut-from-coordinator": true,
		"postgres-killed": true, "random-mix": true, "sql-pooler-killed": true,
		"leader-paused-embedded": false, "guard-restarted-empty": false, "killed-mid-step": false,
		"redis-killed":      false,
		"job-worker-paused": false, "marks-restored": false, "clock-jump": false,
		"coordinator-leader-killed": false,
	} {
		s, found := Find(name)
		on, ok := s.OverSQL()
		if !found || ok != want {
			t.Errorf("%s: found %t, on the path %t", name, found, ok)
		}
		if ok && (on.Topology.Route != SQL || on.Topology.Guards != 0 || on.Only != Local ||
			on.Topology.Elections != BySQL) {
			t.Errorf("%s is built as %+v", name, on.Topology)
		}
	}
}

func TestWithoutRingfenceThePathSQLLacksOnlyEnter(t *testing.T) {
	s, _ := Find("leader-paused")
	s, _ = s.OverSQL()
	s.Unguard()
	if s.Topology.Route != SQL || s.Workload.Flaw == "" {
		t.Errorf("%+v", s)
	}
}
