package pgguard

import (
	"fmt"
	"strings"
	"testing"
)

// Twice the bytes of a startup packet cost about twice the time, however many words they are.
func BenchmarkParseOptions(b *testing.B) {
	for _, bytes := range []int{1000, 2000, 4000, 9000} {
		for name, word := range map[string]string{
			"switches": "-e ", "settings": "-c a=b ", "quoted": `-c\ a=b `,
		} {
			options := strings.Repeat(word, bytes/len(word))
			b.Run(fmt.Sprintf("%s/%d", name, bytes), func(b *testing.B) {
				b.SetBytes(int64(len(options)))
				for b.Loop() {
					_, _ = parseOptions(options)
				}
			})
		}
	}
}
