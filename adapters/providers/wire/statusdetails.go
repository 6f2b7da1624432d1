package wire

import (
	"strings"
	"time"
)

// addDetails reads the details of a google.rpc.Status into f: how long to wait, the reason that its status is too coarse
// for, and a quota that no wait of a run will bring back.
func (f *Fault) addDetails(details Raw) {
	for _, raw := range Array(details) {
		o := Object(raw)
		switch kind := String(o["@type"]); {
		case strings.HasSuffix(kind, "google.rpc.RetryInfo"):
			if d, err := time.ParseDuration(String(o["retryDelay"])); err == nil {
				f.RetryAfter = max(d, 0)
			}
		case strings.HasSuffix(kind, "google.rpc.ErrorInfo"):
			reason := String(o["reason"])
			if _, known := kinds[strings.ToLower(reason)]; known {
				f.Type = reason
			}
			f.spend(String(Object(o["metadata"])["quota_limit"]), "")
		case strings.HasSuffix(kind, "google.rpc.QuotaFailure"):
			for _, v := range Array(o["violations"]) {
				violation := Object(v)
				f.spend(String(violation["quotaId"]), Label(violation["quotaValue"]))
			}
		}
	}
}

// spend looks at a quota that was exceeded: one of a day, or of nothing at all, is gone.
func (f *Fault) spend(id, value string) {
	f.Spent = f.Spent || strings.Contains(strings.ToLower(id), "perday") || value == "0"
}
