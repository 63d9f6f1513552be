package scenario

// RandomFaults are the faults that a random scenario draws from. Faults that change the meaning of
// marks (a wiped coordinator) need an operator, and have separate scenarios.
var RandomFaults = []Fault{
	pauseLeader,
	{Do: Pause, On: "leader", For: 500 * ms},
	{Do: Stop, On: "leader", Until: NextLeader},
	{Do: Kill, On: "leader", Until: NextLeader},
	{Do: Cut, On: "leader", Link: "coordinator", Until: NextLeader},
	{Do: Cut, On: "leader", Link: "guard", Until: NextLeader},
	{Do: Hold, On: "leader", Link: "coordinator", Direction: "up", Until: NextLeader},
	{Do: Hold, On: "leader", Link: "coordinator", Direction: "down", Until: NextLeader},
	Fault{Do: Hold, On: "leader", Link: "guard", Direction: "up", Until: NextLeader}.
		with(Fault{Do: Depose, On: "leader", After: 200 * ms}),
	Fault{Do: Inside, On: "leader"}.with(pauseLeader),
	Fault{Do: Pause, On: "guard of leader", For: 2 * sec}.
		with(Fault{Do: Depose, On: "leader", After: 200 * ms}),
	{Do: Kill, On: "guard of leader", For: 500 * ms},
	{Do: Kill, On: "postgres", For: 300 * ms},
	{Do: Pause, On: "postgres", For: 1200 * ms},
	{Do: Restart, On: "postgres"},
	{Do: Kill, On: "redis", For: 300 * ms},
	{Do: Pause, On: "redis", For: 1200 * ms},
	{Do: Kill, On: "coordinator leader", For: sec},
	{Do: Pause, On: "coordinator follower", For: 2 * sec},
	{Do: Kill, On: "coordinator majority", For: sec},
	{Do: Slow, On: "leader", Link: "coordinator", Delay: 100 * ms, Loss: 0.1, For: 2 * sec},
	{Do: Depose, On: "leader", Until: NextLeader},
	{Do: Revoke, On: "leader", Until: NextLeader},
}
