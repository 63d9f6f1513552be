// Package units tests the packaged units under systemd's own rules: a manager of units of this
// machine's systemd, as each logged-in user has one, runs them with everything that they ask for
// but the user.
package units
