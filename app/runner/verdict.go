package runner

import (
	"errors"
	"time"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// verdict is how an attempt judges itself.
type verdict struct {
	result     domain.Result
	stopReason domain.StopReason
	fault      string
	retryAfter time.Duration
}

// permanent marks an error that a retry cannot mend.
type permanent struct{ error }

func (p permanent) Unwrap() error { return p.error }

// judge returns how an attempt ends that a fault ended.
func judge(fault error) verdict {
	v := verdict{result: domain.Failure, fault: fault.Error()}
	if errors.As(fault, &permanent{}) {
		v.result = domain.Permanent
	}
	if pe, ok := errors.AsType[*ports.ProviderError](fault); ok {
		v.retryAfter = pe.RetryAfter
		if pe.Class != ports.Retryable || pe.RetryAfter > domain.MaxRetryAfter {
			v.result = domain.Permanent
		}
	}
	return v
}
