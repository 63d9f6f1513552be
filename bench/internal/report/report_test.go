package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/internal/test/must"
)

// filled returns a row in which a proxy is half as good as direct and the peer three quarters.
func filled(lower bool) *Row {
	values := map[string][]float64{
		Direct: {400, 100, 800}, "guard": {200, 50, 400}, "peer": {300, 75, 600},
	}
	if lower {
		values = map[string][]float64{Direct: {3, 1, 6}, "guard": {6, 2, 12}, "peer": {4, 4. / 3, 8}}
	}
	r := &Row{
		Name: "row", Unit: "tps", Lower: lower, Bar: &Bar{Way: "guard", Against: "peer", Limit: 1},
	}
	for _, way := range []string{Direct, "guard", "peer"} {
		for _, v := range values[way] {
			r.Add(way, v)
		}
	}
	return r
}

func TestARatioAboveOneIsAlwaysBetter(t *testing.T) {
	for _, lower := range []bool{false, true} {
		r := filled(lower)
		for _, c := range []struct {
			a, b string
			want float64
		}{{"guard", Direct, 0.5}, {"peer", Direct, 0.75}, {"guard", "peer", 2. / 3}} {
			if got := r.Ratio(c.a, c.b); math.Abs(got-c.want) > 1e-9 {
				t.Errorf("lower=%v: %s : %s is %v, want %v", lower, c.a, c.b, got, c.want)
			}
		}
		if got := r.bestPeer(); got != "peer" {
			t.Errorf("lower=%v: the best peer is %q", lower, got)
		}
		if value, met := r.judge(); met || math.Abs(value-2./3) > 1e-9 {
			t.Errorf("lower=%v: judged %v, %v", lower, value, met)
		}
	}
}

func TestABarWithALimitIsMissedWhereTheMedianIsWorse(t *testing.T) {
	for _, c := range []struct {
		lower bool
		value float64
		met   bool
	}{{true, 5, true}, {true, 5.1, false}, {true, -1, true}, {false, 5, true}, {false, 4.9, false}} {
		r := &Row{Lower: c.lower, Bar: &Bar{Way: "guard", Limit: 5}}
		r.Add("guard", c.value)
		if _, met := r.judge(); met != c.met {
			t.Errorf("lower=%v, %v: met is %v", c.lower, c.value, met)
		}
	}
}

func TestWhatWasNotMeasuredIsLeftOut(t *testing.T) {
	r := New("suite", Options{Rounds: 1, output: "json"})
	r.Row(Row{Name: "nothing"})
	row := r.Row(Row{Name: "no peer", Unit: "tps", Bar: &Bar{Way: "guard", Against: "peer", Limit: 1}})
	row.Add(Direct, 2)
	row.Add("guard", 1)
	row.AddCPU("guard", 12)
	var out bytes.Buffer
	must.Succeed(t, r.options.Write(&out, r))
	var got struct{ Rows []map[string]any }
	must.Succeed(t, json.Unmarshal(out.Bytes(), &got))
	if len(got.Rows) != 1 || got.Rows[0]["bar"].(map[string]any)["value"] != nil {
		t.Errorf("got %v", got.Rows)
	}
	out.Reset()
	if err := r.Table(&out); err != nil || !strings.Contains(out.String(), "not measured") {
		t.Errorf("%v:\n%s", err, out.String())
	}
}

func TestThePlotIsXMLWithABarForEachWay(t *testing.T) {
	file := filepath.Join(t.TempDir(), "plot.svg")
	r := New("<suite>", Options{Rounds: 3, output: "table", plotFile: file})
	r.rows = append(r.rows, filled(false), filled(true))
	limit := r.Row(Row{Name: "take-over", Lower: true, Bar: &Bar{Way: "guard", Limit: 5}})
	limit.Add("guard", 10)
	must.Succeed(t, r.options.Write(io.Discard, r))
	text, err := os.ReadFile(file)
	must.Succeed(t, err)
	counted := map[string]int{}
	for d := xml.NewDecoder(bytes.NewReader(text)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v:\n%s", err, text)
		}
		if start, ok := token.(xml.StartElement); ok {
			counted[start.Name.Local]++
		}
	}
	if want := 2 + 2*2 + 1; counted["rect"] != want { // two in the legend
		t.Errorf("%d bars and legends, want %d", counted["rect"], want)
	}
}

func TestFlags(t *testing.T) {
	parse := func(args ...string) (Options, error) {
		o := Options{Rounds: 3, Seconds: 2}
		f := flag.NewFlagSet("test", flag.ContinueOnError)
		f.SetOutput(io.Discard)
		o.Flags(f)
		err := f.Parse(args)
		if err == nil {
			err = o.Check()
		}
		return o, err
	}
	o, err := parse("-rows", "^select", "-rounds", "5")
	if err != nil || o.Rounds != 5 || !o.Wants("select c=8") || o.Wants("update c=8") {
		t.Errorf("got %+v, %v", o, err)
	}
	for _, wrong := range [][]string{
		{"-rows", "("}, {"-rounds", "0"}, {"-seconds", "-1"}, {"-seconds", "0"}, {"-o", "yaml"},
	} {
		if _, err := parse(wrong...); err == nil {
			t.Errorf("%q is accepted", wrong)
		}
	}
}

func TestMarkdownHasAColumnForEachWay(t *testing.T) {
	r := New("suite", Options{Rounds: 3, output: "markdown"})
	r.rows = append(r.rows, filled(false))
	var out bytes.Buffer
	must.Succeed(t, r.options.Write(&out, r))
	want := "| row | tps | 400 | 200 | 300 | 0.50 | 0.67 |  |\n"
	if !strings.HasSuffix(out.String(), want) {
		t.Errorf("got\n%s\nwant at its end\n%s", out.String(), want)
	}
}
