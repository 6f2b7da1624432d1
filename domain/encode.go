package domain

import "strconv"

// Payload returns the ledger form of m. It returns ErrInvalidPayload or ErrInvalidJSON when m cannot be committed,
// and ErrPayloadTooLarge above maxBytes (0 means DefaultMaxPayload).
func (m Assistant) Payload(maxBytes int) (Payload, error) {
	b := append([]byte(nil), `{"role":"assistant","content":`...)
	b = appendBlocks(b, m.Content)
	if m.HasInputSeqs {
		b = append(b, `,"inputSeqs":[`...)
		for i, s := range m.InputSeqs {
			if i > 0 {
				b = append(b, ',')
			}
			b = strconv.AppendInt(b, int64(s), 10)
		}
		b = append(b, ']')
	}
	b = appendText(b, "stopReason", string(m.StopReason))
	b = appendText(b, "generationId", m.GenerationID)
	b = appendText(b, "provider", m.Provider)
	b = appendText(b, "model", m.Model)
	if m.Usage != nil {
		b = append(append(b, `,"usage":`...), m.Usage.json()...)
	}
	if m.Cost != nil {
		b = m.Cost.appendJSON(append(b, `,"cost":`...))
	}
	b = appendText(b, "error", m.Error)
	return checked(AssistantMessage, append(b, '}'), maxBytes)
}

// Payload returns the ledger form of o, with the errors of Assistant.Payload.
func (o ToolOutput) Payload(maxBytes int) (Payload, error) {
	b := append([]byte(nil), `{"toolCallId":`...)
	b = append(b, quoteJSON(o.ToolCallID)...)
	b = append(b, `,"content":`...)
	b = appendBlocks(b, o.Content)
	b = append(b, `,"isError":`...)
	b = strconv.AppendBool(b, o.IsError)
	b = append(b, `,"durationMs":`...)
	b = strconv.AppendInt(b, o.DurationMS, 10)
	if o.Interrupted {
		b = append(b, `,"interrupted":true`...)
	}
	return checked(ToolResult, append(b, '}'), maxBytes)
}

// Payload returns the ledger form of c, with the errors of Assistant.Payload.
func (c Compacted) Payload(maxBytes int) (Payload, error) {
	b := append([]byte(nil), `{"summary":`...)
	b = append(b, quoteJSON(c.Summary)...)
	b = appendNumber(b, "firstKeptSeq", int64(c.FirstKept))
	b = appendText(b, "provider", c.Provider)
	b = appendText(b, "model", c.Model)
	if c.Usage != nil {
		b = append(append(b, `,"usage":`...), c.Usage.json()...)
	}
	if c.Cost != nil {
		b = c.Cost.appendJSON(append(b, `,"cost":`...))
	}
	return checked(Compaction, append(b, '}'), maxBytes)
}

// Interrupted returns the stand-in result of a call that will never get a real one: it failed because of why.
func Interrupted(call, why string) ToolOutput {
	return ToolOutput{ToolCallID: call, Content: []Block{{Type: TextBlock, Text: why}}, IsError: true, Interrupted: true}
}

// payload returns the ledger form of s under status, shrunk to the status alone when s breaks the shape.
func (s Summary) payload(status string) Payload {
	b := append([]byte(nil), `{"status":`...)
	b = append(b, quoteJSON(status)...)
	least := StoredPayload(string(b) + "}")
	b = appendNumber(b, "turns", int64(s.Turns))
	b = appendText(b, "provider", s.Provider)
	b = appendText(b, "model", s.Model)
	b = appendText(b, "stopReason", string(s.StopReason))
	b = appendNumber(b, "durationMs", s.DurationMS)
	if s.Tokens != nil {
		b = append(append(b, `,"tokens":`...), s.Tokens.json()...)
	}
	b = appendList(b, "costs", s.Costs, Cost.appendJSON)
	b = appendList(b, "toolTimings", s.ToolTimings, ToolTiming.appendJSON)
	if s.Context != nil {
		b = append(b, `,"context":{"messages":`...)
		b = strconv.AppendInt(b, int64(s.Context.Messages), 10)
		b = append(b, '}')
	}
	b = appendText(b, "error", s.Error)
	p, err := checked(RunFinished, append(b, '}'), 0)
	if err != nil {
		return least
	}
	return p
}

func (u *Usage) json() string {
	b := append([]byte(nil), `{"input":`...)
	b = strconv.AppendInt(b, u.Input, 10)
	b = appendNumber(b, "output", u.Output)
	for _, c := range []struct {
		name  string
		value int64
	}{{"cacheRead", u.CacheRead}, {"cacheWrite", u.CacheWrite}, {"reasoning", u.Reasoning}} {
		if c.value != 0 {
			b = appendNumber(b, c.name, c.value)
		}
	}
	return string(append(b, '}'))
}

// appendList appends the member name, unless list is empty.
func appendList[T any](b []byte, name string, list []T, item func(T, []byte) []byte) []byte {
	if len(list) == 0 {
		return b
	}
	b = append(append(append(b, ','), quoteJSON(name)...), ':')
	for i, v := range list {
		b = item(v, append(b, "[,"[min(i, 1)]))
	}
	return append(b, ']')
}

func (t ToolTiming) appendJSON(b []byte) []byte {
	b = append(append(b, `{"toolCallId":`...), quoteJSON(t.ToolCallID)...)
	b = appendText(b, "name", t.Name)
	b = appendNumber(b, "durationMs", t.DurationMS)
	if t.IsError {
		b = append(b, `,"isError":true`...)
	}
	return append(b, '}')
}

func (c Cost) appendJSON(b []byte) []byte {
	b = append(append(b, `{"amount":`...), quoteJSON(string(c.Amount))...)
	return append(appendText(b, "currency", c.Currency), '}')
}

func checked(k Kind, raw []byte, maxBytes int) (Payload, error) {
	p, err := ParsePayload(raw, maxBytes)
	if err != nil {
		return Payload{}, err
	}
	return p, CheckShape(k, p)
}

func appendBlocks(b []byte, blocks []Block) []byte {
	b = append(b, '[')
	for i, block := range blocks {
		if i > 0 {
			b = append(b, ',')
		}
		b = block.appendJSON(b)
	}
	return append(b, ']')
}

func (k Block) appendJSON(b []byte) []byte {
	b = append(append(b, `{"type":`...), quoteJSON(string(k.Type))...)
	switch k.Type {
	case TextBlock:
		b = append(append(b, `,"text":`...), quoteJSON(k.Text)...)
	case ThinkingBlock:
		b = append(append(b, `,"thinking":`...), quoteJSON(k.Thinking)...)
	}
	b = appendText(b, "signature", k.Signature)
	b = appendText(b, "id", k.ID)
	b = appendText(b, "name", k.Name)
	if k.Arguments != "" {
		b = append(append(b, `,"arguments":`...), k.Arguments...)
	}
	b = appendText(b, "rawArguments", k.RawArguments)
	b = appendText(b, "providerId", k.ProviderID)
	b = appendText(b, "mimeType", k.MimeType)
	b = appendText(b, "data", k.Data)
	return append(b, '}')
}

// appendText appends a string member, nothing when s is empty.
func appendText(b []byte, name, s string) []byte {
	if s == "" {
		return b
	}
	b = append(append(append(b, `,"`...), name...), `":`...)
	return append(b, quoteJSON(s)...)
}

func appendNumber(b []byte, name string, n int64) []byte {
	b = append(append(append(b, `,"`...), name...), `":`...)
	return strconv.AppendInt(b, n, 10)
}
