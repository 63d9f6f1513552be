package redisguard

import (
	"strings"
	"testing"

	"github.com/ringfence/ringfence/internal/marks"
)

func TestARefusalNamesTheClient(t *testing.T) {
	t.Parallel()
	g := fresh(t)
	if err := g.direct().Do(t.Context(), "ACL", "SETUSER", "billing", "on", ">secret", "~*", "&*",
		"+@all").Err(); err != nil {
		t.Fatal(err)
	}
	g.fenced(7)
	for _, test := range []struct {
		commands          []string
		user, application string
	}{
		{[]string{"FENCE orders 5"}, "", ""},
		{[]string{"AUTH billing secret", "CLIENT SETNAME worker", "FENCE orders 5"}, "billing", "worker"},
		{[]string{"HELLO 3 AUTH billing secret SETNAME fence.orders.5"}, "billing", "fence.orders.5"},
		{[]string{"AUTH billing wrong", "FENCE orders 5"}, "", ""},
		{[]string{"CLIENT SETNAME fence.orders.zero"}, "", "fence.orders.zero"},
	} {
		r := g.raw()
		for i, command := range test.commands {
			r.send(command + "\r\n")
			if got := r.reply(); i == len(test.commands)-1 && !strings.HasPrefix(got, "-") {
				t.Fatalf("%q is not refused: %q", command, got)
			}
		}
		want := marks.Client{
			Address: r.conn.LocalAddr().String(), User: test.user, Application: test.application,
		}
		got := g.audit.Refusals()
		if len(got) == 0 || got[0].Client != want || got[0].Holder != want.Address {
			t.Errorf("%q: %+v, want the client %+v", test.commands, got, want)
		}
	}
}

func TestWhoACommandLogsInAs(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]string{
		"AUTH secret": "default", "auth ann secret": "ann", "HELLO 3 AUTH ann secret": "ann",
		"HELLO 3 SETNAME AUTH AUTH ann secret": "ann", "HELLO 3 SETNAME AUTH": "", "HELLO 3": "",
		"HELLO": "", "HELLO 3 AUTH secret": "", "SET AUTH ann": "",
	} {
		var args [][]byte
		for _, word := range strings.Fields(command) {
			args = append(args, []byte(word))
		}
		if got, _ := loginUser(args); got != want {
			t.Errorf("%q logs in as %q, want %q", command, got, want)
		}
	}
}
