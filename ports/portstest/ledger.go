package portstest

import (
	"reflect"
	"testing"

	"github.com/keel-agent/keel/domain"
)

// TestLedger checks ports.Ledger: that each command of commands.md has its refusals, effects and retries, whatever
// happens at the same time.
func TestLedger(t *testing.T, open Open) {
	suite{
		{"create", create},
		{"edge refusals in order", edgeRefusals},
		{"foreign is missing", foreignIsMissing},
		{"too many inputs", tooManyInputs},
		{"times never fall", timesNeverFall},

		{"retry of an input", retryOfInput},
		{"keys have their own space", keySpaces},
		{"same key in other sessions", sameKeyElsewhere},
		{"same content", sameContent},
		{"a key used at once", keyUsedAtOnce},
		{"replay after close", replayAfterClose},

		{"guide without an attempt", guideWithoutAttempt},
		{"guide with an attempt", guideWithAttempt},
		{"guide against settle", guideAgainstSettle},

		{"gapless under load", gaplessUnderLoad},
		{"contexts end", contextsEnd},
		{"reading", reading},
		{"page bytes", pageBytes},
		{"payloads byte for byte", payloadFidelity},
		{"ids byte for byte", idFidelity},
		{"large payloads", largePayloads},

		{"worker refusals in order", workerRefusals},
		{"fenced after each end", fencedAfterEnd},
		{"another session's run", anothersRun},
		{"retry of an owner's event", retryOfOwnerEvent},
		{"replies tell of the session", repliesTell},
		{"calls", calls},
		{"calls start", callsStart},
		{"compaction", compaction},
		{"compaction is asked for", compactionAsked},

		{"retry of an end", retryOfEnd},
		{"settle", settleTable},
		{"settle with open calls", settleWithOpenCalls},
		{"settle cleans what cannot be stored", settleCleans},
		{"hand back", handBack},
		{"rescue", rescue},
		{"park", park},
		{"budget", budgetOfAttempts},

		{"ensure run", ensureRun},
		{"cancel in each state", cancelInEachState},
		{"cancel names its run", cancelNamesItsRun},
		{"input after a cancel", inputAfterCancel},
		{"input beyond a failure", inputBeyondFailure},
		{"close", closeSession},
		{"patch", patch},
		{"notifications", notifications},
		{"another process sees it", reopened},
	}.run(t, open)
}

func sameKind(a, b domain.Command) bool { return reflect.TypeOf(a) == reflect.TypeOf(b) }
