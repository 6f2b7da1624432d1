package main

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"
)

// table is the rows of one group.
type table struct {
	group string
	rows  []row
}

// row is one line of a table.
type row struct {
	measure string
	ours    string
	limit   string // the limit or the peer, named, from the same run
	ratio   string
	goal    string
	met     string
}

// add puts rows at the end of their group's table.
func add(tables []table, group string, rows []row) []table {
	if len(rows) == 0 {
		return tables
	}
	for i := range tables {
		if tables[i].group == group {
			tables[i].rows = append(tables[i].rows, rows...)
			return tables
		}
	}
	return append(tables, table{group, rows})
}

// goal is what a figure shall be. The zero value is no goal.
type goal struct {
	text string
	ok   func(v float64) bool
}

// atLeast is a goal for a ratio of rates.
func atLeast(ratio float64) goal {
	return goal{fmt.Sprintf("≥ %g ×", ratio), func(v float64) bool { return v >= ratio }}
}

// atMost is a goal whose text says what the figure is.
func atMost(limit float64, text string) goal {
	return goal{text, func(v float64) bool { return v <= limit }}
}

// met says whether v is as wanted.
func (g goal) met(v float64) string {
	switch {
	case g.ok == nil:
		return ""
	case g.ok(v):
		return "yes"
	default:
		return "**no**"
	}
}

// rates is the row of two rates that were measured in a contest.
func rates(measure string, s scores, side int, against int, limit string, g goal) row {
	ratio := s.ratio(side, against)
	return row{
		measure: measure, ours: perSecond(s.median(side)), limit: limit + " " + perSecond(s.median(against)),
		ratio: times(ratio), goal: g.text, met: g.met(ratio),
	}
}

// alone is the row of a rate whose peer is absent, and why.
func alone(measure string, s scores, side int, why string) row {
	return row{measure: measure, ours: perSecond(s.median(side)), limit: why}
}

// perSecond writes a rate with the three digits that count.
func perSecond(v float64) string {
	unit := 1.0
	for v/unit >= 1000 {
		unit *= 10
	}
	text := fmt.Sprintf("%.0f", math.Round(v/unit)*unit)
	if n := len(text); n > 3 {
		text = text[:n-3] + "," + text[n-3:]
	}
	return text + "/s"
}

// times writes a ratio.
func times(ratio float64) string {
	if ratio >= 10 {
		return fmt.Sprintf("%.0f ×", ratio)
	}
	return fmt.Sprintf("%.2f ×", ratio)
}

// ms writes a number of milliseconds.
func ms(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f ms", v)
	case v >= 10:
		return fmt.Sprintf("%.1f ms", v)
	case v >= 1:
		return fmt.Sprintf("%.2f ms", v)
	default:
		return fmt.Sprintf("%.3f ms", v)
	}
}

// kib writes a number of bytes.
func kib(v float64) string {
	if v >= 10<<20 {
		return fmt.Sprintf("%.1f MiB", v/(1<<20))
	}
	return fmt.Sprintf("%.1f KiB", v/1024)
}

// markdown writes the report.
func (b *bench) markdown(w io.Writer, facts []string, tables []table, took time.Duration) {
	fmt.Fprintf(w, "# Benchmarks\n\n")
	fmt.Fprintf(w, "Written by `make bench`; goals that are missed say so. Ours and its limit or peer are measured in the same run, in turn, %d rounds "+
		"of %s each: a figure is the median of its rounds, a ratio the median of the rounds' ratios. Only ratios are worth comparing between runs and "+
		"machines. Clients, servers and peers share the cores.\n\n", b.rounds, b.round)
	if b.short {
		fmt.Fprintf(w, "**A short run: these figures only indicate.**\n\n")
	}
	for _, fact := range facts {
		fmt.Fprintf(w, "- %s\n", fact)
	}
	fmt.Fprintf(w, "- the whole took %s\n", took.Round(time.Second))
	for _, t := range tables {
		fmt.Fprintf(w, "\n## %s\n\n| measure | ours | limit or peer | ratio | goal | met? |\n|---|---|---|---|---|---|\n", t.group)
		for _, r := range t.rows {
			cells := []string{r.measure, r.ours, r.limit, r.ratio, r.goal, r.met}
			for i := range cells {
				cells[i] = strings.ReplaceAll(cells[i], "|", `\|`)
			}
			fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | "))
		}
	}
	fmt.Fprintf(w, "\n## How it was measured\n\n")
	for _, line := range append(methods, b.notes...) {
		fmt.Fprintf(w, "- %s\n", line)
	}
}

// methods says what the figures mean.
var methods = []string{
	"Appends: one client per session commits fenced assistant messages of 1 KiB for a claimed run. Bare `INSERT`: the same row into a table of the same " +
		"shape and indexes, one commit each, as many clients. Each side has at most as many connections as the facts say.",
	"Fixed fsync: a second cluster whose fsync and fdatasync are a sleep of one millisecond, which makes ratios repeatable.",
	"SQLite: journal WAL, synchronous FULL on all sides. The pool has one connection per client, the single writer one connection behind a mutex.",
	"Whole runs: submit, claim, three fenced appends (an answer with a call, its result, the last answer; 1 KiB each) and settlement. " +
		"\"By the runner\" is the same played by the runner with a stub provider and a stub tool, its reads included.",
	"message-db: `write_message` of the same payload, guarded by the version of its stream, one stream a client. Writers of a category wait for each " +
		"other's commits.",
	"Restate: its server (four partitions, otherwise as it comes, so with fsync) calls a workflow on its Go SDK in this process, with three durable steps " +
		"of 1 KiB. `keel serve` plays the same by HTTP, an input and its stream at each client, with a tool that is an HTTP endpoint of this process. " +
		"Memory is what the server's process has resident at the end of a round, files that it maps included; Postgres's own is not in it, which is why " +
		"SQLite stands beside.",
	"Latency: the provider is a stub in the same process. The commit beside it is a bare `INSERT` between two submits.",
	"Turns: the runner on the memory store with a stub provider and a stub tool; every ledger ends with a compaction that leaves as much context. The " +
		"collector is off meanwhile; what it would have to do is in the allocations.",
	"Streams: real connections over loopback from another process. Memory is heap in use and stacks after a collection, less what there was before the " +
		"streams. The limit is net/http alone, with a handler that flushes its headers and waits, or hands the same bytes to every connection.",
	"Providers: the body of an HTTP answer is there at once, so these are costs of the processor alone, and rates are by processor time. A stream holds " +
		"4,000 pieces of text. The limits do less: the one reads each event's JSON and keeps nothing, the other writes a request that is maps in memory.",
}
