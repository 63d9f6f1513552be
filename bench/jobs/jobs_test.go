package jobs

import (
	"io"
	"slices"
	"testing"

	"github.com/ringfence/ringfence/bench/internal/program"
)

func TestArgumentsChooseRowsAndWays(t *testing.T) {
	s := New().(*options)
	err := program.Parse(s, "jobs",
		[]string{"-ways", "river,etcd", "-rows", "^(assign|done workers=1)", "-jobs", "5"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range s.chosen() {
		for _, way := range c.ways {
			got = append(got, c.rows[0].Name+", "+way)
		}
	}
	want := []string{"assign n=5, etcd", "done workers=1, etcd", "done workers=1, river"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, wrong := range [][]string{
		{"-ways", "nosuch"}, {"-jobs", "0"}, {"-timeout", "1500ms"}, {"-o", "yaml"}, {"more"},
	} {
		if err := program.Parse(New(), "jobs", wrong, io.Discard); err == nil {
			t.Errorf("%q is accepted", wrong)
		}
	}
}

func TestEachCellHasTheValuesOfItsRows(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range cells(plan{jobs: 1, backlog: 2}) {
		for _, row := range c.rows {
			if seen[row.Name] {
				t.Errorf("two rows are called %q", row.Name)
			}
			seen[row.Name] = true
		}
	}
	for _, name := range []string{"submit c=8", "assign n=1", "backlog=2 memory", "killed worker"} {
		if !seen[name] {
			t.Errorf("there is no row %q", name)
		}
	}
}
