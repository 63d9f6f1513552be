package pglex

import (
	"slices"
	"strings"
	"testing"
)

// FuzzLexer checks that tokens come in the order of the text, that only blanks and comments are
// between them, and that a statement behind the text is found.
func FuzzLexer(f *testing.F) {
	for _, text := range []string{
		"select 1; commit", "/* /* */ */ begin", "$a$ commit; $b$ $a$; end", `e'\'' ; abort`,
		"e'a'\n'\\'' ; abort",
		"'it''s'; rollback to a", `"a""b"`, `u&"a" uescape '!'`, "b'1'x'f'n'a'", "1e'x'", "1.5e10.a",
		"$1a $$ $",
		"create function f() returns int begin atomic select case when true then 1 end; end; select 1",
		"select $1, a$b$c", "--", "/*", "'", "$$", "e'\\", "\"", "ÄÖ 'ü'", "'\\'; x'",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		l := New(text)
		end := 0
		for token := range l.Tokens() {
			if token.At < end || token.At >= l.at || !blanks(text[end:token.At]) {
				t.Fatalf("after %d: %+v", end, token)
			}
			if token.Text != "" && strings.Map(lower, text[token.At:l.at]) != token.Text {
				t.Fatalf("%+v is not in the text", token)
			}
			end = l.at
		}
		if l.Unended != nil {
			if at := l.Unended.At; at < 0 || at >= len(text) {
				t.Fatalf("%+v", *l.Unended)
			}
			return
		}
		if !blanks(text[end:]) {
			t.Fatalf("%q is left over", text[end:])
		}
		more := slices.Collect(New(text + "\n;commit").Tokens())
		if n := len(more); n < 2 || !more[n-2].Is(Character, ";") || !more[n-1].Is(Word, "commit") {
			t.Fatalf("COMMIT is not found: %+v", more)
		}
	})
}

// blanks reports whether a text is nothing but blanks and comments.
func blanks(text string) bool {
	l := New(text)
	l.blank()
	return l.at == len(text) && l.Unended == nil
}

func TestWhatDoesNotEndIsFound(t *testing.T) {
	for text, want := range map[string]bool{
		"e'a' /*": true, "$a$ $b$": true, "/* /* */": true, `"a""`: true, `e'a\'`: true,
		"e'a'\n'\\'": true,
		`'a\'`:       false, `"a\"`: false, "e'a', 'c'": false, "1e'a'": false, "a, $ b": false,
	} {
		l := New(text)
		for range l.Tokens() {
		}
		if (l.Unended != nil) != want {
			t.Errorf("%q: unended %+v", text, l.Unended)
		}
	}
}
