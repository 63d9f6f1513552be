// Package systemd talks to the service manager that has started this process: it takes over
// listening sockets (sd_listen_fds(3)), and says when the process is ready, reloads, stops and
// lives (sd_notify(3)).
//
//	sockets, err := systemd.Inherited(os.Environ())
//	defer sockets.Close()
//	listener, err := sockets.Listener("postgres") // FileDescriptorName= in the .socket unit
//	manager, err := systemd.Connect(os.Environ())
//	defer manager.Close()
//	manager.Ready("serving")
//
// The socket belongs to the service manager. So it stays open while the process is restarted, and
// clients that connect meanwhile wait until the next process accepts them.
//
// Without a service manager there are no sockets, and all messages go nowhere. Any other manager
// that keeps to these two protocols will do.
package systemd
