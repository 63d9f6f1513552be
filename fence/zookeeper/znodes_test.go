package zookeeper

import (
	"strings"
	"testing"

	"github.com/ringfence/ringfence/fence"
)

func TestForeignNamesAreNoCandidates(t *testing.T) {
	t.Parallel()
	id := strings.Repeat("0123456789abcdef", 2)
	for name, want := range map[string]bool{
		"c-" + id + "-0000000007":                true,
		"c-" + id + "--2147483648":               true, // the server's counter wraps
		"c-" + string(newGUID()) + "-2147483647": true,

		"": false, "c": false, "c-": false, "c--": false, "c-7": false, "leader": false,
		"c-" + id:                                  false,
		"c-" + id + "-":                            false,
		"c-" + id + "-x":                           false,
		"c-" + id + "-+7":                          false,
		"c-" + id + "-2147483648":                  false,
		"c-" + id[1:] + "-0000000":                 false,
		"c-" + id + "0-0000000007":                 false,
		"c-" + strings.ToUpper(id) + "-0000000007": false,
		"_c_" + id + "-lock-0000000007":            false,
		"_c_":                                      false,
	} {
		if _, got := guidIn(name); got != want {
			t.Errorf("%q is a candidate: %v; want %v", name, got, want)
		}
	}
}

func TestForeignDataIsTheZeroValue(t *testing.T) {
	t.Parallel()
	for _, data := range []string{"", "x", "null", `{"holder":7}`, `{"token":9007199254740993}`,
		`[]`, "\xff"} {
		if got := parse[acknowledgement]([]byte(data)); got != (acknowledgement{}) {
			t.Errorf("%q is read as %+v", data, got)
		}
	}
	want := acknowledgement{fence.Token(1<<53 + 1), "a"}
	if got := parse[acknowledgement](encode(want)); got != want {
		t.Errorf("%+v comes back as %+v", want, got)
	}
}

func TestIssuersAreUUIDs(t *testing.T) {
	t.Parallel()
	id := newUUID()
	if got, err := parseIssuer("/x", []byte(id)); err != nil || string(got) != "zk:"+id {
		t.Errorf("%q is read as %q, %v", id, got, err)
	}
	if len(id) != uuidLength || id[14] != '4' || id == newUUID() {
		t.Errorf("%q is no random UUID", id)
	}
	for _, bad := range []string{"", "x", strings.Repeat("z", uuidLength), id + "0"} {
		if _, err := parseIssuer("/x", []byte(bad)); err == nil {
			t.Errorf("%q is taken for an issuer", bad)
		}
	}
}

func TestSequenceNumbersHintAtTheOrderAlsoWhenTheyWrap(t *testing.T) {
	t.Parallel()
	name := func(sequence string) string { return "c-0123456789abcdef0123456789abcdef-" + sequence }
	in := []string{name("0000000009"), name("0000000010"), name("2147483647"), name("-2147483648"),
		name("-2147483647")}
	for i, one := range in[:len(in)-1] {
		if next := in[i+1]; !seemsOlder(one, next) || seemsOlder(next, one) || seemsOlder(one, one) {
			t.Errorf("%s and %s: %t, %t", one, next, seemsOlder(one, next), seemsOlder(next, one))
		}
	}
}
