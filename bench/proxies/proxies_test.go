package proxies

import (
	"io"
	"testing"
	"time"

	"github.com/ringfence/ringfence/bench/internal/program"
	"github.com/ringfence/ringfence/bench/internal/report"
	"github.com/ringfence/ringfence/bench/internal/ways"
	"github.com/ringfence/ringfence/internal/test/must"
)

func TestArguments(t *testing.T) {
	s := Postgres().(*settings)
	err := program.Parse(s, "postgres",
		[]string{"-rows", "^copy", "-seconds", "0.5", "-copy-mb", "20"}, io.Discard)
	must.Succeed(t, err)
	if s.Duration() != 500*time.Millisecond || s.copyMegabytes != 20 {
		t.Errorf("got %+v", s)
	}
	for _, wrong := range [][]string{
		{"redis"}, {"-copy-mb", "0"}, {"-o", "yaml"},
	} {
		if err := program.Parse(Redis(), "redis", wrong, io.Discard); err == nil {
			t.Errorf("%q is accepted", wrong)
		}
	}
}

func TestRowsAreChosenByName(t *testing.T) {
	s := Postgres().(*settings)
	if err := program.Parse(s, "postgres", []string{"-rows", "select prepared|p50"},
		io.Discard); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, trial := range postgresTrials(report.New("postgres", s.Options), s, &ways.Postgres{}) {
		names = append(names, trial.name)
	}
	if len(names) != 4 || names[0] != "select prepared c=1" || names[3] != "latency" {
		t.Errorf("got %q", names)
	}
}

// printed is the output of pgbench 15.
const printed = `pgbench (15.18)
transaction type: <builtin: select only>
number of clients: 8
duration: 1 s
number of transactions actually processed: 19876
number of failed transactions: 0 (0.000%)
latency average = 0.402 ms
initial connection time = 12.345 ms
tps = 19901.123456 (without initial connection time)
`

func TestPgbenchOutput(t *testing.T) {
	o, err := parsePgbench(printed)
	if err != nil || o.operations != 19876 || o.value != 19901.123456 {
		t.Errorf("got %+v, %v", o, err)
	}
	for _, wrong := range []string{
		"", "tps = 1.5 (without initial connection time)",
		"number of transactions actually processed: 5\nnumber of failed transactions: 2 (40%)\ntps = 1 " +
			"(x)",
	} {
		if _, err := parsePgbench(wrong); err == nil {
			t.Errorf("%q is accepted", wrong)
		}
	}
}

func TestRESP(t *testing.T) {
	if got := string(resp("SET k xxx")); got != "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$3\r\nxxx\r\n" {
		t.Errorf("got %q", got)
	}
}

func TestLinesHaveTheRightLength(t *testing.T) {
	const size = 200_000
	all, err := io.ReadAll(&lines{block: line, left: size})
	if err != nil || len(all) != size {
		t.Fatalf("%d bytes, %v", len(all), err)
	}
	for i, b := range all {
		if (b == '\n') != (i%len(line) == len(line)-1) {
			t.Fatalf("byte %d is %q", i, b)
		}
	}
}
