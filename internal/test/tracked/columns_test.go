package tracked

import (
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// columns is how wide a line may be. A tab counts as one.
const columns = 100

// Lines of Go and Markdown that can be broken are. What is printed as it stands cannot: a raw
// string, preformatted text, a table, an address.
func TestLinesFitTheirColumns(t *testing.T) {
	for _, file := range tracked(t, "*.go", "*.md") {
		b, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		text := string(b)
		asItStands := preformatted
		if strings.HasSuffix(file, ".go") {
			asItStands = rawStrings
		}
		exempt := asItStands(text)
		for i, line := range strings.Split(text, "\n") {
			if utf8.RuneCountInString(line) > columns && !exempt[i] {
				t.Errorf("%s:%d has %d columns", file, i+1, utf8.RuneCountInString(line))
			}
		}
	}
}

var (
	comment = regexp.MustCompile(`^\t*//(\t|go:)`) // preformatted text, or a directive
	oneWord = regexp.MustCompile(`^\s*(// |- )?\S+$`)
	table   = regexp.MustCompile(`^\s*\||^#|^!\[`)
)

// rawStrings returns the lines of a Go file that stand as they are, counted from 0.
func rawStrings(text string) map[int]bool {
	exempt := map[int]bool{}
	for i, line := range strings.Split(text, "\n") {
		exempt[i] = comment.MatchString(line) || oneWord.MatchString(line)
	}
	file := token.NewFileSet().AddFile("", 1, len(text))
	var s scanner.Scanner
	s.Init(file, []byte(text), nil, 0)
	for {
		pos, t, literal := s.Scan()
		if t == token.EOF {
			return exempt
		}
		if t == token.STRING && literal[0] == '`' {
			first := file.Line(pos) - 1
			for i := range strings.Count(literal, "\n") + 1 {
				exempt[first+i] = true
			}
		}
	}
}

// preformatted returns the lines of a page that stand as they are, counted from 0.
func preformatted(text string) map[int]bool {
	exempt := map[int]bool{}
	fenced := false
	for i, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
		}
		exempt[i] = fenced || table.MatchString(line) || oneWord.MatchString(line)
	}
	return exempt
}
