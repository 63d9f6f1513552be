package redis

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// An operator who looks at Redis sees nothing of a refused command but that one error more was counted; also where the
// user has hardly any rights, and in whatever state the connection is.
func TestARefusedCommandShowsInRedisAsOneError(t *testing.T) {
	for state, enter := range map[string]string{"RESP2": "", "RESP3": "HELLO 3\r\n", "subscribed": "SUBSCRIBE ch\r\n", "subscribed in RESP3": "HELLO 3\r\nSUBSCRIBE ch\r\n"} {
		t.Run(state, func(t *testing.T) {
			g := fresh(t, "--slowlog-log-slower-than", "0") // of its own: another session's end would be counted too
			admin := g.direct()
			do := func(text string) any { return admin.Do(t.Context(), anys(text)...).Val() }
			do("ACL SETUSER app on >secret +client|id +client|setname +hello +subscribe &*")
			r, monitor := g.raw(), dialRaw(t, g.server.Addr())
			r.send("AUTH app secret\r\nFENCE orders 5\r\n" + enter)
			r.expect("+OK", "+OK")
			for range strings.Count(enter, "\r\n") {
				r.reply()
			}
			monitor.send("MONITOR\r\n")
			monitor.expect("+OK")
			do("CONFIG RESETSTAT")
			do("SLOWLOG RESET")
			do("ACL LOG RESET")
			r.send("FLUSHALL\r\n")
			r.expect("-NOTALLOWED")

			if got := counted.FindAllString(do("INFO everything").(string), -1); !slices.Equal(got, []string{"total_error_replies:1", "errorstat_ERR:count=1"}) {
				t.Errorf("counted: %q", got)
			}
			if denied := do("ACL LOG").([]any); len(denied) > 0 {
				t.Errorf("the log of denials has %v", denied)
			}
			slow := admin.SlowLogGet(t.Context(), -1).Val()
			do("ECHO the-end")
			seen := monitor.until("the-end\"\r\n")
			for _, entry := range slow {
				seen += strings.Join(entry.Args, " ") + "\n"
			}
			if strings.Contains(seen, "RINGFENCE") || strings.Contains(seen, "FLUSHALL") || !strings.Contains(seen, "RESET") {
				t.Errorf("MONITOR and SLOWLOG show %s", seen)
			}
		})
	}
}

// counted is what INFO counts of errors, and of commands that this test does not send.
var counted = regexp.MustCompile(`(?m)^(total_error_replies:\d+|errorstat_[^,\r]+|cmdstat_(client|hello|auth|echo|ping|flush|eval)[^:]*)`)
