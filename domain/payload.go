package domain

import (
	"slices"
	"strconv"
	"strings"
)

// The shapes that a payload must have at commit (protocol.md §8). A parser returns ErrInvalidPayload, with the field at
// fault, for a payload that its kind does not allow. Unknown members are always allowed.

// CheckShape returns nil when p has the shape of kind k.
func CheckShape(k Kind, p Payload) error {
	_, err := parseFact(k, p)
	return err
}

// fact is what a payload says, parsed once. Which fields are set follows from the kind.
type fact struct {
	input     Input
	answer    Assistant
	output    ToolOutput
	status    string // run.finished
	compacted Compacted
}

func parseFact(k Kind, p Payload) (f fact, err error) {
	switch k {
	case UserMessage:
		f.input, err = ParseInput(p)
	case AssistantMessage:
		f.answer, err = ParseAssistant(p)
	case ToolResult:
		f.output, err = ParseToolOutput(p)
	case RunFinished:
		f.status, err = parseFinished(p)
	case Compaction:
		f.compacted, err = ParseCompaction(p)
	case ExternalEvent:
		_, err = parseExternal(p)
	default:
		err = newReader(p).err
	}
	return f, err
}

// ParseInput reads the payload of a user.message.
func ParseInput(p Payload) (Input, error) {
	r := newReader(p)
	in := Input{
		Text:      r.text("text"),
		RequestID: r.id("requestId"),
		Delivery:  r.delivery("delivery"),
		Requested: r.delivery("requestedDelivery"),
		Selection: r.selection("selection"),
		RetryOf:   Seq(r.count("retryOf")),
		Content:   r.blocks("content", false),
	}
	return in, r.err
}

// ParseAssistant reads the payload of an assistant.message.
func ParseAssistant(p Payload) (Assistant, error) {
	r := newReader(p)
	m := Assistant{
		Content:      r.blocks("content", true),
		StopReason:   StopReason(r.text("stopReason")),
		GenerationID: r.text("generationId"),
		Provider:     r.text("provider"),
		Model:        r.text("model"),
		Error:        r.text("error"),
		Usage:        r.usage("usage"),
		Cost:         r.cost("cost"),
	}
	m.InputSeqs, m.HasInputSeqs = r.inputSeqs("inputSeqs")
	switch m.StopReason {
	case StopEndTurn, StopToolUse, StopLength, StopRefusal, StopError, StopAborted:
	default:
		r.fail("stopReason", "must be one of end_turn, tool_use, length, refusal, error, aborted")
	}
	return m, r.err
}

// ParseToolOutput reads the payload of a tool.result.
func ParseToolOutput(p Payload) (ToolOutput, error) {
	r := newReader(p)
	out := ToolOutput{
		ToolCallID:  r.id("toolCallId"),
		Content:     r.blocks("content", false),
		IsError:     r.flag("isError"),
		Interrupted: r.flag("interrupted"),
		DurationMS:  r.count("durationMs"),
	}
	if out.ToolCallID == "" {
		r.fail("toolCallId", "is required")
	}
	return out, r.err
}

// The statuses of run.finished.
const (
	finishedDone      = "done"
	finishedFailed    = "failed"
	finishedCancelled = "cancelled"
)

func parseFinished(p Payload) (status string, err error) {
	r := newReader(p)
	status = r.text("status")
	if status != finishedDone && status != finishedFailed && status != finishedCancelled {
		r.fail("status", "must be one of done, failed, cancelled")
	}
	for _, counter := range []string{"turns", "durationMs"} {
		r.count(counter)
	}
	r.usage("tokens")
	r.costs("costs")
	if raw, ok := r.o.get("toolTimings"); ok {
		list, err := elements(raw)
		if err != nil || slices.ContainsFunc(list, func(e string) bool { return kindOf(e) != '{' }) {
			r.fail("toolTimings", "must be an array of objects")
		}
	}
	return status, r.err
}

// ParseCompaction reads the payload of a compaction.
func ParseCompaction(p Payload) (Compacted, error) {
	r := newReader(p)
	if !r.o.has("summary") {
		r.fail("summary", "is required")
	}
	c := Compacted{
		Summary: r.text("summary"), FirstKept: Seq(r.count("firstKeptSeq")),
		Provider: r.text("provider"), Model: r.text("model"), Usage: r.usage("usage"), Cost: r.cost("cost"),
	}
	if c.FirstKept == 0 {
		r.fail("firstKeptSeq", "must be a positive integer")
	}
	return c, r.err
}

func parseExternal(p Payload) (requestID string, err error) {
	r := newReader(p)
	for _, name := range []string{"backend", "externalRef"} {
		if !r.o.has(name) {
			r.fail(name, "is required")
		}
	}
	if raw, ok := r.o.get("stateOwner"); ok && raw != `"external"` {
		r.fail("stateOwner", "must be external")
	}
	requestID = r.id("requestId")
	return requestID, r.err
}

// reader reads the members of a payload and keeps the first fault.
type reader struct {
	o   object
	err error
}

func newReader(p Payload) *reader {
	o, err := parseObject(p.String())
	r := &reader{o: o}
	if err != nil {
		r.err = ErrInvalidPayload.With("must be a JSON object")
	}
	return r
}

func (r *reader) fail(field, detail string) {
	if r.err == nil {
		r.err = ErrInvalidPayload.At(field).With(detail)
	}
}

func (r *reader) text(name string) string {
	s, _, err := r.o.str(name)
	if err != nil {
		r.fail(name, "must be a string")
	}
	return s
}

