package pgdefaults

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// statement matches what is sent to a server, and not a text for people.
var statement = regexp.MustCompile(
	`(?is)\bselect\b.*\bfrom\b|^\s*(select|with|set|begin|insert into|update|delete from|create|alter|do|grant|revoke|drop|listen)\s`,
)

// Some encodings of databases have few characters beside ASCII, and SQL in them would not be
// understood.
func TestSQLIsInASCII(t *testing.T) {
	files := 0
	for _, folder := range []string{"fence", "store", "checkpoint", "internal", "cmd"} {
		err := filepath.WalkDir("../../../../"+folder, func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil || d.IsDir() && d.Name() == "testdata":
				return filepath.SkipDir
			case strings.HasSuffix(path, ".sql"):
				files++
				text, err := os.ReadFile(path)
				inASCII(t, path, string(text))
				return err
			case strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go"):
				return literals(path, func(at token.Position, text string) {
					if statement.MatchString(text) {
						files++
						inASCII(t, at.String(), text)
					}
				})
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if files < 50 {
		t.Errorf("only %d texts were found", files)
	}
}

func inASCII(t *testing.T, where, text string) {
	t.Helper()
	for _, r := range text {
		if r >= utf8.RuneSelf {
			t.Errorf("%s: SQL with %q", where, r)
		}
	}
}

// literals calls each with every string of a Go file.
func literals(path string, each func(token.Position, string)) error {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
			each(set.Position(l.Pos()), strings.Trim(l.Value, "`\""))
		}
		return true
	})
	return nil
}
