package fence_test

import (
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/fence"
)

func TestParseTokenTakesDecimalOnly(t *testing.T) {
	for _, c := range []struct {
		in   string
		want fence.Token // 0: refused
	}{
		{"1", 1},
		{"42", 42},
		{"9007199254740993", 1<<53 + 1}, // a float64 cannot hold it
		{"9223372036854775807", math.MaxInt64},

		{"", 0},
		{"0", 0},
		{"00", 0},
		{"007", 0},
		{"-1", 0},
		{"+5", 0},
		{" 5", 0},
		{"5 ", 0},
		{"5\n", 0},
		{"5_000", 0},
		{"0x10", 0},
		{"1e3", 0},
		{"1.0", 0},
		{"five", 0},
		{"५", 0}, // a digit, but not an ASCII one
		{"9223372036854775808", 0},
		{"18446744073709551617", 0}, // 1 when cut to 64 bits
		{strings.Repeat("9", 1<<20), 0},
	} {
		got, err := fence.ParseToken(c.in)
		switch {
		case c.want != 0 && (err != nil || got != c.want):
			t.Errorf("ParseToken(%.40q) = %v, %v; want %v", c.in, got, err, c.want)
		case c.want == 0 && !errors.Is(err, fence.ErrBadToken):
			t.Errorf("ParseToken(%.40q) = %v, %v; want ErrBadToken", c.in, got, err)
		case c.want == 0 && got != 0:
			t.Errorf("ParseToken(%.40q) = %v beside its error; want 0", c.in, got)
		}
	}
}

func TestAHostileTokenCannotFloodALog(t *testing.T) {
	_, err := fence.ParseToken(strings.Repeat("9", 1<<20))
	if n := len(err.Error()); n > 200 {
		t.Errorf("the error is %d bytes long", n)
	}
}

func TestTokenSurvivesJSONAbove53Bits(t *testing.T) {
	type doc struct {
		Token fence.Token `json:"token"`
	}
	for _, want := range []fence.Token{0, 1, 1 << 53, 1<<53 + 1, math.MaxInt64} {
		b, err := json.Marshal(doc{want})
		if err != nil {
			t.Fatal(err)
		}
		if text := `{"token":"` + strconv.FormatInt(int64(want), 10) + `"}`; string(b) != text {
			t.Errorf("token %d is written as %s; want %s", want, b, text)
		}
		var got doc
		if err := json.Unmarshal(b, &got); err != nil || got.Token != want {
			t.Errorf("token %d comes back as %d, %v", want, got.Token, err)
		}
	}
}

func TestTokenIsNotReadFromAJSONNumber(t *testing.T) {
	var token fence.Token
	for _, in := range []string{`9007199254740993`, `"-1"`, `"00"`, `""`, `"x"`} {
		if err := json.Unmarshal([]byte(in), &token); err == nil {
			t.Errorf("%s is taken as token %d", in, token)
		}
	}
}

func TestLaterTokensCompareHigher(t *testing.T) {
	for _, c := range []struct {
		a, b fence.Token
		want int
	}{{9, 10, -1}, {10, 10, 0}, {10, 9, 1}, {1 << 53, 1<<53 + 1, -1}, {0, math.MaxInt64, -1}} {
		if got := c.a.Compare(c.b); got != c.want {
			t.Errorf("%v.Compare(%v) = %d; want %d", c.a, c.b, got, c.want)
		}
	}
}

// Every accepted token is positive and is written exactly as it was read, so a token has one text
// form. Every refusal is ErrBadToken.
func FuzzParseToken(f *testing.F) {
	for _, seed := range []string{"1", "0", "", "007", "+5", "-1", " 5", "9223372036854775807",
		"9223372036854775808", "x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		token, err := fence.ParseToken(s)
		if err != nil {
			if !errors.Is(err, fence.ErrBadToken) || token != 0 {
				t.Fatalf("ParseToken(%q) = %d, %v", s, token, err)
			}
			return
		}
		if token <= 0 || token.String() != s {
			t.Fatalf("ParseToken(%q) = %d, which is written %q", s, token, token)
		}
		var back fence.Token
		if b, err := token.MarshalText(); err != nil || back.UnmarshalText(b) != nil || back != token {
			t.Fatalf("%q does not survive its text form", s)
		}
	})
}
