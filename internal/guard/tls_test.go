package guard

import (
	"fmt"
	"testing"
)

func TestACertificateAllowsItsUserAlone(t *testing.T) {
	for _, test := range []struct {
		only OneUser
		want string // whether it allows app and the empty name; whether it is everybody, nobody
	}{
		{OneUser{}, "true true true false"},
		{Only("app"), "true false false false"},
		{Only("App"), "false false false false"},
		{Only("application"), "false false false false"},
		{Only(""), "false false false true"},
	} {
		u := test.only
		if got := fmt.Sprint(u.Allows("app"), u.Allows(""), u.Everybody(), u.Nobody()); got != test.want {
			t.Errorf("%#v: %s, want %s", u, got, test.want)
		}
	}
}
