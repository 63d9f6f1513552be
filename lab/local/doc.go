// Package local is a system under test of processes of this machine: real servers, the product's
// own programs, and links that are relays in the lab's process.
package local
