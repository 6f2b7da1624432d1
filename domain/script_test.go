package domain_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/domain"
	"github.com/keel-agent/keel/domain/domaintest"
)

var update = flag.Bool("update", false, "rewrite the outputs of testdata/scripts")

// TestScripts plays the histories of testdata/scripts. A line "> …" is a command (script_commands_test.go has the list);
// the lines after it are what the command answered and wrote, and are rewritten with -update. After each command the
// invariants of domaintest.World hold, and after each history every prefix of its ledger makes a well-formed context.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/scripts/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			require.NoError(t, err)
			s := newScript(t)
			got := s.play(string(want))
			checkPrefixes(t, s.ledger().Events)
			if *update {
				require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
				return
			}
			if got != string(want) {
				t.Fatal(firstDifference(string(want), got))
			}
		})
	}
}

// firstDifference shows where got leaves want, with the lines before.
func firstDifference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	i := 0
	for i < len(w) && i < len(g) && w[i] == g[i] {
		i++
	}
	before := strings.Join(w[max(0, i-6):i], "\n")
	return fmt.Sprintf("line %d\n%s\nwant %s\ngot  %s", i+1, before,
		strings.Join(w[i:min(i+3, len(w))], "\n     "), strings.Join(g[i:min(i+3, len(g))], "\n     "))
}

// script is one session, the processes around it and what they know.
type script struct {
	t       *testing.T
	w       *domaintest.World
	ref     domain.SessionRef
	workers map[string]*worker
	last    domain.Command
	answers int
	turn    []piece // the context of the last request of this turn
}

// worker is a process with its attempt. It keeps its token when it is killed, like a process that was only paused.
type worker struct {
	run       string
	token     domain.Token
	claim     domain.Seq
	t         *domain.Transcript
	injected  []domain.Seq
	presented domain.Presented
}

func newScript(t *testing.T) *script {
	return &script{
		t: t, w: domaintest.NewWorld(), ref: domain.SessionRef{Tenant: "t", Session: "s"}, workers: map[string]*worker{},
	}
}

func (s *script) ledger() domaintest.Ledger {
	if l := s.w.Ledgers[s.ref]; l != nil {
		c := *l
		c.Runs = maps.Clone(l.Runs)
		c.Calls = slices.Clone(l.Calls)
		return c
	}
	return domaintest.Ledger{}
}

func (s *script) play(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(line, "> "):
			out.WriteString(line)
			for _, l := range s.command(strings.TrimSpace(line[2:])) {
				out.WriteString("  " + l + "\n")
			}
			require.NoError(s.t, s.w.Check(), "after %s", line)
		case strings.HasPrefix(line, "#"), strings.TrimSpace(line) == "":
			out.WriteString(line)
		}
	}
	return out.String()
}

// command carries out one line and returns what it did.
func (s *script) command(line string) []string {
	a := parseArgs(s.t, line)
	switch a.verb {
	case "register":
		s.w.Do(domaintest.Register{Process: a.pos(0)})
		return nil
	case "kill":
		s.w.Do(domaintest.Kill{Process: a.pos(0)})
		return nil
	case "advance":
		s.w.Do(domaintest.Advance{By: a.duration(0)})
		return nil
	case "request":
		return s.request(a.pos(0))
	case "again":
		return s.do(s.last)
	}
	build, ok := commands[a.verb]
	require.True(s.t, ok, "no such command: %s", line)
	return s.do(build(s, a))
}

func (s *script) do(cmd domain.Command) []string {
	s.last = cmd
	before := s.ledger()
	if c, ok := cmd.(domain.ClaimRun); ok && before.Runs[c.Run].AvailableAt.After(s.w.Now) {
		return []string{"not due"}
	}
	reply := s.w.Do(domaintest.Do{Ref: s.ref, Cmd: cmd})
	s.learn(cmd, reply)
	return printed(before, s.ledger(), s.w.Now, reply)
}

// learn keeps what a process knows after a command.
func (s *script) learn(cmd domain.Command, reply domaintest.Reply) {
	switch c := cmd.(type) {
	case domain.ClaimRun:
		out := reply.Outcome
		if reply.Err == nil && out.Claim != domain.ClaimSkipped && out.Claim != domain.ClaimNoWork {
			s.workers[c.Process] = &worker{
				run: c.Run, token: domain.Token{Process: c.Process, Epoch: out.Run.Epoch}, claim: *out.Run.ClaimSeq,
				t: domain.NewTranscript(),
			}
		}
	case domain.Settle, domain.AppendCompaction:
		s.turn = nil
	}
}

// request takes the snapshot of a request boundary, as PrepareRequest does. Within a turn the context of one request is
// the beginning of the next one's.
func (s *script) request(process string) []string {
	w := s.workers[process]
	for _, e := range s.ledger().Events[w.t.Head():] {
		require.NoError(s.t, w.t.Apply(e))
	}
	p := w.t.Present(w.claim, w.injected)
	if w.t.Idle(p) {
		return []string{"idle"}
	}
	if w.presented = p; p.Guide != 0 {
		w.injected = append(w.injected, p.Guide)
	}
	messages := w.t.Context(p)
	checkWellFormed(s.t, messages)
	require.NoError(s.t, domaintest.SameFold(w.t.Fold, s.ledger().Row.Fold))
	pieces := flattened(messages)
	require.True(s.t, beginsWith(pieces, s.turn), "the context of one request is not the beginning of the next one's")
	s.turn = pieces
	lines := []string{fmt.Sprintf("presents %v", p.Seqs)}
	if p.Guide != 0 {
		lines[0] += fmt.Sprintf(", guide %d", p.Guide)
	}
	return append(lines, printedContext(messages)...)
}

// args are the words of a command: positional ones, and key=value ones.
type args struct {
	t     *testing.T
	verb  string
	words []string
	named map[string]string
}

// parseArgs splits line at spaces. A word may be quoted like a Go string; { begins JSON that goes on to the line's end.
func parseArgs(t *testing.T, line string) args {
	a := args{t: t, named: map[string]string{}}
	var words []string
	for rest := line; rest != ""; rest = strings.TrimLeft(rest, " ") {
		key := ""
		if i := strings.IndexAny(rest, `= "{`); i > 0 && rest[i] == '=' {
			key, rest = rest[:i], rest[i+1:]
		}
		word := rest
		if quoted, err := strconv.QuotedPrefix(rest); err == nil {
			rest = rest[len(quoted):]
			word, _ = strconv.Unquote(quoted)
		} else if strings.HasPrefix(rest, "{") {
			rest = ""
		} else {
			word, rest, _ = strings.Cut(rest, " ")
		}
		if key != "" {
			a.named[key] = word
			continue
		}
		words = append(words, word)
	}
	a.verb, a.words = words[0], words[1:]
	return a
}

func (a args) pos(i int) string {
	if i < len(a.words) {
		return a.words[i]
	}
	return ""
}

func (a args) has(word string) bool { return slices.Contains(a.words, word) }

func (a args) int(key string) int {
	n, err := strconv.Atoi(a.named[key])
	require.True(a.t, err == nil || a.named[key] == "", "%s=%s", key, a.named[key])
	return n
}

func (a args) list(key string) []string {
	return strings.FieldsFunc(a.named[key], func(r rune) bool { return r == ',' })
}

func (a args) duration(i int) time.Duration {
	d, err := time.ParseDuration(a.pos(i))
	require.NoError(a.t, err)
	return d
}
