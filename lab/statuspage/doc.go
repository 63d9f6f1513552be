// Package statuspage tests the status page of a guard: the program guard, in front of a real
// Postgres and a real Redis, read in headless Chromium.
package statuspage
