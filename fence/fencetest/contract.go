package fencetest

import (
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence"
)

// Harness connects the contract to a coordinator. Open, Alone and SessionTimeout are required. The
// others are faults; tests that need a missing one are skipped and name it.
type Harness struct {
	// Open makes a client that shares no connection and no session with another, like a separate
	// process. The contract closes the client; Open releases everything else in t.Cleanup.
	Open func(t testing.TB) fence.Coordinator

	// Alone makes two clients, like Open, of a coordinator that no other test uses, because the
	// test renews its issuer and terms may be lost. The contract closes both.
	Alone func(t testing.TB) (c, operator fence.Coordinator)

	// SessionTimeout is the timeout that the coordinator grants. Sessions must last on a busy
	// machine, and some tests wait until one expires; ten seconds suit both.
	SessionTimeout time.Duration

	// Cut silently drops everything between this client and the coordinator, in both directions.
	// New connections fail or stay silent. Heal ends the cut.
	Cut, Heal func(t testing.TB, c fence.Coordinator)

	// Expire ends all sessions of this client at the coordinator, which can tell the client so.
	Expire func(t testing.TB, c fence.Coordinator)

	// Delete removes a candidate's entry at the coordinator, without using the client.
	Delete func(t testing.TB, r fence.Resource, token fence.Token)

	// LoseReply loses the reply to the client's next enrolment, which reaches the coordinator.
	LoseReply func(t testing.TB, c fence.Coordinator)
}

// check is one clause of the contract.
type check struct {
	name  string
	run   func(testing.TB, Harness)
	needs func(Harness) string // the missing fault, or ""
}

// Run checks a coordinator against the contract.
func Run(t *testing.T, h Harness) {
	// Not in parallel with other clauses, because it counts goroutines.
	t.Run("closing leaves no goroutine", func(t *testing.T) { closeLeavesNoGoroutine(t, h) })
	for _, c := range append(clauses, faultClauses...) {
		t.Run(c.name, func(t *testing.T) {
			if c.needs != nil && c.needs(h) != "" {
				t.Skipf("the harness has no %s", c.needs(h))
			}
			t.Parallel()
			c.run(t, h)
		})
	}
}

var clauses = []check{
	{name: "a term says who won what", run: termSaysWhoWonWhat},
	{name: "tokens of successive terms rise", run: tokensRise},
	{name: "there is at most one active term", run: atMostOneTerm},
	{name: "one client may lead several resources", run: oneClientManyResources},
	{name: "one client may lead many elections at once", run: oneClientManyElections},
	{name: "a holder is any text", run: holderIsAnyText},
	{name: "a waiting candidate has no term", run: waitingCandidateHasNoTerm},
	{name: "resigning lets the next in at once", run: resignLetsTheNextIn},
	{name: "a late resign cannot touch a newer term", run: lateResignCannotTouchNewerTerm},
	{name: "deposing takes the exact token", run: deposeTakesTheExactToken},
	{name: "a deposed candidate enrols again at the tail", run: deposedCandidateEnrolsAgain},
	{name: "a deposed leader cannot acknowledge", run: deposedLeaderCannotAcknowledge},
	{name: "a cancelled campaign leaves nothing behind", run: cancelledCampaignLeavesNothing},
	{name: "a death in the middle of the queue lets nobody lead", run: deathInTheMiddle},
	{name: "closing loses the terms", run: closeLosesTerms},
	{name: "candidates are listed in order", run: candidatesInOrder},
	{name: "only an acknowledged leader is ready", run: onlyAcknowledgedIsReady},
	{name: "the first candidate leads, whoever waits", run: firstOfSeveralLeads},
	{name: "the next one leads at once", run: nextLeadsAtOnce},
	{name: "leaders come in the order of the resources", run: leadersComeInOrder},
	{name: "leaders agree with the candidates", run: leadersAgreeWithCandidates},
	{name: "a lost term is not named", run: lostTermIsNotNamed},
	{name: "watching sees every standing change", run: watchSeesChanges},
	{name: "watching ends with its context or its callback", run: watchEnds},
	{name: "the issuer is one and stable", run: issuerIsOne},
	{name: "a bad resource is refused", run: badResourceIsRefused},
	{name: "leaders come with today's issuer", run: leadersComeWithTodaysIssuer},
	{name: "a renewed issuer is another one", run: renewedIssuerIsAnother},
	{name: "a closed client renews nothing", run: closedClientRenewsNothing},
}

var (
	needsCut = func(h Harness) string {
		if h.Cut == nil || h.Heal == nil {
			return "Cut and Heal"
		}
		return ""
	}
	needsExpire    = func(h Harness) string { return missing(h.Expire == nil, "Expire") }
	needsDelete    = func(h Harness) string { return missing(h.Delete == nil, "Delete") }
	needsLoseReply = func(h Harness) string { return missing(h.LoseReply == nil, "LoseReply") }
)

func missing(is bool, name string) string {
	if is {
		return name
	}
	return ""
}

var faultClauses = []check{
	{"a short cut suspends and resumes the same term", shortCutSuspends, needsCut},
	{"a long cut expires the term before the next one starts", longCutExpires, needsCut},
	{"a cut candidate in the middle lets nobody lead and comes back", cutInTheMiddle, needsCut},
	{"a campaign that is cancelled out of reach leaves nothing behind", cancelledOutOfReachLeavesNothing,
		needsCut},
	{"observing survives a cut", observingSurvivesACut, needsCut},
	{"a resignation without the coordinator still ends the term", resignOutOfReach, needsCut},
	{"an expired session ends the term", expiredSessionEndsTheTerm, needsExpire},
	{"an expired candidate enrols again at the tail", expiredCandidateEnrolsAgain, needsExpire},
	{"deleting the leader's entry deposes it", deletedLeaderIsDeposed, needsDelete},
	{"deleting a waiting entry lets nobody lead", deletedCandidateEnrolsAgain, needsDelete},
	{"an enrolment whose reply was lost happens once", lostReplyEnrolsOnce, needsLoseReply},
	{"a client that is cut off names no leader", cutClientNamesNobody, needsCut},
	{"a leader whose session has expired is not named", expiredLeaderIsNotNamed, needsExpire},
	{"a leader whose entry was deleted is not named", deletedLeaderIsNotNamed, needsDelete},
}
