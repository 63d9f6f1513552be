// Package settings reads a command's settings from the environment into a struct, and prints them: in its help, and
// with secrets masked in its log. The struct's tags are the only place where a setting is described:
//
//	type config struct {
//		Listen  string        `env:"GUARD_LISTEN,required" help:"address to listen on"`
//		Timeout time.Duration `env:"GUARD_TIMEOUT" envDefault:"10s" help:"how long to wait"`
//		Key     string        `env:"GUARD_KEY" secret:"true" help:"never printed"`
//		Name    string        `env:"GUARD_NAME" defaultText:"the host name" help:"who this is"`
//		Store   settings.URL  `env:"GUARD_STORE" help:"its password is never printed"`
//	}
//
// A variable that is set to nothing counts as unset: it has its default, or is missing when it is required. A type can
// read itself with encoding.TextUnmarshaler. Structs inside the struct are read too, with their envPrefix tag.
package settings
