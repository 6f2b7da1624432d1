//go:build torture

package app

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/fx"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/ports"
)

// Variables that only this build reads.
const (
	crashVariable   = "KEEL_CRASH_AT"    // POINT[:N]: the process kills itself when it passes the point for the N-th time
	effectsVariable = "KEEL_EFFECTS_LOG" // a file that gets a line for each execution of a tool, before it begins
)

// crashPoints puts a crash around every call of the store and of the tools. The points are before:CALL, where the store
// has not been asked; committed:KIND, behind the commit of an event of that kind; and after:CALL, where the store has
// answered and nobody knows. CALL is the name of a command, or Claim, Register, Renew, Execute.
var crashPoints = fx.Options(
	fx.Provide(newCrash),
	fx.Decorate(
		func(c *crash, l ports.Ledger) ports.Ledger { return crashLedger{l, c} },
		func(c *crash, r ports.Runs) ports.Runs { return crashRuns{r, c} },
		func(c *crash, p ports.Processes) ports.Processes { return crashProcesses{p, c} },
	),
	fx.Decorate(fx.Annotate(func(c *crash, sets []ports.Tools) []ports.Tools {
		for i, set := range sets {
			sets[i] = crashTools{set, c}
		}
		return sets
	}, fx.ParamTags("", `group:"tools"`), fx.ResultTags(`group:"tools"`))),
	fx.Invoke(func(c *crash, f *fanout) { f.add(c) }),
)

type crash struct {
	point   string
	left    atomic.Int64
	effects *os.File
}

func newCrash() (*crash, error) {
	c := &crash{}
	if at := os.Getenv(crashVariable); at != "" {
		c.point = at
		c.left.Store(1)
		if i := strings.LastIndexByte(at, ':'); i > 0 {
			if n, err := strconv.Atoi(at[i+1:]); err == nil {
				if n < 1 {
					return nil, fmt.Errorf("%s=%s: want a positive number", crashVariable, at)
				}
				c.point = at[:i]
				c.left.Store(int64(n))
			}
		}
	}
	if path := os.Getenv(effectsVariable); path != "" {
		f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", effectsVariable, err)
		}
		c.effects = f
	}
	return c, nil
}

// pass ends the process, as kill -9 does, when point is due.
func (c *crash) pass(when, call string) {
	if c.point != when+":"+call || c.left.Add(-1) != 0 {
		return
	}
	fmt.Fprintln(os.Stderr, "crash at", c.point)
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		_ = self.Kill()
	}
	select {} // nothing happens behind the point
}

// around calls f between the two points of call.
func around[T any](c *crash, call string, f func() (T, error)) (T, error) {
	c.pass("before", call)
	v, err := f()
	if err == nil {
		c.pass("after", call)
	}
	return v, err
}

func around0(c *crash, call string, f func() error) error {
	_, err := around(c, call, func() (struct{}, error) { return struct{}{}, f() })
	return err
}

// Committed implements ports.Notifier.
func (c *crash) Committed(commit ports.Commit) {
	for _, e := range commit.Events {
		c.pass("committed", string(e.Kind))
	}
}

type crashLedger struct {
	ports.Ledger
	c *crash
}

func (l crashLedger) Do(ctx context.Context, ref domain.SessionRef, cmd domain.Command) (domain.Outcome, error) {
	name := strings.TrimPrefix(fmt.Sprintf("%T", cmd), "domain.")
	return around(l.c, name, func() (domain.Outcome, error) { return l.Ledger.Do(ctx, ref, cmd) })
}

type crashRuns struct {
	ports.Runs
	c *crash
}

// Claim passes behind the claim only when something was claimed.
func (r crashRuns) Claim(ctx context.Context, req ports.ClaimRequest) ([]ports.Claim, error) {
	r.c.pass("before", "Claim")
	claims, err := r.Runs.Claim(ctx, req)
	if len(claims) > 0 {
		r.c.pass("after", "Claim")
	}
	return claims, err
}

type crashProcesses struct {
	ports.Processes
	c *crash
}

func (p crashProcesses) Register(ctx context.Context, id, address string, ttl time.Duration) error {
	return around0(p.c, "Register", func() error { return p.Processes.Register(ctx, id, address, ttl) })
}

func (p crashProcesses) Renew(ctx context.Context, id string, ttl time.Duration) ([]ports.Owned, error) {
	return around(p.c, "Renew", func() ([]ports.Owned, error) { return p.Processes.Renew(ctx, id, ttl) })
}

type crashTools struct {
	ports.Tools
	c *crash
}

func (t crashTools) Execute(ctx context.Context, call ports.ToolInvocation) (ports.ToolOutput, error) {
	return around(t.c, "Execute", func() (ports.ToolOutput, error) {
		if t.c.effects != nil { // one write of a short line, so that the lines of several processes stay whole
			if _, err := fmt.Fprintf(t.c.effects, "%s %s %s %s\n", call.Ref.Tenant, call.Ref.Session, call.ID, call.Name); err != nil {
				return ports.ToolOutput{}, err
			}
		}
		return t.Tools.Execute(ctx, call)
	})
}
