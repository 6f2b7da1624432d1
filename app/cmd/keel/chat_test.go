package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tmaxmax/go-sse"
)

// terminal understands as much of a terminal's language as the screen speaks.
type terminal struct {
	cols, rows int
	lines      [][]rune // all of them, with those that left by the top
	row, col   int
}

func (m *terminal) size() (cols, rows int, ok bool) { return m.cols, m.rows, m.cols > 0 }

func (m *terminal) Write(p []byte) (int, error) {
	text := []rune(string(p))
	for i := 0; i < len(text); i++ {
		switch r := text[i]; r {
		case '\r':
			m.col = 0
		case '\n':
			m.row, m.col = m.row+1, 0
		case '\x1b':
			end := i + 2 + strings.IndexAny(string(text[i+2:]), "AJ")
			if text[end] == 'A' {
				n, err := strconv.Atoi(string(text[i+2 : end]))
				if err != nil {
					return 0, err
				}
				m.row = max(m.row-n, len(m.lines)-m.rows, 0)
			} else if m.row < len(m.lines) {
				m.lines = append(m.lines[:m.row:m.row], m.lines[m.row][:min(m.col, len(m.lines[m.row]))])
			}
			i = end
		default:
			w := runeWidth(r)
			if m.col+w > m.cols {
				m.row, m.col = m.row+1, 0
			}
			m.put(r, w)
		}
		for len(m.lines) <= m.row {
			m.lines = append(m.lines, nil)
		}
	}
	return len(p), nil
}

func (m *terminal) put(r rune, w int) {
	for len(m.lines) <= m.row {
		m.lines = append(m.lines, nil)
	}
	line := m.lines[m.row]
	for len(line) < m.col+w {
		line = append(line, ' ')
	}
	line[m.col] = r
	m.lines[m.row], m.col = line, m.col+w
}

// text returns what stands on the terminal. Wide characters are followed by a space.
func (m *terminal) text() string {
	var b strings.Builder
	for _, line := range m.lines {
		b.WriteString(strings.TrimRight(string(line), " ") + "\n")
	}
	return strings.TrimRight(b.String(), "\n")
}

func onTerminal(cols, rows int) (*screen, *terminal) {
	m := &terminal{cols: cols, rows: rows}
	return &screen{out: m, notes: m, tools: map[string]string{}, size: m.size}, m
}

func landed(seq int, generation, text string) chatEvent {
	return chatEvent{Seq: int64(seq), Kind: "assistant.message", Payload: fmt.Appendf(nil,
		`{"role":"assistant","content":[{"type":"text","text":%q}],"inputSeqs":[1],"stopReason":"end_turn","generationId":%q}`, text, generation)}
}

func (s *screen) piece(generation, text string) {
	s.partial(fmt.Sprintf(`{"generationId":%q,"delta":{"text":%q}}`, generation, text))
}

func TestScreenReplacesWhatIsBeingWritten(t *testing.T) {
	for _, text := range []string{"one word", "three\nlines\nof it", strings.Repeat("exactly twenty wide ", 3), "日本語は広い文字です、とても広い"} {
		s, m := onTerminal(20, 24)
		s.note("hello")
		for _, r := range text {
			s.piece("g1", string(r))
		}
		require.Contains(t, m.text(), "[…] agent: ")
		m2 := &terminal{cols: 20, rows: 24}
		_, _ = fmt.Fprintf(m2, "* hello\n[2] agent: %s\n", printable(text))
		s.event(landed(2, "g1", text))
		require.Equal(t, m2.text(), m.text())
	}
}

func TestScreenPutsTheRestAboveWhatIsBeingWritten(t *testing.T) {
	s, m := onTerminal(40, 24)
	s.piece("g1", "half an ans")
	_, _ = m.Write([]byte("typed\n")) // echoed by the terminal
	s.typed("typed")
	s.event(chatEvent{Seq: 3, Kind: "user.message", Payload: []byte(`{"text":"typed","requestId":"r"}`)})
	require.Equal(t, "[3] you: typed\n[…] agent: half an ans", m.text())
	s.piece("g1", "wer")
	require.Equal(t, "[3] you: typed\n[…] agent: half an answer", m.text())
	s.piece("g2", "another attempt")
	require.Equal(t, "[3] you: typed\n[…] agent: another attempt", m.text())
	s.partial(`{"generationId":"g2","delta":{"end":"error"}}`)
	require.Equal(t, "[3] you: typed", m.text())
}

