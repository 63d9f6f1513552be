package fencetest

import (
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence"
)

// Harness connects the contract to a coordinator. Open, Alone and SessionTimeout are required. Cut
// to LoseReply are faults; tests that need a missing one are skipped and name it. The rest makes
// tests stronger where the server allows it.
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

	// Drop breaks every connection between this client and the coordinator. Unless the client is
	// cut off, it may connect again at once.
	Drop func(t testing.TB, c fence.Coordinator)

	// Expire ends all sessions of this client at the coordinator, which can tell the client so.
	Expire func(t testing.TB, c fence.Coordinator)

	// Delete removes a candidate's entry at the coordinator, without using the client.
	Delete func(t testing.TB, r fence.Resource, token fence.Token)

	// LoseReply loses the reply to the client's next enrolment, which reaches the coordinator.
	LoseReply func(t testing.TB, c fence.Coordinator)

	// Forget makes the coordinator drop all history that it does not need, such as the revisions
	// before the present one. A client that was cut off cannot learn later what it has missed. May
	// be nil.
	Forget func(t testing.TB)

	// Sessions returns how many sessions at the coordinator hold the candidates of these elections.
	// All candidates of one client must share one. May be nil.
	Sessions func(t testing.TB, rs ...fence.Resource) int

	// Elections is how many elections one client leads at once in a test. Default 1000.
	Elections int

	patience time.Duration // of a stage; see newStage
}

// check is one clause of the contract.
type check struct {
	name  string
	run   func(testing.TB, Harness)
	needs func(Harness) string // the missing fault, or ""
	alone bool                 // no other clause runs meanwhile; it needs the real clock
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
			if !c.alone {
				t.Parallel()
			}
			c.run(t, h)
		})
	}
}

var clauses = []check{
	{name: "a term says who won what", run: termSaysWhoWonWhat},
	{name: "tokens of successive terms rise", run: tokensRise},
	{name: "a candidate has an identity of its own", run: candidatesHaveIdentities},
	{name: "there is at most one active term", run: atMostOneTerm},
	{name: "one client may lead several resources", run: oneClientManyResources},
	{name: "one session carries a thousand elections", run: oneSessionManyElections},
	{name: "a holder is any text", run: holderIsAnyText},
	{name: "a holder may be empty, or as long as the limit", run: holderOfAnyLength},
	{name: "a holder over the limit is refused, and nothing is lost", run: holderOverTheLimit},
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
	needsDrops = func(h Harness) string {
		if h.Drop == nil {
			return "Drop"
		}
		return needsCut(h)
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
	{name: "a short cut suspends and resumes the same term", run: shortCutSuspends, needs: needsCut},
	{name: "a long cut expires the term before the next one starts", run: longCutExpires,
		needs: needsCut},
	{name: "a starved process knows whether it leads", run: starvedProcess, needs: needsCut,
		alone: true},
	{name: "a cut candidate in the middle lets nobody lead and comes back", run: cutInTheMiddle,
		needs: needsCut},
	{name: "a campaign that is cancelled out of reach leaves nothing behind",
		run: cancelledOutOfReachLeavesNothing, needs: needsCut},
	{name: "observing survives a cut", run: observingSurvivesACut, needs: needsCut},
	{name: "watching and waiting survive lost connections and lost history",
		run: watchingSurvivesReconnects, needs: needsDrops},
	{name: "a resignation without the coordinator still ends the term", run: resignOutOfReach,
		needs: needsCut},
	{name: "a resignation out of reach arrives when the coordinator is back",
		run: resignationArrives, needs: needsCut},
	{name: "an expired session ends the term", run: expiredSessionEndsTheTerm, needs: needsExpire},
	{name: "an expired candidate enrols again at the tail", run: expiredCandidateEnrolsAgain,
		needs: needsExpire},
	{name: "deleting the leader's entry deposes it", run: deletedLeaderIsDeposed, needs: needsDelete},
	{name: "deleting a waiting entry lets nobody lead", run: deletedCandidateEnrolsAgain,
		needs: needsDelete},
	{name: "an enrolment whose reply was lost happens once", run: lostReplyEnrolsOnce,
		needs: needsLoseReply},
	{name: "a client that is cut off names no leader", run: cutClientNamesNobody, needs: needsCut},
	{name: "a leader whose session has expired is not named", run: expiredLeaderIsNotNamed,
		needs: needsExpire},
	{name: "a leader whose entry was deleted is not named", run: deletedLeaderIsNotNamed,
		needs: needsDelete},
}
