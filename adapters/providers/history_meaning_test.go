package providers_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/keel-agent/keel/adapters/providers/wire/wiretest"
	"github.com/keel-agent/keel/domain"
)

// What a request has to tell, searched for in the events alone, and as literally after protocol.md as possible. It shares
// no code with domain.Transcript, nor with what makes requests.

// fact is an event as it stands in the ledger.
type fact struct {
	seq  domain.Seq
	kind domain.Kind

	Text       string            `json:"text"` // user.message
	Delivery   domain.Delivery   `json:"delivery"`
	RetryOf    domain.Seq        `json:"retryOf"`
	Content    []piece           `json:"content"`
	InputSeqs  []domain.Seq      `json:"inputSeqs"` // assistant.message
	StopReason domain.StopReason `json:"stopReason"`
	Provider   string            `json:"provider"`
	Model      string            `json:"model"`
	ToolCallID string            `json:"toolCallId"` // tool.result
	IsError    bool              `json:"isError"`
	Summary    string            `json:"summary"` // compaction
	FirstKept  domain.Seq        `json:"firstKeptSeq"`
}

// piece is a content block.
type piece struct {
	Type      domain.BlockType `json:"type"`
	Text      string           `json:"text"`
	Thinking  string           `json:"thinking"`
	Signature string           `json:"signature"`
	ID        string           `json:"id"`
	Name      string           `json:"name"`
	Arguments jsontext.Value   `json:"arguments"`
	Raw       string           `json:"rawArguments"`
	MimeType  string           `json:"mimeType"`
	Data      string           `json:"data"`
}

func readFacts(t *testing.T, events []domain.Event) []fact {
	facts := make([]fact, len(events))
	for i, e := range events {
		require.NoError(t, json.Unmarshal(e.Payload.Bytes(), &facts[i]))
		facts[i].seq, facts[i].kind = e.Seq, e.Kind
	}
	return facts
}

// completed: "any stopReason except error and aborted". Others "are never sent back to a model".
func (f fact) completed() bool {
	return f.kind == domain.AssistantMessage && f.StopReason != domain.StopError && f.StopReason != domain.StopAborted
}

// meaning is what a request to a model tells that is made behind the last of the facts, in a turn that claimed inputs up to
// a seq.
type meaning struct {
	facts   []fact
	claim   domain.Seq
	backend *backend
	model   domain.Model
	list    []wiretest.Told
}

// wanted returns all that is to be told, in order.
func (m *meaning) wanted() []wiretest.Told {
	cut := m.cut()
	var listed []domain.Seq
	kept := false // an answer behind the cut
	for _, f := range m.facts {
		if !f.completed() {
			continue
		}
		// An input stands where it was presented first. What stands before the first kept answer and was committed before the
		// cut gave way to the summary.
		for _, in := range m.inputs(func(s domain.Seq) bool { return slices.Contains(f.InputSeqs, s) && !slices.Contains(listed, s) }) {
			if kept || in.seq >= cut {
				m.input(in)
			}
		}
		listed = append(listed, f.InputSeqs...)
		if f.seq >= cut {
			m.answer(f)
			kept = true
		}
	}
	guide := m.guide(listed)
	for _, in := range m.inputs(func(s domain.Seq) bool { return !slices.Contains(listed, s) && (s <= m.claim || s == guide) }) {
		m.input(in)
	}
	return m.inTurns()
}

// cut begins with the summary of the last compaction and returns the seq of the first event that it kept.
func (m *meaning) cut() (first domain.Seq) {
	for _, f := range slices.Backward(m.facts) {
		if f.kind != domain.Compaction {
			continue
		}
		text := "(empty message)"
		if strings.TrimSpace(f.Summary) != "" {
			text = "Summary of the conversation before this point:" + f.Summary
		}
		m.say(wiretest.Told{Role: domain.RoleUser, Type: domain.TextBlock, Text: text})
		return f.FirstKept
	}
	return 0
}

// guide: "one guide per boundary, in seq order".
func (m *meaning) guide(listed []domain.Seq) domain.Seq {
	for _, f := range m.facts {
		if f.Delivery == domain.Guide && f.seq > m.claim && !slices.Contains(listed, f.seq) {
			return f.seq
		}
	}
	return 0
}

// inputs returns those that are presented together: one that a later of them "names in retryOf is shown to the model only
// through that later one".
func (m *meaning) inputs(together func(domain.Seq) bool) (list []fact) {
	for _, f := range m.facts {
		if f.kind == domain.UserMessage && together(f.seq) {
			list = slices.DeleteFunc(list, func(before fact) bool { return before.seq == f.RetryOf })
			list = append(list, f)
		}
	}
	return list
}

func (m *meaning) say(t wiretest.Told) { m.list = append(m.list, t) }

func (m *meaning) input(f fact) {
	m.shown(append([]piece{{Type: domain.TextBlock, Text: f.Text}}, f.Content...), wiretest.Told{Role: domain.RoleUser, Text: "(empty message)"})
}

