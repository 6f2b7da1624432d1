package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode"

	"github.com/keel-agent/keel/domain"
)

// chatEvent is an event as the server sends it.
type chatEvent struct {
	Seq     int64
	Kind    domain.Kind
	Payload json.RawMessage
}

func parseEvent(data string) (e chatEvent, err error) {
	err = json.Unmarshal([]byte(data), &e)
	return e, err
}

func (e chatEvent) payload() domain.Payload { return domain.StoredPayload(string(e.Payload)) }

// answers returns the seqs of the inputs that e answers.
func (e chatEvent) answers() (seqs []int64) {
	m, err := domain.ParseAssistant(e.payload())
	if e.Kind != domain.AssistantMessage || err != nil || !m.StopReason.Completed() {
		return nil
	}
	for _, seq := range m.InputSeqs {
		seqs = append(seqs, int64(seq))
	}
	return seqs
}

// requestID returns the requestId of the input that e is, "" when it is none.
func (e chatEvent) requestID() string {
	var input struct{ RequestID string }
	if e.Kind != domain.UserMessage || json.Unmarshal(e.Payload, &input) != nil {
		return ""
	}
	return input.RequestID
}

// screen prints a conversation. On a terminal it shows an answer that is being written as a block at the bottom, which
// the message replaces when it lands; elsewhere it prints only what landed, and notes go to another place.
type screen struct {
	out, notes io.Writer
	size       func() (cols, rows int, ok bool) // of the terminal; not ok when there is none
	seq        int64                            // the last event shown
	tools      map[string]string                // names by call id

	generation string          // of the answer that is being written, "" when none is
	text       string          // of it so far
	block      strings.Builder // what stands at the bottom, until it is erased
}

func newScreen(out, notes *os.File) *screen {
	return &screen{
		out: out, notes: notes, tools: map[string]string{},
		size: func() (int, int, bool) { return terminalSize(out) },
	}
}

// live reports whether partial answers are shown.
func (s *screen) live() bool {
	_, _, ok := s.size()
	return ok
}

// note says something about the conversation.
func (s *screen) note(text string) {
	to := s.notes
	if s.live() {
		to = s.out
	}
	s.erase()
	fmt.Fprintf(to, "* %s\n", printable(text))
	s.draw()
}

// line prints one line of the conversation.
func (s *screen) line(e chatEvent, format string, args ...any) {
	fmt.Fprintf(s.out, "[%d] %s\n", e.Seq, printable(fmt.Sprintf(format, args...)))
}

// event shows a committed event.
func (s *screen) event(e chatEvent) {
	s.erase()
	s.seq = e.Seq
	switch e.Kind {
	case domain.UserMessage:
		s.user(e)
	case domain.AssistantMessage:
		s.assistant(e)
	case domain.ToolResult:
		s.result(e)
	case domain.RunFinished:
		s.finished(e)
	default:
		s.line(e, "%s %s", e.Kind, short(string(e.Payload)))
	}
	s.draw()
}

func (s *screen) user(e chatEvent) {
	in, _ := domain.ParseInput(e.payload())
	text := in.Text
	if text == "" {
		text = textOf(in.Content)
	}
	who := "you"
	if in.Delivery == domain.Guide {
		who = "you (guide)"
	}
	s.line(e, "%s: %s", who, text)
}

func (s *screen) assistant(e chatEvent) {
	m, err := domain.ParseAssistant(e.payload())
	if err != nil {
		s.line(e, "%s %s", e.Kind, short(string(e.Payload)))
		return
	}
	if m.GenerationID == s.generation {
		s.generation, s.text = "", ""
	}
	text := textOf(m.Content)
	switch {
	case !m.StopReason.Completed():
		if text != "" && m.Error != "" {
			text += " — "
		}
		s.line(e, "agent (%s): %s", m.StopReason, text+m.Error)
		return
	case m.StopReason != domain.StopEndTurn && m.StopReason != domain.StopToolUse:
		s.line(e, "agent (%s): %s", m.StopReason, text)
	case text != "":
		s.line(e, "agent: %s", text)
	}
	for _, b := range m.Content {
		if b.Type == domain.CallBlock {
			s.tools[b.ID] = b.Name
			s.line(e, "call %s %s", b.Name, short(b.Arguments+b.RawArguments))
		}
	}
}

func (s *screen) result(e chatEvent) {
	out, _ := domain.ParseToolOutput(e.payload())
	name := s.tools[out.ToolCallID]
	delete(s.tools, out.ToolCallID)
	arrow := "→"
	if out.IsError {
		arrow = "failed →"
	}
	s.line(e, "%s %s %s", name, arrow, short(textOf(out.Content)))
}

