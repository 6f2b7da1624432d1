package runner

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/keel-agent/keel/domain"
)

// forsakenPage is how many runs of children are cancelled between two looks.
const forsakenPage = 100

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

// cascade cancels the runs whose parents were cancelled, level by level.
func (r *Runner) cascade() {
	ctx, cancel := context.WithTimeout(context.Background(), r.cfg.LeaseTTL)
	defer cancel()
	for {
		children, err := r.Runs.Forsaken(ctx, domain.SessionRef{}, forsakenPage)
		if err != nil {
			r.Log.Warn("could not look for children of cancelled runs", zap.Error(err))
			return
		}
		for _, c := range children {
			if _, err := r.Ledger.Do(ctx, c.Ref, domain.RequestCancel{At: r.Clock.Now(), Run: c.Run}); err != nil {
				r.Log.Warn("could not cancel a child", zap.String("run", c.Run), zap.Error(err))
				return
			}
			r.Log.Info("cancelled with its parent", zap.String("run", c.Run))
		}
		if len(children) == 0 {
			return
		}
	}
}
