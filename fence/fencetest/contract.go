package fencetest

import (
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence"
)

// Harness is what the contract needs of a coordinator. Open, Alone and SessionTimeout are required;
// each of the others is a fault, and the tests that need a missing one are skipped by name.
type Harness struct {
	// Open makes a client that shares no connection and no session with another, as if it were a
	// process of its own. The contract closes it; whatever else belongs to it ends in t.Cleanup.
	Open func(t testing.TB) fence.Coordinator

	// Alone makes two clients, like Open's, of a coordinator that no other test uses: its issuer is
	// renewed, and terms may be lost by that. The contract closes both.
	Alone func(t testing.TB) (c, operator fence.Coordinator)

	// SessionTimeout is what the coordinator grants: how long a crashed leader holds up the next.
	// Most tests need sessions that last on a busy machine, and some wait until one has run out:
	// ten seconds do for both.
	SessionTimeout time.Duration

	// Cut lets nothing pass between this client and the coordinator, in both directions, without
	// telling either. Connections that are made while it lasts fail or stay silent. Heal ends it.
	Cut, Heal func(t testing.TB, c fence.Coordinator)

	// Expire ends all sessions of this client at the coordinator, so that the client can hear of it.
	Expire func(t testing.TB, c fence.Coordinator)

	// Delete removes a candidate's entry at the coordinator, past any of our code.
	Delete func(t testing.TB, r fence.Resource, token fence.Token)

	// LoseReply lets the client's next enrolment reach the coordinator and its reply get lost.
	LoseReply func(t testing.TB, c fence.Coordinator)
}

// check is one clause of the contract.
type check struct {
	name  string
	run   func(testing.TB, Harness)
	needs func(Harness) string // the missing fault, or ""
}

// Run holds a coordinator to the contract.
func Run(t *testing.T, h Harness) {
	// alone: it counts
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
	{name: "leaders are told in the order asked", run: leadersAreToldInOrder},
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
	{"observing rides out a cut", observingRidesOutACut, needsCut},
	{"a resignation out of reach is over all the same", resignOutOfReach, needsCut},
	{"an expired session ends the term", expiredSessionEndsTheTerm, needsExpire},
	{"an expired candidate enrols again at the tail", expiredCandidateEnrolsAgain, needsExpire},
	{"deleting the leader's entry deposes it", deletedLeaderIsDeposed, needsDelete},
	{"deleting a waiting entry lets nobody lead", deletedCandidateEnrolsAgain, needsDelete},
	{"an enrolment whose reply was lost happens once", lostReplyEnrolsOnce, needsLoseReply},
	{"a client that is cut off names no leader", cutClientNamesNobody, needsCut},
	{"a leader whose session has expired is not named", expiredLeaderIsNotNamed, needsExpire},
	{"a leader whose entry was deleted is not named", deletedLeaderIsNotNamed, needsDelete},
}
