package election

import (
	"io"
	"slices"
	"testing"

	"github.com/ringfence/ringfence/bench/internal/program"
)

func TestArgumentsChooseCoordinatorsAndSizes(t *testing.T) {
	o := New().(*options)
	err := program.Parse(o, "election",
		[]string{"-coordinators", "etcd", "-sizes", "10,100", "-terms", ""}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if len(o.plan.entries) != 1 || o.plan.entries[0].name != "etcd" ||
		!slices.Equal(o.plan.sizes, []int{10, 100}) || o.plan.terms != nil {
		t.Errorf("got %+v", o.plan)
	}
	for _, wrong := range [][]string{
		{"-coordinators", "nosuch"}, {"-sizes", "0"}, {"-sizes", "x"}, {"-timeout", "1500ms"},
		{"-o", "yaml"},
		{"more"},
	} {
		if err := program.Parse(New(), "election", wrong, io.Discard); err == nil {
			t.Errorf("%q is accepted", wrong)
		}
	}
}

func TestBarsAreMissedWhereTheMeasuredValueIsWorse(t *testing.T) {
	good := electionRow{ResignP99: 50, CrashMax: 100, WokenMin: 1, WokenMax: 1}
	for _, b := range (&report{
		elections: []electionRow{good}, held: []heldRow{{Sessions: 1}},
	}).bars() {
		if !b.Met {
			t.Errorf("%s is missed", b.What)
		}
	}
	bad := electionRow{ResignP99: 50.1, CrashMax: 100.1, WokenMin: 0, WokenMax: 1}
	for _, b := range (&report{elections: []electionRow{bad}, held: []heldRow{{Sessions: 2}}}).bars() {
		if b.Met {
			t.Errorf("%s is met", b.What)
		}
	}
}
