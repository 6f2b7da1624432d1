// Command torture breaks real servers under load and has a checker look at what is left: it reads the clients' logs
// and the database, and nothing else. See docs/TORTURE.md.
//
//	scripts/with-postgres.sh go run ./torture [-tier short|long] [-seed N] [-faults kill,point] [-cycles 100] …
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/keel-agent/keel/torture/check"
	"github.com/keel-agent/keel/torture/plan"
)

func main() {
	err := run(os.Args[1:])
	switch {
	case errors.Is(err, errViolated):
		os.Exit(1)
	case errors.Is(err, flag.ErrHelp):
		os.Exit(0)
	case err != nil:
		fmt.Fprintln(os.Stderr, "torture:", err)
		os.Exit(2)
	}
}

// errViolated says that a promise was broken; the report has told which.
var errViolated = errors.New("violations")

func run(args []string) error {
	flags := flag.NewFlagSet("torture", flag.ContinueOnError)
	var s scenario
	flags.Uint64Var(&s.Seed, "seed", 0, "the seed of the schedule; 0 draws one")
	flags.StringVar(&s.Store, "store", "postgres", "postgres or sqlite")
	flags.IntVar(&s.Servers, "servers", 3, "servers; SQLite has one")
	flags.IntVar(&s.Clients, "clients", 8, "clients, each with a session at a time, two writers and readers")
	flags.IntVar(&s.Cycles, "cycles", 50, "how many faults")
	list := flags.String("faults", "kill,point", fmt.Sprintf("the kinds of faults, taken in turn: some of %v", plan.Faults))
	flags.DurationVar(&s.Patience, "patience", 0, "how long an acknowledgement may take; 0 is no bound")
	flags.DurationVar(&s.Quiet, "quiet", 30*time.Second, "how long the last answer may take behind the last fault")
	duration := flags.Duration("duration", 0, "repeat with further seeds until this time is over")
	tier := flags.String("tier", "", "play a list of scenarios instead: short or long")
	keep := flags.Bool("keep", false, "keep the directory; it is kept anyway when something is violated")
	printPlan := flags.Bool("plan", false, "print the schedule and leave")
	recheck := flags.String("recheck", "", "check the run kept in this directory again, and nothing else")
	binary := flags.String("binary", "", "a server built with -tags torture; built when empty")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var err error
	if s.Faults, err = plan.ParseFaults(*list); err != nil {
		return err
	}
	if *recheck != "" {
		return checkAgain(*recheck, s)
	}
	if s.Seed == 0 {
		s.Seed = rand.Uint64() >> 32
	}
	scenarios, err := choose(s, *tier)
	if err != nil {
		return err
	}
	if *printPlan {
		return plan.New(scenarios[0].Options).Print(os.Stdout, s.Clients, 20)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return session(ctx, scenarios, *binary, *duration, *keep)
}

// checkAgain checks what a run left in dir, by the flags' patience and faults.
func checkAgain(dir string, s scenario) error {
	history, ledger, err := readBack(dir)
	if err != nil {
		return err
	}
	o := outcome{scenario: s, dir: dir, history: history, ledger: ledger, violations: check.Check(history, ledger, s.terms())}
	o.verdict(os.Stdout)
	if len(o.violations) > 0 {
		return errViolated
	}
	return nil
}

// choose returns the scenarios of a tier, or the one that the flags describe.
func choose(s scenario, tier string) ([]scenario, error) {
	if tier != "" {
		return tierOf(tier, s.Seed)
	}
	s.Name = "single"
	return []scenario{s}, s.check()
}

// check makes a scenario whole.
func (s *scenario) check() error {
	s.Lease = leaseTTL
	switch s.Store {
	case "postgres":
	case "sqlite":
		s.Servers = 1
		for _, f := range s.Faults {
			if f.OfDatabase() {
				return fmt.Errorf("the fault %s is one of Postgres", f)
			}
		}
	default:
		return fmt.Errorf("-store %q: want postgres or sqlite", s.Store)
	}
	if s.Servers < 1 || s.Clients < 1 || s.Cycles < 1 {
		return errors.New("-servers, -clients and -cycles must be positive")
	}
	return nil
}

// session plays scenarios one after the other and prints a report of each.
func session(ctx context.Context, scenarios []scenario, binary string, duration time.Duration, keep bool) error {
	dir, err := os.MkdirTemp("", "keel-torture-")
	if err != nil {
		return err
	}
	began := time.Now()
	say := func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, "torture %5.0f s: %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
	}
	defer func() {
		if keep {
			say("kept %s", dir)
		} else {
			_ = os.RemoveAll(dir)
		}
	}()
	r := &rig{binary: binary, dir: dir, say: say}
	if binary == "" {
		if r.binary, err = build(ctx, dir); err != nil {
			return err
		}
	}
	violated := false
	for round := 0; ; round++ {
		for _, s := range scenarios {
			if round > 0 {
				s.Name, s.Seed = fmt.Sprintf("%s-%d", s.Name, round), s.Seed+uint64(round)
			}
			say("%s: seed %d, %d faults of %v on %s", s.Name, s.Seed, s.Cycles, s.Faults, s.Store)
			o, err := r.play(ctx, s)
			if err != nil {
				keep = keep || ctx.Err() == nil
				return fmt.Errorf("%s, seed %d: %w", s.Name, s.Seed, err)
			}
			o.report(os.Stdout)
			violated = violated || len(o.violations) > 0
		}
		if violated || time.Since(began) >= duration {
			break
		}
	}
	if violated {
		keep = true
		return errViolated
	}
	return nil
}

// build builds the server with its crash points.
func build(ctx context.Context, dir string) (string, error) {
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/keel-agent/keel/app").Output()
	if err != nil {
		return "", fmt.Errorf("the server's module is not to be found: %w", err)
	}
	binary := filepath.Join(dir, "keel")
	cmd := exec.CommandContext(ctx, "go", "build", "-tags", "torture", "-o", binary, "./cmd/keel")
	cmd.Dir = strings.TrimSpace(string(root))
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("cannot build the server: %w\n%s", err, out)
	}
	return binary, nil
}
