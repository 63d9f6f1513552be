package docs

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/internal/test/must"
)

// For a file with one example and other declarations, go doc and pkg.go.dev show the whole file,
// with its imports.
func TestEveryPublicPackageHasAWholeProgramAsExample(t *testing.T) {
	for _, room := range []string{"fence", "store", "checkpoint", "jobs"} {
		err := filepath.WalkDir("../../../"+room, func(dir string, d os.DirEntry, err error) error {
			if err != nil || !d.IsDir() {
				return err
			}
			if d.Name() == "internal" || strings.HasSuffix(d.Name(), "test") {
				return filepath.SkipDir
			}
			code, err := filepath.Glob(dir + "/*.go")
			if err == nil && len(code) > 0 && !hasWholeProgram(t, dir) {
				t.Errorf("%s has no file of one example and what it needs", dir)
			}
			return err
		})
		must.Report(t, err)
	}
}

func hasWholeProgram(t *testing.T, dir string) bool {
	t.Helper()
	files, err := filepath.Glob(dir + "/*_test.go")
	must.Succeed(t, err)
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		must.Succeed(t, err)
		for _, example := range doc.Examples(parsed) {
			if _, whole := example.Code.(*ast.File); whole {
				return true
			}
		}
	}
	return false
}