// answer tells what a model said, and behind it for each call its result, in call order.
func (m *meaning) answer(f fact) {
	begin := len(m.list)
	for i, p := range f.Content {
		told := wiretest.Told{Role: domain.RoleAssistant, Type: p.Type, Text: p.Text}
		switch {
		case p.Type == domain.CallBlock:
			told.Call, told.Name, told.Text = p.ID, p.Name, string(p.Arguments)
			if p.Arguments == nil {
				told.Text = `{"malformed":` + wiretest.Quote(p.Raw) + `}`
			}
		case p.Type == domain.ThinkingBlock && m.goesBack(f, i):
			told.Text = m.backend.thought(p)
		case p.Type == domain.ImageBlock && m.backend.answersImages && m.takes(p):
			told.Text = p.Data
		case p.Type == domain.ImageBlock && p.Data != "" && !m.model.Takes(domain.ModalityImage):
			told.Type, told.Text = domain.TextBlock, noImage
		case p.Type != domain.TextBlock || strings.TrimSpace(p.Text) == "":
			continue
		}
		m.say(told)
	}
	if m.backend.callsLast {
		slices.SortStableFunc(m.list[begin:], func(a, b wiretest.Told) int { return min(len(a.Call), 1) - min(len(b.Call), 1) })
	}
	for _, p := range f.Content {
		if p.Type == domain.CallBlock {
			m.result(p.ID)
		}
	}
}

// goesBack: thinking goes "byte-identical to the same backend", or nowhere. What is said has to be behind it, on most wires.
func (m *meaning) goesBack(f fact, i int) bool {
	p, b := f.Content[i], m.backend
	rest := f.Content[i+1:]
	if b.thinksLast {
		rest = f.Content
	}
	says := func(p piece) bool {
		return p.Type == domain.CallBlock || p.Type == domain.TextBlock && strings.TrimSpace(p.Text) != "" ||
			p.Type == domain.ImageBlock && b.answersImages && (m.takes(p) || p.Data != "" && !m.model.Takes(domain.ModalityImage))
	}
	return p.Signature != "" && !strings.ContainsRune(b.thought(p)+p.Signature, 0) && slices.ContainsFunc(rest, says) &&
		b.sign != nil && f.Provider == b.provider && b.maker(f.Model) == b.maker(m.model.Name)
}

// thought returns what p's model thought.
func (b *backend) thought(p piece) string {
	if b.signsWhole {
		return strings.TrimSuffix(p.Thinking, spoil)
	}
	return p.Thinking
}

// result tells the result of a call, or that there is none.
func (m *meaning) result(call string) {
	told := wiretest.Told{Role: domain.RoleTool, Call: call, Text: "(no output)"}
	for _, f := range m.facts {
		if f.kind == domain.ToolResult && f.ToolCallID == call {
			told.IsError = f.IsError && m.backend.tellsErrors
			m.shown(f.Content, told)
			return
		}
	}
	told.Type, told.IsError, told.Text = domain.TextBlock, m.backend.tellsErrors, "The call was interrupted; its outcome is unknown."
	m.say(told)
}

// shown tells the texts and images of a list, or what told says where it has none.
func (m *meaning) shown(list []piece, told wiretest.Told) {
	begin := len(m.list)
	told.Type = domain.TextBlock
	for _, p := range list {
		next := told
		next.Type, next.Text = p.Type, p.Text
		switch {
		case p.Type == domain.TextBlock && strings.TrimSpace(p.Text) != "":
		case p.Type == domain.ImageBlock && p.Data != "":
			next.Text = p.Data
			if !m.takes(p) || told.IsError && m.backend.failsInText {
				next.Type, next.Text = domain.TextBlock, noImage
			}
		default:
			continue
		}
		m.say(next)
	}
	if len(m.list) == begin {
		m.say(told)
	}
}

const noImage = "(an image)" // what says in some words that there was one

// takes reports whether the model can be shown an image. All good ones are PNGs, whatever they claim to be.
func (m *meaning) takes(p piece) bool {
	return m.model.Takes(domain.ModalityImage) && slices.Contains(wiretest.WebImages, strings.ToLower(p.MimeType)) &&
		wiretest.IsImage("image/png", p.Data, "image/png") && (m.backend.maxSide == 0 || wiretest.Side(p.Data) <= m.backend.maxSide)
}

// inTurns: most wires want the user to have the first word and the last.
func (m *meaning) inTurns() []wiretest.Told {
	user := func(text string) wiretest.Told {
		return wiretest.Told{Role: domain.RoleUser, Type: domain.TextBlock, Text: text}
	}
	n := len(m.list)
	switch {
	case n == 0 && m.backend.anyTurns:
		m.say(user("(empty message)"))
	case !m.backend.anyTurns && (n == 0 || m.list[n-1].Role == domain.RoleAssistant):
		m.say(user("(continue)"))
	}
	if n > 0 && !m.backend.anyTurns && m.list[0].Role == domain.RoleAssistant {
		m.list = slices.Insert(m.list, 0, user("(empty message)"))
	}
	return m.list
}

// checkMeaning holds that the body of a request to model tells what the facts say. Out of lean ones old images and the rest
// of long outputs may have been left, with a note in their place.
func (l *line) checkMeaning(model domain.Model, facts []fact, claim domain.Seq, lean bool) error {
	got, err := l.backend.told([]byte(l.body))
	if err != nil {
		return err
	}
	m := meaning{facts: facts, claim: claim, backend: l.backend, model: model}
	want, have := speeches(m.wanted(), lean), speeches(got, lean)
	for i := range max(len(want), len(have)) {
		w, h := append(want, "nothing")[min(i, len(want))], append(have, "nothing")[min(i, len(have))]
		if w != h {
			same := 0
			for same < min(len(w), len(h)) && w[same] == h[same] {
				same++
			}
			begin := max(0, same-60)
			return fmt.Errorf("speech %d of %d, from byte %d on: tells %.200q, wants %.200q", i, len(want), begin, h[begin:], w[begin:])
		}
	}
	return nil
}
