// Package docs checks the prose of the repository: links that lead nowhere, settings that do not
// exist, and a README that grows.
package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/internal/test/must"
)

const (
	root      = "../../.."
	maxReadme = 150 // lines
)

// link is a Markdown link or picture.
var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

func TestLinksLeadSomewhere(t *testing.T) {
	for _, file := range pages(t) {
		for _, l := range link.FindAllStringSubmatch(read(t, file), -1) {
			if err := check(t, file, l[1]); err != "" {
				t.Errorf("%s: %s: %s", file, l[1], err)
			}
		}
	}
}

func TestTheReadmeCanBeFinished(t *testing.T) {
	if n := strings.Count(read(t, filepath.Join(root, "README.md")), "\n"); n > maxReadme {
		t.Errorf("README.md has %d lines, %d are allowed: the rest belongs into docs", n, maxReadme)
	}
}

// setting is a name such as GUARD_COORDINATOR, but not GUARD_….
var setting = regexp.MustCompile(`\b(?:GUARD|LEADER)(?:_[A-Z]+)+\b`)

func TestSettingsExist(t *testing.T) {
	texts := map[string]string{ // by the prefix of the settings that it has, without it
		"GUARD_": read(t, filepath.Join(root, "cmd/guard/texts.go")) +
			read(t, filepath.Join(root, "cmd/guard/protocols.go")),
		"LEADER_": read(t, filepath.Join(root, "cmd/leader/texts.go")),
	}
	guards, err := filepath.Glob(filepath.Join(root, "internal/guard/*guard/settings.go"))
	if err != nil || len(guards) < 2 {
		t.Fatalf("%q, %v", guards, err)
	}
	for _, file := range guards { // whose Settings have a comment that names their prefix
		text := read(t, file)
		texts[regexp.MustCompile(`GUARD_[A-Z]+_`).FindString(text)] = text
	}
	exists := func(name string) bool {
		for prefix, text := range texts {
			short, of := strings.CutPrefix(name, prefix)
			if of && (strings.Contains(text, `"`+name+`"`) || strings.Contains(text, `"`+short+`"`)) {
				return true
			}
		}
		return false
	}
	packaged, err := filepath.Glob(filepath.Join(root, "packaging/*"))
	if err != nil || len(packaged) == 0 {
		t.Fatalf("%q, %v", packaged, err)
	}
	for _, file := range append(pages(t), packaged...) {
		if filepath.Base(file) == "CHANGELOG.md" {
			continue // it also names settings of the past
		}
		for _, name := range setting.FindAllString(read(t, file), -1) {
			// The server that has a name in our examples has the settings of one without.
			name = strings.Replace(name, "_ARCHIVE_", "_", 1)
			if !exists(name) {
				t.Errorf("%s: there is no setting %s", file, name)
			}
		}
	}
}

// pages are all Markdown files but those of test data and runs.
func pages(t *testing.T) (all []string) {
	t.Helper()
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "lab/*.md",
		"examples/*/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		must.Succeed(t, err)
		all = append(all, found...)
	}
	if len(all) < 8 {
		t.Fatalf("only %d pages were found: %q", len(all), all)
	}
	return all
}

func read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	must.Succeed(t, err)
	return string(b)
}

// check says what is wrong with a link. Other sites are not asked.
func check(t *testing.T, file, target string) string {
	if strings.Contains(target, "://") {
		return ""
	}
	path, anchor, _ := strings.Cut(target, "#")
	if path == "" {
		path = filepath.Base(file)
	}
	path = filepath.Join(filepath.Dir(file), path)
	if _, err := os.Stat(path); err != nil {
		return "there is no such file"
	}
	if anchor != "" && !slices.Contains(anchors(read(t, path)), anchor) {
		return "there is no such heading"
	}
	return ""
}

var notInAnchor = regexp.MustCompile(`[^\p{L}\p{N} _-]`)

// anchors are those that GitHub gives to the headings of a page.
func anchors(page string) (all []string) {
	for line := range strings.Lines(page) {
		if title := strings.TrimLeft(line, "#"); title != line && strings.HasPrefix(title, " ") {
			title = notInAnchor.ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), "")
			all = append(all, strings.ReplaceAll(title, " ", "-"))
		}
	}
	return all
}