func (s *screen) finished(e chatEvent) {
	var f struct {
		Status     string
		Turns      int
		DurationMS int64
		Error      string
	}
	_ = json.Unmarshal(e.Payload, &f)
	why := ""
	if f.Error != "" {
		why = ": " + short(f.Error)
	}
	took := (time.Duration(f.DurationMS) * time.Millisecond).Round(10 * time.Millisecond)
	turns := "turns"
	if f.Turns == 1 {
		turns = "turn"
	}
	s.line(e, "run %s, %d %s, %s%s", f.Status, f.Turns, turns, took, why)
	s.generation, s.text = "", ""
}

// textOf returns the text of content.
func textOf(content []domain.Block) string {
	var parts []string
	for _, b := range content {
		switch b.Type {
		case domain.TextBlock:
			parts = append(parts, b.Text)
		case domain.ImageBlock:
			parts = append(parts, "("+b.MimeType+")")
		}
	}
	return strings.Join(parts, "\n")
}

// short returns text as one line that is not long.
func short(text string) string {
	const most = 160
	runes := []rune(strings.Join(strings.Fields(text), " "))
	if len(runes) > most {
		runes = append(runes[:most], '…')
	}
	return string(runes)
}

// printable returns text without control characters, and with all lines but the first indented: nothing that a model or
// a tool says can look like another line of the conversation or move the cursor.
func printable(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == '\n':
			b.WriteString("\n    ")
		case r == '\t':
			b.WriteString("    ")
		case r == '\r':
		case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r):
			b.WriteRune('\uFFFD')
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// partial shows a piece of an answer that is being written.
func (s *screen) partial(data string) {
	var p struct {
		GenerationID string
		Delta        struct{ Text, End string }
	}
	if json.Unmarshal([]byte(data), &p) != nil || !s.live() {
		return
	}
	switch {
	case p.Delta.End != "":
		if p.GenerationID == s.generation {
			s.drop()
		}
	case p.Delta.Text == "":
	case p.GenerationID != s.generation:
		s.drop()
		s.generation, s.text = p.GenerationID, p.Delta.Text
		s.draw()
	default:
		s.text += p.Delta.Text
		s.write(printable(p.Delta.Text))
	}
}

// drop takes away the answer that is being written.
func (s *screen) drop() {
	s.erase()
	s.generation, s.text = "", ""
}

// typed notes a line that the terminal echoed.
func (s *screen) typed(line string) {
	if s.block.Len() > 0 {
		s.block.WriteString(line + "\n")
	}
}

// end leaves the screen in order.
func (s *screen) end() { s.drop() }

func (s *screen) write(text string) {
	s.block.WriteString(text)
	_, _ = io.WriteString(s.out, text)
}

// draw shows the answer that is being written at the bottom, or its end when there is no room for more.
func (s *screen) draw() {
	if s.generation == "" {
		return
	}
	text := printable(s.text)
	if cols, rows, ok := s.size(); ok {
		lines := strings.SplitAfter(text, "\n")
		from := len(lines)
		for from > 0 && height(strings.Join(lines[from-1:], ""), cols) < rows-1 {
			from--
		}
		if from > 0 {
			text = "…\n" + strings.Join(lines[from:], "")
		}
	}
	s.write("[…] agent: " + text)
}

// erase takes the block away. What has left the screen by its top stays as it is.
func (s *screen) erase() {
	if s.block.Len() == 0 {
		return
	}
	cols, rows, _ := s.size()
	up := min(height(s.block.String(), cols), rows) - 1
	s.block.Reset()
	text := "\r\x1b[J"
	if up > 0 {
		text = fmt.Sprintf("\r\x1b[%dA\x1b[J", up)
	}
	_, _ = io.WriteString(s.out, text)
}

// height returns how many rows text takes on a terminal of so many columns.
func height(text string, cols int) int {
	rows, col := 1, 0
	for _, r := range text {
		w := runeWidth(r)
		switch {
		case r == '\n':
			rows, col = rows+1, 0
		case col+w > cols:
			rows, col = rows+1, w
		default:
			col += w
		}
	}
	return rows
}

// wide are the characters that take two columns.
var wide = &unicode.RangeTable{
	R16: []unicode.Range16{
		{0x1100, 0x115f, 1}, {0x2e80, 0xa4cf, 1}, {0xac00, 0xd7a3, 1}, {0xf900, 0xfaff, 1}, {0xfe30, 0xfe6f, 1},
		{0xff00, 0xff60, 1}, {0xffe0, 0xffe6, 1},
	},
	R32: []unicode.Range32{{0x1f300, 0x1f64f, 1}, {0x1f900, 0x1faff, 1}, {0x20000, 0x3fffd, 1}},
}

func runeWidth(r rune) int {
	switch {
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	case unicode.Is(wide, r):
		return 2
	}
	return 1
}
