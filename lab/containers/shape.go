package containers

import (
	"context"
	"fmt"
	"strings"

	"github.com/ringfence/ringfence/lab/scenario"
	"github.com/ringfence/ringfence/lab/system"
)

// Shape implements system.System. The rules in a process's network are lost when the process ends;
// Start sets them again.
func (s *System) Shape(ctx context.Context, process, peer string, shape system.Shape) error {
	l, err := s.settings.link(s.build.Topology, process, peer)
	if err != nil {
		return err
	}
	if shape.LoseEnds || shape.Port != 0 {
		return fmt.Errorf("containers cannot do that to a link: %+v", shape)
	}
	s.shaping.Lock()
	defer s.shaping.Unlock()
	key := ends{process, peer}
	before := s.shapes[key]
	s.shapes[key] = shape
	if err := s.delay(l, before, shape); err != nil {
		return fmt.Errorf("the delay between %s and %s: %w", process, peer, err)
	}
	if err := s.interrupt(l, before, shape); err != nil {
		return fmt.Errorf("the link between %s and %s: %w", process, peer, err)
	}
	return s.reshape(ctx, l, before, shape)
}

// ends are the ends of a link.
type ends struct{ process, peer string }

// reshape cuts or heals the link, and sets which packets are dropped.
func (s *System) reshape(ctx context.Context, l link, before, now system.Shape) error {
	if was, is := s.isCut(before, l), s.isCut(now, l); was != is {
		change := s.join
		if is {
			change = s.leave
		}
		if err := change(ctx, l.process, l.network); err != nil {
			return err
		}
	}
	was, is := s.drops(before, l), s.drops(now, l)
	if was == is {
		return nil
	}
	running, err := s.running(ctx, l.process)
	if err != nil || !running {
		return err
	}
	if out, err := s.netfault(ctx, l.process, is.script(l)); err != nil {
		return fmt.Errorf("the link between %s and %s cannot be shaped: %w: %s",
			l.process, l.peer, err, strings.TrimSpace(out))
	}
	return nil
}

// again shapes the links of a process that was started. Its network is as in compose.yaml, but
// unless the container is new (made), it is still disconnected where it was before.
func (s *System) again(ctx context.Context, process string, made bool) error {
	s.shaping.Lock()
	defer s.shaping.Unlock()
	for key, shape := range s.shapes {
		if key.process != process {
			continue
		}
		l, err := s.settings.link(s.build.Topology, process, key.peer)
		if err != nil {
			return err
		}
		before := system.Shape{}
		if s.isCut(shape, l) && !made {
			before = shape
		}
		if err := s.reshape(ctx, l, before, shape); err != nil {
			return err
		}
	}
	return nil
}

// isCut reports whether the worker is disconnected from the network. If another link uses the same
// network, it stays connected, and packets are dropped.
func (s *System) isCut(shape system.Shape, l link) bool {
	shared := l.network == "" || l.network == "data" && s.build.Workload.Kind == scenario.Tasks
	return shape.HoldUp && shape.HoldDown && shape.Refuse && !shared
}

// drops are the packets of a link that are dropped.
type drops struct {
	up, down, first bool // first: of a connection
	loss            float64
}

func (s *System) drops(shape system.Shape, l link) drops {
	if s.isCut(shape, l) {
		return drops{}
	}
	return drops{up: shape.HoldUp, down: shape.HoldDown, first: shape.Refuse, loss: shape.Loss}
}

// noLoss is what the script prints if the kernel cannot drop packets at random.
const noLoss = "this kernel cannot drop packets at random: it has neither the iptables match " +
	"statistic (xt_statistic) nor the queue netem (sch_netem)"

// later drops all packets of a connection but the first one of each end: connections can be made,
// but no data passes.
const later = "! --tcp-flags SYN SYN -j DROP"

// script sets the rules of a link, in separate chains. It prefers iptables for random loss, which
// then hits both directions of only this link; netem hits everything sent on the network.
func (d drops) script(l link) string {
	var b strings.Builder
	up, down := "lab-"+l.peer+"-up", "lab-"+l.peer+"-down"
	b.WriteString("set -e\n")
	for _, chain := range [][2]string{{up, "OUTPUT"}, {down, "INPUT"}} {
		fmt.Fprintf(&b, "iptables -w -N %[1]s 2>/dev/null || iptables -w -F %[1]s\n", chain[0])
		fmt.Fprintf(&b, "iptables -w -C %[2]s -j %[1]s 2>/dev/null || "+
			"iptables -w -A %[2]s -j %[1]s\n", chain[0], chain[1])
	}
	fmt.Fprintf(&b, "dev=$(ip -o -4 route get %s | sed 's/.* dev \\([^ ]*\\).*/\\1/')\n", l.address)
	b.WriteString("tc qdisc del dev \"$dev\" root netem 2>/dev/null || true\n")
	for _, p := range l.ports {
		to := fmt.Sprintf("iptables -w -A %s -d %s -p tcp --dport %s", up, l.address, p)
		from := fmt.Sprintf("iptables -w -A %s -s %s -p tcp --sport %s", down, l.address, p)
		if d.up {
			fmt.Fprintln(&b, to, later)
		}
		if d.down {
			fmt.Fprintln(&b, from, later)
		}
		if d.first {
			fmt.Fprintln(&b, to, "--syn -j DROP")
		}
		if d.loss > 0 {
			chance := fmt.Sprintf("-m statistic --mode random --probability %.4f -j DROP", d.loss)
			fmt.Fprintf(&b, "{ %s %s && %s %s; } ||", to, chance, from, chance)
			fmt.Fprintf(&b, " tc qdisc replace dev \"$dev\" root netem loss %.2f%% ||"+
				" { echo '%s'; exit 1; }\n", 100*d.loss, noLoss)
		}
	}
	return b.String()
}
