// Package containers is a system under test made by docker compose from the compose.yaml of this repository.
package containers
