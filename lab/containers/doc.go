// Package containers is a system under test made by docker compose from the compose.yaml of this repository.
//
// The compose program makes and removes containers; everything else is done through the engine's API: pause, kill, signals,
// logs, and taking a worker off a network. A run has a project, a subnet and ports of its own, so runs and a system that
// somebody works with do not meet.
//
// What becomes of a link, by the Shape that is asked for:
//
//	HoldUp, HoldDown and Refuse   the worker is taken off the network, and put back with the same address: open
//	                              connections go on, and TCP delivers what was sent meanwhile
//	one of them                   packets in that direction are dropped in the worker's network (iptables)
//	Delay                         toxiproxy, each way
//	Loss                          packets of both directions are dropped at random (iptables; tc where it cannot)
//
// A container is its first process: when that is killed all others are, so what a command leaves behind when leader run is
// killed (Behead) can be seen with package local alone.
package containers