// id reads a string that other rows refer to: U+0000 is not allowed in it.
func (r *reader) id(name string) string {
	s := r.text(name)
	if strings.ContainsRune(s, 0) {
		r.fail(name, "must not contain U+0000")
	}
	return s
}

func (r *reader) flag(name string) bool {
	raw, ok := r.o.get(name)
	if ok && raw != "true" && raw != "false" {
		r.fail(name, "must be a boolean")
	}
	return raw == "true"
}

func (r *reader) count(name string) int64 {
	n, _, err := r.o.int(name)
	if err != nil || n < 0 {
		r.fail(name, "must be a non-negative integer")
	}
	return n
}

func (r *reader) delivery(name string) Delivery {
	d := Delivery(r.text(name))
	if r.o.has(name) && d != Queue && d != Guide {
		r.fail(name, "must be queue or guide")
	}
	return d
}

func (r *reader) selection(name string) string {
	raw, ok := r.o.get(name)
	if !ok {
		return ""
	}
	if kindOf(raw) != '{' {
		r.fail(name, "must be an object")
	}
	if hasNUL(raw) {
		r.fail(name, "must not contain U+0000")
	}
	return raw
}

func (r *reader) usage(name string) *Usage {
	raw, ok := r.o.get(name)
	if !ok {
		return nil
	}
	u := newReader(StoredPayload(raw))
	got := &Usage{
		Input: u.count("input"), Output: u.count("output"), CacheRead: u.count("cacheRead"),
		CacheWrite: u.count("cacheWrite"), Reasoning: u.count("reasoning"),
	}
	if u.err != nil {
		r.fail(name, "must be an object of non-negative integers")
	}
	return got
}

func (r *reader) cost(name string) *Cost {
	raw, ok := r.o.get(name)
	if !ok {
		return nil
	}
	c := newReader(StoredPayload(raw))
	amount, whole := parseAmount(c.text("amount"), amountDigits, amountScale)
	got := &Cost{Amount: amount, Currency: c.text("currency")}
	if c.err != nil || !whole || !isCurrency(got.Currency) {
		r.fail(name, "must be an amount, a decimal in a string, and a currency of three capital letters")
	}
	return got
}

// costs checks an array of costs.
func (r *reader) costs(name string) {
	raw, ok := r.o.get(name)
	if !ok {
		return
	}
	list, err := elements(raw)
	if err != nil {
		r.fail(name, "must be an array")
	}
	for _, e := range list {
		one := reader{o: object{[]member{{name, e}}}, err: r.err}
		one.cost(name)
		r.err = one.err
	}
}

func (r *reader) inputSeqs(name string) ([]Seq, bool) {
	raw, ok := r.o.get(name)
	if !ok {
		return nil, false
	}
	list, err := elements(raw)
	if err != nil {
		r.fail(name, "must be an array")
	}
	seqs := make([]Seq, 0, len(list))
	for i, e := range list {
		n, whole := int64(0), kindOf(e) == '0'
		if whole {
			n, whole = parseInt(e)
		}
		if !whole || n < 1 || i > 0 && Seq(n) <= seqs[i-1] {
			r.fail(name, "must be strictly ascending positive integers")
			return nil, true
		}
		seqs = append(seqs, Seq(n))
	}
	return seqs, true
}

// blocks reads an array of content blocks. withCalls demands that each toolCall block has a name, and an id that can be
// the key of its result and is unlike those before it.
func (r *reader) blocks(name string, withCalls bool) []Block {
	raw, ok := r.o.get(name)
	if !ok {
		return nil
	}
	list, err := elements(raw)
	if err != nil {
		r.fail(name, "must be an array of blocks")
		return nil
	}
	blocks := make([]Block, 0, len(list))
	var seen []string
	for i, e := range list {
		field := name + "/" + strconv.Itoa(i)
		b := r.block(field, e)
		if withCalls && b.Type == CallBlock {
			if b.ID == "" || b.Name == "" {
				r.fail(field, "a toolCall needs an id and a name")
			}
			if err := CheckID(b.ID); err != nil {
				r.fail(field+"/id", err.Error())
			}
			if slices.Contains(seen, b.ID) {
				r.fail(field, "tool call ids must not repeat")
			}
			seen = append(seen, b.ID)
		}
		blocks = append(blocks, b)
	}
	return blocks
}

func (r *reader) block(field, raw string) Block {
	if kindOf(raw) != '{' {
		r.fail(field, "must be an object")
		return Block{}
	}
	b := newReader(StoredPayload(raw))
	got := Block{Type: BlockType(b.text("type"))}
	switch got.Type {
	case TextBlock, ThinkingBlock, CallBlock, ImageBlock:
		b.known(&got)
	}
	if b.err != nil {
		r.fail(field, b.err.Error())
	}
	return got
}

// known reads the members that the known block types share; those of other types are not ours to judge.
func (r *reader) known(got *Block) {
	got.Text, got.Thinking, got.Signature = r.text("text"), r.text("thinking"), r.text("signature")
	got.ID, got.Name, got.ProviderID = r.id("id"), r.id("name"), r.text("providerId")
	got.RawArguments = r.text("rawArguments")
	got.MimeType, got.Data = r.text("mimeType"), r.text("data")
	if args, ok := r.o.get("arguments"); ok {
		if kindOf(args) != '{' {
			r.fail("arguments", "must be an object")
		}
		got.Arguments = args
	}
}

// hasNUL reports whether strict JSON text holds the character U+0000 in any string.
func hasNUL(raw string) bool {
	for {
		i := strings.Index(raw, `\`)
		if i < 0 {
			return false
		}
		if strings.HasPrefix(raw[i:], `\u0000`) {
			return true
		}
		raw = raw[i+2:]
	}
}
