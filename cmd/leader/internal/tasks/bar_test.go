package tasks

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/taskevent"
)

func TestBarFitsTheLine(t *testing.T) {
	b := &Bar{task: "settlement", doing: "send mails"}
	b.cp = checkpoint.Checkpoint{Steps: make([]string, 4), Step: 1, Round: 2, Rounds: 3, Run: 1}
	for width, want := range map[int]string{
		79: "settlement [######..................] 1/4  send mails  round 2/3  run 1  1:05",
		60: "settlement [#......] 1/4  send mails  round 2/3  run 1  1:05",
		50: "settlement  1/4  send mails  round 2/3  run 1  1:0",
		10: "settlement",
		-1: "",
	} {
		if got := b.line(width, 65*time.Second); got != want {
			t.Errorf("in %d: got %q, want %q", width, got, want)
		}
	}
	b.cp.Rounds, b.cp.Step = checkpoint.Forever, 4
	got := b.line(120, time.Hour+time.Minute)
	if !strings.Contains(got, "] 4/4  send mails  round 2  run 1  1:01:00") ||
		strings.Contains(got, ".") {
		t.Errorf("got %q", got)
	}
}

func TestBarStaysBelowTheOutput(t *testing.T) {
	synctest.Test(t, barStaysBelow) // no second passes
}

func barStaysBelow(t *testing.T) {
	var screen bytes.Buffer
	b := &Bar{Line: &Line{terminal: &screen, columns: func() int { return 80 }}}
	end := b.begin("t")
	fmt.Fprint(b, "a line\n")
	fmt.Fprint(b, "half ")
	b.show(checkpoint.Event{
		Kind: taskevent.Began, Step: "s", Checkpoint: checkpoint.Checkpoint{
			Steps: []string{"s"}, Round: 1, Rounds: 1, Run: 1,
		},
	})
	fmt.Fprint(b, "a line\n")
	end()
	want := "\r\x1b[Kt  waits to lead  0:00" + "\r\x1b[Ka line\n" +
		"\r\x1b[Kt  waits to lead  0:00" + "\r\x1b[Khalf " + "a line\n" +
		"\r\x1b[Kt [........................] 0/1  s  round 1/1  run 1  0:00" +
		"\r\x1b[Kt [........................] 0/1  s  round 1/1  run 1  0:00\n"
	if screen.String() != want {
		t.Errorf("got  %q\nwant %q", screen.String(), want)
	}
}

// written is a terminal that sends each write to a channel.
type written chan string

func (w written) Write(b []byte) (int, error) { w <- string(b); return len(b), nil }

func TestBarIsDrawnAgainEachSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		screen := make(written, 8)
		b := &Bar{Line: &Line{terminal: screen, columns: func() int { return 80 }}}
		defer b.begin("t")()
		for _, want := range []string{"0:00", "0:01", "0:02"} {
			if got := <-screen; !strings.HasSuffix(got, "waits to lead  "+want) {
				t.Errorf("got %q, want %s", got, want)
			}
		}
	})
}

func TestThereIsNoBarWithoutATerminal(t *testing.T) {
	if NewBar(&bytes.Buffer{}, nil) != nil {
		t.Error("a bar in a file")
	}
	var none *Bar
	none.show(checkpoint.Event{})
	none.say("x")
}
