package history

import (
	"bytes"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestAHistoryIsReadAsItWasWritten(t *testing.T) {
	want := []Event{
		{At: 1, Kind: Run,
			Header: &Header{
				Scenario: "s", Seed: 1<<64 - 1, Session: Duration(1500 * time.Millisecond),
				Expect: Expect{MostChanges: -1},
			}},
		{At: 2, Kind: Invoke, Process: "worker-1/redis", Op: "a", Do: Write, Store: "redis",
			Token: 1<<53 + 1},
		{At: 3, Kind: Publish, Task: "t", Version: 3, Run: 1, Round: 2, Step: 0},
		{At: 4, Kind: Fault, Fault: "pause leader #1", State: Begin, Text: "two\nlines"},
	}
	var b bytes.Buffer
	w := NewWriter(&b)
	for _, e := range want {
		w.Add(e)
	}
	if w.Err() != nil {
		t.Fatal(w.Err())
	}
	if n := strings.Count(b.String(), "\n"); n != len(want) {
		t.Errorf("%d lines for %d events", n, len(want))
	}
	if !strings.Contains(b.String(), `"token":"9007199254740993"`) {
		t.Errorf("a token is not a string:\n%s", &b)
	}
	got, err := Read(&b)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v\n%+v\nwant\n%+v", err, got, want)
	}
}

func TestADamagedHistoryNamesTheLine(t *testing.T) {
	for text, want := range map[string]string{
		`{"at":1,"kind":"end"}` + "\n" + `{"at":`: "line 2",
		`{"at":1}`:                             "without a kind",
		`{"at":1,"kind":"invoke","token":"x"}`: "line 1",
		`{"at":1,"kind":"note","text":"` + strings.Repeat("a", 2<<20) + `"}`: "after line 0",
	} {
		if _, err := Read(strings.NewReader(text)); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %q", text, err, want)
		}
	}
}

func TestWritersDoNotMixLines(t *testing.T) {
	var b bytes.Buffer
	w := NewWriter(&b)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 100 {
				w.Add(Event{Kind: Note, Text: strings.Repeat("x", 100)})
			}
		})
	}
	all.Wait()
	events, err := Read(&b)
	if err != nil || len(events) != 800 {
		t.Fatalf("%d events, %v", len(events), err)
	}
	for _, e := range events {
		if e.At == 0 {
			t.Fatal("an event without a time")
		}
	}
}

func TestTheFirstFailureOfAWriterIsKept(t *testing.T) {
	w := NewWriter(broken{})
	w.Add(Event{Kind: Note})
	w.Add(Event{Kind: Note})
	if w.Err() == nil || strings.Count(w.Err().Error(), "full") != 1 {
		t.Errorf("%v", w.Err())
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errFull }

var errFull = &fullError{}

type fullError struct{}

func (*fullError) Error() string { return "full" }
