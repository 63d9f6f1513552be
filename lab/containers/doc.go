// Package containers is a system under test that docker compose builds from this repository's
// compose.yaml.
//
// The compose program creates and removes containers. Everything else goes through the engine's
// API: pause, kill, signals, logs, copies of data, and disconnecting a worker from a network. Each
// run has its own project, subnet and ports, so runs do not disturb each other or a system in use.
// An overlay in the run's directory has the settings for which compose.yaml has no variables, such
// as those of guards and the ports at which the lab itself reaches guards.
//
// How a Shape acts on a link:
//
//	HoldUp, HoldDown and Refuse   the worker is disconnected from the network, and connected again at
//	                              the same address: open connections continue, and TCP delivers what
//	                              was sent meanwhile. If another link uses the same network, packets
//	                              are dropped instead
//	one of them                   packets in that direction are dropped in the process's network
//	                              (iptables); with only HoldUp or HoldDown, connections can be made
//	Break                         toxiproxy ends connections and closes its port
//	Delay                         toxiproxy, each way
//	Loss                          packets in both directions are dropped at random (iptables, or tc)
//
// With Topology.StoreLinks, guards also reach the coordinator, Postgres and Redis over toxiproxy.
// The upstream of each link to Postgres and Redis is a separate port, and a rule of address
// translation in toxiproxy's network says which server that is. Turn and SwitchOver change the
// rules: new connections follow, and the kernel keeps open ones where they are.
//
// With elections in etcd or Postgres, compose.etcd.yaml or compose.postgres.yaml is added to
// compose.yaml. The lab then starts no ZooKeeper.
//
// The disks of Postgres and etcd are copied through the engine while their processes are paused,
// those of ZooKeeper while it runs. Restore creates new containers with the copies in them;
// postgres-2 and elections-2 start from such copies. Wipe creates new containers with empty disks.
// Lose and Rebuild do so with one server of the coordinator, which gets the old one's addresses.
//
// When the first process of a container is killed, the engine kills all its processes. So only
// package local can show what a command leaves behind when leader run is killed (Behead).
package containers
