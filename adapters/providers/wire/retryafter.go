package wire

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// RetryAfter returns how long the backend that answered with h at now asks to wait, 0 when it does not say. It reads
// retry-after-ms, then Retry-After as seconds (with a fraction, too), as a date or as a duration like 1m30s. A date is
// measured against the backend's own Date. Negative waits and past dates are 0; a long one is returned as it is.
func RetryAfter(h http.Header, now time.Time) time.Duration {
	if d, ok := scaled(h.Get("Retry-After-Ms"), time.Millisecond); ok {
		return d
	}
	value := strings.TrimSpace(h.Get("Retry-After"))
	if d, ok := scaled(value, time.Second); ok {
		return d
	}
	if d, err := time.ParseDuration(value); err == nil {
		return max(d, 0)
	}
	at, err := http.ParseTime(value)
	if err != nil {
		if at, err = time.Parse(time.RFC3339, value); err != nil {
			return 0
		}
	}
	if there, err := http.ParseTime(h.Get("Date")); err == nil {
		now = there
	}
	return max(at.Sub(now), 0)
}

// Seconds returns s seconds as a wait: 0 when s is negative or no number, the longest duration when it is larger.
func Seconds(s float64) time.Duration {
	d, _ := bounded(s, time.Second)
	return d
}

func scaled(value string, unit time.Duration) (time.Duration, bool) {
	n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
	if err != nil && !math.IsInf(n, 0) { // a number out of range is infinite and still a number
		return 0, false
	}
	return bounded(n, unit)
}

func bounded(n float64, unit time.Duration) (time.Duration, bool) {
	switch ns := n * float64(unit); {
	case math.IsNaN(ns):
		return 0, false
	case ns <= 0:
		return 0, true
	case ns >= math.MaxInt64:
		return math.MaxInt64, true
	default:
		return time.Duration(ns), true
	}
}
