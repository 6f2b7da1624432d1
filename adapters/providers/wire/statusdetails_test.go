package wire_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/providers/wire"
	"github.com/keel-agent/keel/ports"
)

const (
	retryInfo  = `{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"36.5s"}`
	perMinute  = `{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"GenerateRequestsPerMinutePerProjectPerModel-FreeTier","quotaValue":"5"}]}`
	perDay     = `{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{},{"quotaId":"GenerateRequestsPerDayPerProjectPerModel-FreeTier","quotaValue":"20"}]}`
	quotaOf0   = `{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"TokensPerMinute","quotaValue":"0"}]}`
	limitOfDay = `{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"RATE_LIMIT_EXCEEDED","metadata":{"quota_limit":"RequestsPerDay"}}`
)

// Errors of the shape of google.rpc.Status: its status, and the details that say what it is too coarse for.
func TestStatusDetails(t *testing.T) {
	for _, c := range []struct {
		status        int
		code, message string
		details       string
		class         ports.FaultClass
		label         string
		wait          time.Duration
	}{
		{429, "RESOURCE_EXHAUSTED", "You exceeded your current quota, please check your plan and billing details.", perMinute + "," + retryInfo, ports.Retryable, "RESOURCE_EXHAUSTED", 36500 * time.Millisecond},
		{429, "RESOURCE_EXHAUSTED", "You exceeded your current quota.", perDay + "," + retryInfo, ports.Fatal, "RESOURCE_EXHAUSTED", 36500 * time.Millisecond},
		{429, "RESOURCE_EXHAUSTED", "You exceeded your current quota.", quotaOf0, ports.Fatal, "RESOURCE_EXHAUSTED", 0},
		{429, "RESOURCE_EXHAUSTED", "Quota exceeded.", limitOfDay, ports.Fatal, "RATE_LIMIT_EXCEEDED", 0},
		{429, "RESOURCE_EXHAUSTED", "Resource has been exhausted (e.g. check quota).", "", ports.Retryable, "RESOURCE_EXHAUSTED", 0},
		{429, "RESOURCE_EXHAUSTED", "Your prepayment credits are depleted.", "", ports.Fatal, "RESOURCE_EXHAUSTED", 0},
		{429, "RESOURCE_EXHAUSTED", "Your project has exceeded its monthly spending cap.", "", ports.Fatal, "RESOURCE_EXHAUSTED", 0},
		{400, "INVALID_ARGUMENT", "API key not valid.", `{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID"}`, ports.Fatal, "API_KEY_INVALID", 0},
		{400, "INVALID_ARGUMENT", "no", `{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"HOUSE_RULES"}`, ports.Fatal, "INVALID_ARGUMENT", 0},
		{400, "INVALID_ARGUMENT", "Unknown name.", `{"@type":"type.googleapis.com/google.rpc.BadRequest"},7`, ports.Fatal, "INVALID_ARGUMENT", 0},
		{400, "INVALID_ARGUMENT", "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).", "", ports.Overflow, "INVALID_ARGUMENT", 0},
		{400, "INVALID_ARGUMENT", "Request payload size exceeds the limit: 20971520 bytes.", "", ports.TooLarge, "INVALID_ARGUMENT", 0},
		{400, "FAILED_PRECONDITION", "User location is not supported for the API use.", "", ports.Fatal, "FAILED_PRECONDITION", 0},
		{401, "UNAUTHENTICATED", "no", "", ports.Fatal, "UNAUTHENTICATED", 0},
		{403, "PERMISSION_DENIED", "no", `{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"BILLING_DISABLED"}`, ports.Fatal, "BILLING_DISABLED", 0},
		{404, "NOT_FOUND", "models/x is not found", "", ports.Fatal, "NOT_FOUND", 0},
		{499, "CANCELLED", "The operation was cancelled.", "", ports.Retryable, "CANCELLED", 0},
		{500, "INTERNAL", "An internal error has occurred.", "", ports.Retryable, "INTERNAL", 0},
		{503, "UNAVAILABLE", "The model is overloaded.", `{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"-1s"}`, ports.Retryable, "UNAVAILABLE", 0},
		{504, "DEADLINE_EXCEEDED", "late", `{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"soon"}`, ports.Retryable, "DEADLINE_EXCEEDED", 0},
	} {
		body := []byte(`{"error":{"message":"` + c.message + `","status":"` + c.code + `","details":[` + c.details + `]}}`)
		got := wire.BodyFault(c.status, body).Error()
		require.Equal(t, c.class, got.Class, "%s", body)
		require.Equal(t, c.label, got.Code, "%s", body)
		require.Equal(t, c.wait, got.RetryAfter, "%s", body)

		inside, ok := wire.ReadFault(body) // where a stream tells no number
		require.True(t, ok)
		require.Equal(t, c.class, inside.Error().Class, "inside a stream: %s", body)
	}
}
