// Package settings reads a command's settings from the environment into a struct, and prints them:
// in its help, and with secrets masked in its log. The struct's tags name the variables, and a
// table describes them:
//
//	type config struct {
//		Listen  string          `env:"GUARD_LISTEN,required"`
//		Timeout time.Duration   `env:"GUARD_TIMEOUT" envDefault:"10s"`
//		Key     settings.Secret `env:"GUARD_KEY"` // never printed
//		Name    string          `env:"GUARD_NAME"`
//		Store   settings.URL    `env:"GUARD_STORE"` // its password is never printed
//	}
//
//	func (*config) Texts() settings.Texts {
//		return settings.Texts{
//			"GUARD_LISTEN": {Meaning: "address to listen on"},
//			"GUARD_NAME":   {Meaning: "who this is", Default: "the host name"},
//			…
//		}
//	}
//
// An empty variable counts as unset: it has its default, or is missing if it is required. A type
// can parse itself with encoding.TextUnmarshaler. Nested structs are read too, with their envPrefix
// tag.
//
// A program with several commands says by a tag what a setting is for, also of a nested struct:
//
//	Listen string `env:"GUARD_LISTEN" use:"serving"`
//
// A command then loads what it uses. What is wrong with other settings does not stop it.
//
// A setting may name groups of further settings (Grouped): NAMES=a,b for A_URL and B_URL.
package settings