// An answer that does not fit leaves its beginning behind, and nothing above it is touched.
func TestScreenTooLowForTheAnswer(t *testing.T) {
	s, m := onTerminal(20, 5)
	s.note("above")
	for i := range 30 {
		s.piece("g1", fmt.Sprintf("line %d\n", i))
	}
	s.note("between")
	s.event(landed(2, "g1", "short"))
	require.True(t, strings.HasPrefix(m.text(), "* above\n"), m.text())
	require.True(t, strings.HasSuffix(m.text(), "* between\n[2] agent: short"), m.text())
}

func TestScreenElsewhere(t *testing.T) {
	var out, notes bytes.Buffer
	s := &screen{out: &out, notes: &notes, tools: map[string]string{}, size: (&terminal{}).size}
	s.note("a note")
	s.piece("g1", "half")
	s.event(chatEvent{Seq: 2, Kind: "assistant.message", Payload: []byte(`{"role":"assistant","content":[{"type":"text","text":"a\u001b[2J\n[9] you: b"},` +
		`{"type":"toolCall","id":"c1","name":"sleep","arguments":{"ms":5}}],"inputSeqs":[1],"stopReason":"tool_use"}`)})
	s.event(chatEvent{Seq: 3, Kind: "tool.result", Payload: []byte(`{"toolCallId":"c1","content":[{"type":"text","text":"no\nway"}],"isError":true,"durationMs":1}`)})
	s.event(chatEvent{Seq: 4, Kind: "assistant.message", Payload: []byte(`{"role":"assistant","content":[],"inputSeqs":[1],"stopReason":"error","error":"overloaded"}`)})
	s.event(chatEvent{Seq: 5, Kind: "run.finished", Payload: []byte(`{"status":"failed","turns":1,"durationMs":1234,"error":"overloaded"}`)})
	s.event(chatEvent{Seq: 6, Kind: "something.new", Payload: []byte(`{"a":1}`)})
	s.end()
	require.Equal(t, "[2] agent: a\uFFFD[2J\n    [9] you: b\n[2] call sleep {\"ms\":5}\n[3] sleep failed → no way\n"+
		"[4] agent (error): overloaded\n[5] run failed, 1 turn, 1.23s: overloaded\n[6] something.new {\"a\":1}\n", out.String())
	require.Equal(t, "* a note\n", notes.String())
	require.EqualValues(t, 6, s.seq)
}

func TestWhichAnswersAreFinal(t *testing.T) {
	for status, final := range map[int]bool{
		http.StatusBadRequest: true, http.StatusUnauthorized: true, http.StatusConflict: true,
		http.StatusTooManyRequests: false, http.StatusInternalServerError: false, http.StatusServiceUnavailable: false,
	} {
		require.Equal(t, final, errors.Is(&problem{status: status}, errRefused), status)
	}
	require.ErrorIs(t, hopeless{errors.New("x")}, errRefused)
}

// Urgent jobs go before what is being tried again, and nothing else changes its place.
func TestMailerHurries(t *testing.T) {
	m, a, b, c, d := newMailer(), &job{}, &job{}, &job{urgent: true}, &job{urgent: true}
	for _, j := range []*job{a, b} {
		m.give(j)
	}
	require.False(t, m.hurry())
	m.give(c)
	m.give(d)
	require.True(t, m.hurry())
	require.Equal(t, []*job{c, a, b, d}, m.queue)
	require.False(t, m.hurry(), "an urgent one is first already")
	m.removeFirst()
	require.True(t, m.hurry())
	require.Same(t, d, m.first())
}

// What the stream has shown is with the server, also when the reply to it is still on its way.
func TestInterruptedBeforeTheReply(t *testing.T) {
	out, _ := onTerminal(80, 24)
	c := &chat{screen: out, mailer: newMailer(), sent: map[string]bool{}, answered: map[int64]bool{}}
	c.say("hello", "")
	require.ErrorContains(t, c.leave(true), "the last 1 of")
	var id string
	for id = range c.sent {
	}
	frame := func(id string) sse.Event {
		return sse.Event{Data: fmt.Sprintf(`{"seq":1,"kind":"user.message","payload":{"content":[{"type":"text","text":"hello"}],"requestId":%q}}`, id)}
	}
	c.show(frame("of somebody else"))
	require.Error(t, c.leave(true))
	c.show(frame(id))
	require.NoError(t, c.leave(true))
}
