// Package containers is a system under test made by docker compose from the compose.yaml of this repository.
//
// The compose program makes and removes containers; everything else is done through the engine's API: pause, kill, signals,
// logs, copies of data, and taking a worker off a network. A run has a project, a subnet and ports of its own, so runs and
// a system that somebody works with do not meet. What compose.yaml's variables cannot say, such as guards' settings and the
// ports where the lab itself reaches guards, is in an overlay in the run's directory.
//
// What becomes of a link, by the Shape that is asked for:
//
//	HoldUp, HoldDown and Refuse   the worker is taken off the network, and put back with the same address: open
//	                              connections go on, and TCP delivers what was sent meanwhile. A link that shares its
//	                              network with another one is cut by dropping packets
//	one of them                   packets in that direction are dropped in the process's network (iptables); with HoldUp
//	                              or HoldDown alone connections can still be made
//	Delay                         toxiproxy, each way
//	Loss                          packets of both directions are dropped at random (iptables; tc where it cannot)
//
// With Topology.StoreLinks guards reach Postgres and Redis over toxiproxy too. Each link has a port of its own there as its
// upstream, and a rule of address translation in toxiproxy's network says which server that is. Turn and SwitchOver change
// the rules: new connections follow, and the kernel keeps open ones where they are.
//
// The disk of Postgres is copied through the engine while its processes stand still. Restore makes the container anew with
// the copy in it; postgres-2 starts from such a copy.
//
// A container is its first process: when that is killed all others are, so what a command leaves behind when leader run is
// killed (Behead) can be seen with package local alone.
package containers
