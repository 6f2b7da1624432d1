package runner

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/keel-agent/keel/app/cascade"
	"github.com/keel-agent/keel/domain"
)

// cascadeLoop repeats, periodically and in any process, what whoever cancels a run does at once: its children end with
// it.
func (r *Runner) cascadeLoop() {
	tick := time.NewTicker(r.cfg.CascadeEvery)
	defer tick.Stop()
	for {
		select {
		case <-r.stop:
			return
		case <-tick.C:
			r.cascade()
		}
	}
}

func (r *Runner) cascade() {
	ctx, cancel := context.WithTimeout(context.Background(), r.cfg.LeaseTTL)
	defer cancel()
	n, err := cascade.Cancel(ctx, r.Ledger, r.Runs, domain.SessionRef{})
	if err != nil {
		r.Log.Warn("could not cancel all runs whose parents were cancelled", zap.Error(err))
	}
	if n > 0 {
		r.Log.Info("cancelled runs whose parents were cancelled", zap.Int("runs", n))
	}
}
