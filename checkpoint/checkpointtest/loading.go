package checkpointtest

import (
	"slices"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/internal/test/contract"
)

var loadClauses = []contract.Clause[*stage]{
	{Name: "Load lists all, sorted by name byte for byte", Holds: loadSorts},
	{Name: "Load reads what is named and leaves out what was never published", Holds: loadNamed},
	{Name: "Load needs no claim, and shows what landed last", Holds: loadIsFresh},
}

var unsorted = []checkpoint.Name{"b", "a.b", "B", "a", "a-b", "10", "a_b", "9", "Z",
	"a:b", "ab", "aB"}

func names(all []checkpoint.Checkpoint) (out []checkpoint.Name) {
	for _, cp := range all {
		out = append(out, cp.Task)
	}
	return out
}

func (k *stage) listed(got []checkpoint.Checkpoint, want ...checkpoint.Name) {
	k.Helper()
	if !slices.Equal(names(got), want) {
		k.Fatalf("loaded %q, want %q", names(got), want)
	}
}

func loadSorts(k *stage) {
	c := k.lead(orders)
	for _, task := range unsorted {
		k.publish(c, version(1, c, task, "a"))
	}
	sorted := slices.Sorted(slices.Values(unsorted))
	for _, j := range []checkpoint.Journal{k.Journal, k.Second} {
		k.listed(k.load(j), sorted...)
		k.listed(k.load(j, unsorted...), sorted...)
	}
}

func loadNamed(k *stage) {
	c := k.lead(orders)
	k.listed(k.load(k.Journal, nightly, hourly))
	for _, task := range unsorted {
		k.publish(c, version(1, c, task, "a"))
	}
	k.listed(k.load(k.Journal, "a"), "a")
	k.listed(k.load(k.Journal, "b", "unheard-of", "B"), "B", "b")
	k.listed(k.load(k.Journal, "unheard-of"))
	for _, cp := range k.load(k.Second, "a", "a.b") {
		k.equal(cp, version(1, c, cp.Task, "a"))
	}
}

func loadIsFresh(k *stage) {
	c := k.lead(orders)
	for n := range int64(5) {
		k.stays(nightly, k.publish(c, version(n+1, c, nightly, "a")))
	}
	c = k.lead(orders)
	k.stays(nightly, k.publish(c, version(6, c, nightly, "b")))
}
