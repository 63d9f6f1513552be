package logging

import (
	"context"
	"log/slog"
	"slices"
)

// distinct leaves out of a line what its logger adds to each line: packages that do not know the
// logger name the resource themselves.
type distinct struct {
	slog.Handler
	said []slog.Attr
}

// Handle implements slog.Handler.
func (h distinct) Handle(ctx context.Context, r slog.Record) error {
	line := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	r.Attrs(func(a slog.Attr) bool {
		if !h.says(a) {
			line.AddAttrs(a)
		}
		return true
	})
	return h.Handler.Handle(ctx, line)
}

// says reports whether the logger itself says the same under this name.
func (h distinct) says(a slog.Attr) bool {
	return slices.ContainsFunc(h.said, func(said slog.Attr) bool {
		return said.Key == a.Key && said.Value.Resolve().String() == a.Value.Resolve().String()
	})
}

// WithAttrs implements slog.Handler.
func (h distinct) WithAttrs(attrs []slog.Attr) slog.Handler {
	attrs = slices.DeleteFunc(slices.Clone(attrs), h.says)
	return distinct{h.Handler.WithAttrs(attrs), slices.Concat(h.said, attrs)}
}

// WithGroup implements slog.Handler. The names in a group are others.
func (h distinct) WithGroup(name string) slog.Handler { return h.Handler.WithGroup(name) }
