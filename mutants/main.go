// Command mutants plants known bugs, one at a time, and demands that a named test fails for the right reason. A test
// suite that lets one of them live would let the fault live that the bug stands for.
//
// Each file of bugs/ is a patch with a header:
//
//	Why: what would go wrong for users
//	Test: ./package ^TestRegexp$
//	Says: part of the failing assertion's message
//
// The tree itself is never changed: go test reads the patched files through an overlay. Every named test must first pass
// without any bug.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"time"
)

func main() {
	root := flag.String("root", ".", "directory of go.work")
	only := flag.String("run", "", "only the bugs whose names match this regular expression")
	verbose := flag.Bool("v", false, "show what the tests print")
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "Plants known bugs one at a time; each must make its test fail as said in mutants/bugs.\n\nUsage: go run ./mutants [flags]\n\n")
		flag.PrintDefaults()
	}
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *root, *only, *verbose); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, root, only string, verbose bool) error {
	match, err := regexp.Compile(only)
	if err != nil {
		return fmt.Errorf("-run: %w", err)
	}
	bugs, err := load(filepath.Join(root, "mutants", "bugs"), match)
	if err != nil {
		return err
	}
	lab := lab{root: root, verbose: verbose}
	if err := lab.passes(ctx, bugs); err != nil {
		return err
	}
	alive := 0
	for _, b := range bugs {
		began := time.Now()
		if err := lab.kills(ctx, b); err != nil {
			alive++
			fmt.Printf("ALIVE   %-44s %v\n", b.name, err)
			continue
		}
		fmt.Printf("caught  %-44s by %s %s in %.1fs\n", b.name, b.pkg, b.test, time.Since(began).Seconds())
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if alive > 0 {
		return fmt.Errorf("%d of %d planted bugs were not caught", alive, len(bugs))
	}
	fmt.Printf("all %d planted bugs were caught\n", len(bugs))
	return nil
}
