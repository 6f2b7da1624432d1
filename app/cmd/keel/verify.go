package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/keel-agent/keel/app"
	"github.com/keel-agent/keel/domain"
)

type verifyCmd struct {
	storeFlags

	Tenant  string `help:"Only sessions of this tenant."`
	Session string `help:"Only sessions of this id."`
	JSON    bool   `name:"json" help:"Print faults and the summary as JSON lines."`
}

// progressEvery is how often a long verification says on stderr how far it is.
const progressEvery = 2 * time.Second

// Run prints a line for each fault and a summary. Its exit code is 1 when there are faults, 2 when it could not check
// or could not go on.
func (v *verifyCmd) Run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	out := bufio.NewWriter(os.Stdout)
	said := time.Now()
	count, err := app.Verify(ctx, app.Config{Store: v.Store}, app.Verification{
		Tenant: v.Tenant, Session: v.Session,
		Fault: func(ref domain.SessionRef, f domain.Fault) { v.fault(out, ref, f) },
		Progress: func(n app.Verified) {
			if time.Since(said) >= progressEvery {
				said = time.Now()
				_ = out.Flush()
				fmt.Fprintf(os.Stderr, "keel: %d sessions, %d events, %d faults so far\n", n.Sessions, n.Events, n.Faults)
			}
		},
	})
	switch {
	case errors.Is(err, app.ErrNothingToVerify):
		return exitWith{2, err}
	case err == nil:
		err = v.summary(out, count)
	}
	if err := errors.Join(err, out.Flush()); err != nil {
		return exitWith{2, err}
	}
	if count.Faults > 0 {
		return exitWith{code: 1}
	}
	return nil
}

func (v *verifyCmd) fault(out *bufio.Writer, ref domain.SessionRef, f domain.Fault) {
	if !v.JSON {
		fmt.Fprintf(out, "%s/%s: %s\n", oneLine(ref.Tenant), oneLine(ref.Session), oneLine(f.String()))
		return
	}
	_ = json.NewEncoder(out).Encode(struct {
		Tenant  string     `json:"tenant"`
		Session string     `json:"session"`
		Seq     domain.Seq `json:"seq,omitempty"`
		Field   string     `json:"field"`
		Detail  string     `json:"detail"`
	}{ref.Tenant, ref.Session, f.Seq, f.Field, f.Detail})
}

func (v *verifyCmd) summary(out *bufio.Writer, count app.Verified) error {
	if v.JSON {
		return json.NewEncoder(out).Encode(map[string]app.Verified{"summary": count})
	}
	_, err := fmt.Fprintf(out, "verified %d sessions with %d events: %d faults\n", count.Sessions, count.Events, count.Faults)
	return err
}

// oneLine returns s as it is when a terminal can show it, else quoted: what a store holds may be hostile.
func oneLine(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }) {
		return strconv.Quote(s)
	}
	return s
}
