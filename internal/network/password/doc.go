// Package password reads passwords that change while a program runs: from a file that somebody
// replaces, or from a command that prints one. A URL names either:
//
//	postgres://guard@db/shop?password_file=/run/secrets/guard
//	redis://guard@cache:6379/0?password_command=redis-token%20guard
//
//	source, err := password.Cut(query) // and removes the option
//	err = source.Login(ctx, refused, func(password string) error { … })
//
// The password is read again for each new connection, so connections that exist are not affected.
//
// File and server change one after the other, in either order, and a login between the two is
// refused. So a Source logs in again for some seconds, each time with what the file or the command
// says then. If the server still refuses, the password is wrong: from then on a refusal counts at
// once, until there is another password.
//
// The command is split at white space, which a URL has as %20, and runs without a shell: images of
// containers often have none, and a shell would read quotes and dollar signs in a value that is
// percent-encoded already. Whoever needs more names a script. Its output is never logged.
package password
