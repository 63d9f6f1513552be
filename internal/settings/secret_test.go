package settings

import (
	"fmt"
	"strings"
	"testing"
)

func TestASecretIsNotShown(t *testing.T) {
	s := struct{ Token Secret }{"s3cret"}
	text, err := s.Token.MarshalText()
	if shown := fmt.Sprintf("%v %+v %#v %s %s %v", s, s, s, s.Token, text,
		err); strings.Contains(shown, "s3cret") {
		t.Error(shown)
	}
	if s.Token.Reveal() != "s3cret" || Secret("").String() != "" {
		t.Error("the secret is changed")
	}
}
