// Command bench measures Keel beside limits and peers, all in the same run and on the same machine, and prints the
// figures as Markdown beside the goals. It asserts nothing: a goal that is missed is printed as missed.
//
//	scripts/with-bench-peers.sh scripts/with-postgres.sh go run ./bench [-short] [-only NAME,…] [-time 5s] [-out docs/BENCHMARKS.md]
//
// KEEL_TEST_POSTGRES_URL names the server, as scripts/with-postgres.sh sets it; without scripts/with-bench-peers.sh the
// rows of the peers that npm brings say that they are absent. What is measured is reached through the ports and the
// constructors that any caller has, or through a whole server.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"syscall"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) > 0 && args[0] == childCommand {
		return runChild(args[1:])
	}
	b := &bench{}
	flags := flag.NewFlagSet("bench", flag.ExitOnError)
	flags.BoolVar(&b.short, "short", false, "fewer points and shorter rounds: figures that only indicate")
	flags.DurationVar(&b.round, "time", 0, "length of one round (default 4s, with -short 500ms)")
	flags.IntVar(&b.rounds, "rounds", 3, "rounds of each side, taken in turn")
	flags.IntVar(&b.conns, "conns", 32, "largest number of Postgres connections of each side")
	flags.BoolVar(&b.peers, "peers", true, "measure River, DBOS, Restate and message-db too")
	only := flags.String("only", "", "run these measures alone, by the beginnings of their names, with commas between")
	list := flags.Bool("list", false, "list the measures and leave")
	out := flags.String("out", "", "also write the report to this file")
	flags.StringVar(&b.profile, "cpuprofile", "", "write a CPU profile of this process to this file, and of the last server of streams beside it, with .server behind its name")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if b.round == 0 {
		b.round = pick(b, 4*time.Second, 500*time.Millisecond)
	}
	chosen, err := choose(measures, *only)
	if err != nil {
		return err
	}
	if *list {
		for _, m := range chosen {
			fmt.Println(m.name)
		}
		return nil
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if b.profile != "" {
		done, err := profileTo(b.profile)
		if err != nil {
			return err
		}
		defer done()
	}
	return b.report(ctx, chosen, *out)
}

// report runs the measures and writes what they found. A measure that fails costs its own table alone.
func (b *bench) report(ctx context.Context, chosen []measure, file string) error {
	dir, err := os.MkdirTemp("", "keel-bench-")
	if err != nil {
		return err
	}
	b.dir = dir
	defer func() { _ = os.RemoveAll(dir) }()
	defer b.closeSlowCluster()
	var tables []table
	var failed []error
	began := time.Now()
	for _, m := range chosen {
		at := time.Now()
		say("%s …", m.name)
		rows, err := m.run(ctx, b)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if skip := (skipped{}); errors.As(err, &skip) {
			b.note("%s: %s.", m.name, skip.why)
			say("%s: %s", m.name, skip.why)
			err = nil
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", m.name, err))
			b.note("%s failed: %v.", m.name, err)
			say("%s failed: %v", m.name, err)
		}
		tables = add(tables, m.group, rows)
		say("%s: %s", m.name, time.Since(at).Round(100*time.Millisecond))
	}
	var text bytes.Buffer
	b.markdown(&text, b.facts(ctx), tables, time.Since(began))
	if _, err := os.Stdout.Write(text.Bytes()); err != nil {
		return err
	}
	if file != "" {
		if err := os.WriteFile(filepath.Clean(file), text.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return errors.Join(failed...)
}

// choose returns the measures that a name in only is the beginning of, all when it is empty.
func choose(all []measure, only string) ([]measure, error) {
	if only == "" {
		return all, nil
	}
	wanted := map[string]bool{}
	for name := range strings.SplitSeq(only, ",") {
		found := false
		for _, m := range all {
			if strings.HasPrefix(m.name, name) {
				wanted[m.name], found = true, true
			}
		}
		if !found {
			return nil, fmt.Errorf("-only: no measure begins with %q (-list shows them)", name)
		}
	}
	var chosen []measure
	for _, m := range all {
		if wanted[m.name] {
			chosen = append(chosen, m)
		}
	}
	return chosen, nil
}

func profileTo(file string) (done func(), err error) {
	f, err := os.Create(filepath.Clean(file))
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, err
	}
	return func() {
		pprof.StopCPUProfile()
		_ = f.Close()
	}, nil
}

// say tells how far the run is.
func say(format string, args ...any) { fmt.Fprintf(os.Stderr, "bench: "+format+"\n", args...) }
